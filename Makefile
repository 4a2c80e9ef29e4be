# SPDX-License-Identifier: BSD-3-Clause
# The commands for users and developers. Needs python3 (3.10-3.15, with venv and headers), a C++20
# compiler and make; everything else is installed from the Python package index into .venv.
PYTHON ?= python3
VENV ?= .venv
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PYTEST_ARGS ?= -n auto --maxprocesses 8
SMOKE ?= tests/extension/test_abi.py tests/autograd/test_autograd_backward.py tests/function/test_function_basic.py tests/interop/test_interop_numpy.py \
  tests/nn/test_nn_module.py tests/optim/test_optim.py tests/ops/test_ops_shape.py tests/files/test_serialization.py \
  tests/tensor/test_tensor_creation.py tests/tensor/test_tensor_protocol.py tests/robust/test_threads.py
BENCH_ARGS ?=
PIP_ARGS ?= -q --disable-pip-version-check

PY := $(VENV)/bin/python
PIP := $(PY) -m pip
STAMPS := $(VENV)/stamps
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
# Lets all checkouts share the entries of ccache, if it is here; messages keep absolute paths.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= true
export CCACHE_ABSSTDERR ?= true
# A stamp has the time at which its target began, so files edited meanwhile are newer.
BEGIN = @mkdir -p $(@D) && touch $@.begun
END = @mv $@.begun $@
# Python keeps the bytecode of what it imports, even where the environment says not to, so pip need
# not compile all of each package, which takes 26 CPU seconds.
export PYTHONDONTWRITEBYTECODE :=
PIP_INSTALL := $(PIP) install --no-compile $(PIP_ARGS)
# The build requirements of pyproject.toml plus the tools it would fetch (tests/repo/test_package.py
# compares): builds run without isolation so that a second one recompiles only what changed.
BUILD_REQS := "cmake>=3.26" "ninja>=1.11" "pybind11>=3.1" "scikit-build-core>=1.1" \
  "scipy-openblas32>=0.3.30"
SOURCES := $(shell find csrc python cmake third_party -type f -not -name '*.pyc' 2>/dev/null) \
  CMakeLists.txt pyproject.toml README.md LICENSE
# All settings are passed each time, because CMake would remember a value passed once.
SETTINGS := --config-settings=cmake.define.COGRAD_WERROR=$(if $(WERROR),ON,OFF) \
  --config-settings=cmake.define.COGRAD_OPTIMISATION=$(or $(OPTIMISATION),-O2) \
  --config-settings=cmake.define.COGRAD_PREBUILT=$(if $(PREBUILT),$(abspath $(PREBUILT)))
# Builds without isolation, installs with pip and shows the build's progress; PIP_ARGS=-v shows all.
BUILD := $(PY) tools/install.py $(SETTINGS) $(PIP_ARGS)

.PHONY: help demo test smoke nightly fuzz pairs sanitize bench lint format wheel wheels docs stubs install clean distclean
.DEFAULT_GOAL := help

help:
	@echo "make demo    build, install into $(VENV), train on handwritten digits, write demo.png"
	@echo "make test    build, install into $(VENV), run the whole test suite"
	@echo "make smoke   as make test, with a few test files; for another Python: VENV=.venv-3.13 PYTHON=python3.13"
	@echo "make nightly run checks that are too slow for every change: the other Pythons"
	@echo ".ci/run      run what a change must pass; ONLY='test lint' and SKIP='fuzz python-*' choose steps"
	@echo "make fuzz    search for crashes, hangs and leaks for FUZZ_MINUTES=10; FUZZ_ARGS='ops --only conv'"
	@echo "make pairs   combine modules, ops and optimizers with contexts; PAIRS_ARGS='--seed 5 --only LayerNorm'"
	@echo "make sanitize  build under sanitizers, run part of the suite and the fuzzers; takes hours"
	@echo "make bench   compare cograd with torch in .venv-bench, print the table"
	@echo "make lint    run ruff, clang-format, mypy, clang-tidy and other checks; LINT_ARGS='ruff mypy'"
	@echo "make format  apply ruff's and clang-format's fixes"
	@echo "make wheel   build the manylinux wheel into dist/"
	@echo "make wheels  build and test a wheel for each CPython found; the core is compiled once"
	@echo "make docs    build the documentation into docs/_build/html; DOCS_VERSION=x: _build/site/x"
	@echo "make pictures  copy the examples' pictures and the last benchmark's figures into the docs"
	@echo "make install build and install into $(VENV), showing the progress; PIP_ARGS=-v shows all output"
	@echo "make stubs   rewrite torch's surface (python/surface), the type stubs and the C++ headers"
	@echo "make clean   remove build products; make distclean removes the environments too"

