# make run   install what is needed into .venv, train FedAMD on embedded data, draw a picture
# make test  install the test tools too, check style and types, run the tests
# make slow-tests  the slow and end-to-end tests
# make docs  the documentation site, into build/site
# make dist  the sdist, and the wheel with the native libraries of all levels of CPU, into dist

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# bytecode is left to the first import: most of what PyTorch brings is never imported
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt
OUT := runs/first-$(shell date +%Y%m%d-%H%M%S)
NATIVE := src/fedamd/oracles/native
BUILD := $(CURDIR)/$(BIN)/python -c 'import build; build.build_best()'
NEEDED := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")
# two test processes share the cores: one thread each keeps them out of each other's way
TESTS := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

.PHONY: run test slow-tests lint bench docs dist clean

run: $(VENV)/.run
	$(BIN)/fedamd run examples/digits.toml --out $(OUT)
	$(BIN)/fedamd plot $(OUT)

test: $(VENV)/.test lint
	$(TESTS) -m "not slow"

slow-tests: $(VENV)/.test
	$(TESTS) -m slow

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.run
	$(BIN)/fedamd bench

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: $(VENV)/.dist
	rm -rf dist build/dist && mkdir -p build
	$(BIN)/python -m build --outdir build/dist . >build/dist.log 2>&1 || { tail build/dist.log; exit 1; }  # from the sdist
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/dist/*.whl
	cp build/dist/*.tar.gz dist
	ls -l dist

$(VENV)/.venv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=…")'
	$(PYTHON) -m venv $(VENV)
	touch $@

# the compiler works while pip does; where there is none, the installation says so
$(VENV)/.run: $(VENV)/.venv pyproject.toml setup.py constraints.txt
	$(BIN)/python -c '$(NEEDED)' >$(VENV)/needed.txt
	(cd $(NATIVE) && $(BUILD) 2>/dev/null || true) & $(PIP) --requirement $(VENV)/needed.txt; wait
	$(PIP) --editable .
	touch $@

$(VENV)/.test: $(VENV)/.run
	$(PIP) --editable '.[test,flower]'
	touch $@

$(VENV)/.docs: $(VENV)/.run
	$(PIP) --editable '.[docs]'
	touch $@

$(VENV)/.dist: $(VENV)/.run
	$(PIP) --editable '.[dist]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info
