# fedamd on a CPU: docker build -f docker/cpu.Dockerfile -t fedamd . && docker run --rm -v "$PWD/runs:/federation/runs" fedamd run
FROM python:3.12-slim AS build
# The distribution has one version of each at a time.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM python:3.12-slim
COPY --from=build /wheels /wheels
COPY constraints.txt /tmp/constraints.txt
RUN pip install --no-cache-dir --constraint /tmp/constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu /wheels/*.whl \
    && rm -r /wheels /tmp/constraints.txt && useradd --uid 1000 --create-home fedamd && mkdir /federation && chown 1000 /federation
USER 1000
WORKDIR /federation
ENTRYPOINT ["fedamd"]
CMD ["doctor"]
