# fedamd on a GPU: docker build -f docker/cuda.Dockerfile -t fedamd-cuda . && docker run --rm --gpus all fedamd-cuda doctor
FROM python:3.12-slim AS build
# The distribution has one version of each at a time.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

# PyTorch's own wheels bring CUDA; Triton wants a C compiler when it first compiles a kernel
FROM python:3.12-slim
# The distribution has one version of each at a time.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
COPY constraints.txt /tmp/constraints.txt
RUN pip install --no-cache-dir --constraint /tmp/constraints.txt /wheels/*.whl triton \
    && rm -r /wheels /tmp/constraints.txt && useradd --uid 1000 --create-home fedamd && mkdir /federation && chown 1000 /federation
USER 1000
WORKDIR /federation
ENTRYPOINT ["fedamd"]
CMD ["doctor"]