$(STAMPS)/venv: tools/preflight.sh
	@sh tools/preflight.sh "$(PYTHON)" "$(CXX)"
	$(BEGIN)
	"$(PYTHON)" -m venv "$(VENV)"
	$(PIP_INSTALL) $(BUILD_REQS)
	$(END)

# Installs the extra $*; the project is installed later, from the kept build directory.
$(STAMPS)/deps-%: $(STAMPS)/venv pyproject.toml tools/requirements.py
	$(BEGIN)
	$(PY) tools/requirements.py $* > $(STAMPS)/requirements-$*.txt
	$(PIP_INSTALL) -r $(STAMPS)/requirements-$*.txt
	$(END)

$(STAMPS)/installed: $(STAMPS)/venv $(STAMPS)/deps-run $(SOURCES)
	$(BEGIN)
	$(BUILD)
	$(END)

install: $(STAMPS)/installed

# Everything that .ci/run needs, but the project itself.
.PHONY: environment
environment: $(STAMPS)/deps-dev $(STAMPS)/deps-docs

demo: $(STAMPS)/deps-demo $(STAMPS)/installed
	$(PY) examples/legendre.py
	$(PY) examples/digits.py

test: $(STAMPS)/deps-test $(STAMPS)/installed
	$(PY) -m pytest --timeout 300 $(PYTEST_ARGS)

# Quickly checks a Python other than the one of `make test`.
smoke: $(STAMPS)/deps-smoke $(STAMPS)/installed
	$(PY) -m pytest --timeout 120 -m "not slow" $(PYTEST_ARGS) $(SMOKE)

nightly:
	bash .ci/nightly

FUZZ_MINUTES ?= 10
FUZZ_ARGS ?=
fuzz: $(STAMPS)/deps-test $(STAMPS)/installed
	$(PY) tests/fuzz --minutes $(FUZZ_MINUTES) $(FUZZ_ARGS)

PAIRS_ARGS ?=
pairs: $(STAMPS)/deps-test $(STAMPS)/installed
	$(PY) tests/pairs $(PAIRS_ARGS)

SANITIZE_ARGS ?=
sanitize: $(STAMPS)/deps-test
	$(PY) tools/sanitize.py $(SANITIZE_ARGS)

bench:
	$(MAKE) --no-print-directory VENV=.venv-bench bench-run

.PHONY: bench-run
bench-run: $(STAMPS)/deps-bench $(STAMPS)/torch $(STAMPS)/installed
	$(PY) -m benchmarks $(BENCH_ARGS)

# The default torch build includes GPU libraries but is as fast; TORCH_INDEX selects a CPU build.
$(STAMPS)/torch: $(STAMPS)/venv
	$(BEGIN)
	$(PIP) install $(PIP_ARGS) $(TORCH_INDEX) "torch==2.13.0"
	$(END)

LINT_ARGS ?=
lint: $(STAMPS)/deps-dev $(STAMPS)/installed
	$(PY) tools/lint.py $(LINT_ARGS)

format: $(STAMPS)/deps-dev
	$(PY) tools/lint.py --fix

wheel: $(STAMPS)/deps-wheel
	$(PY) tools/wheel.py

# PYTHONS replaces the interpreters that are found; for WHEELS_ARGS see tools/wheels.py.
PYTHONS ?=
WHEELS_ARGS ?=
wheels: $(STAMPS)/deps-wheel
	$(PY) tools/wheels.py $(WHEELS_ARGS) $(PYTHONS)

# DOCS_BUILDER=dummy reads and resolves every page but writes none, which saves minutes.
# DOCS_VERSION=0.1.0 (or =dev) builds into docs/_build/site/0.1.0, next to other versions.
DOCS_BUILDER ?= html
DOCS_VERSION ?=
docs: $(STAMPS)/deps-docs $(STAMPS)/installed
	DOCS_VERSION=$(DOCS_VERSION) $(PY) -m sphinx -W --keep-going -j auto -b $(DOCS_BUILDER) -d docs/_build/doctrees \
	  docs docs/_build/$(if $(DOCS_VERSION),site/$(DOCS_VERSION),$(DOCS_BUILDER))
	$(if $(DOCS_VERSION),$(PY) tools/docs_versions.py docs/_build/site)

# Updates the README and the docs: pictures of the examples, figures of `make bench`.
.PHONY: pictures
pictures: demo
	cp demo.png legendre.png docs/_static/
	$(PY) tools/fill_results.py

# The surface comes first: the stubs are read from an installed package that has it.
stubs: $(STAMPS)/venv
	$(PY) tools/gen_surface.py
	$(MAKE) --no-print-directory install
	$(PY) tools/gen_stubs.py
	$(PY) tools/gen_headers.py

clean:
	rm -rf build dist wheelhouse docs/_build benchmarks/results demo.png legendre.png

distclean: clean
	rm -rf .venv .venv-* .cache
