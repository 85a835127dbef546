# meshwright: every command a contributor needs. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format clean

PYTHON ?= python3
WORKERS ?= 2
VENV ?= .venv
BIN := $(VENV)/bin
# Through the links the modules are `meshwright.compiler...`, as an import sees them (.ci/imports.toml says why).
LINKED := meshwright/__init__.py meshwright/compiler meshwright/runtime meshwright/cost_models tests examples benchmarks

export JAX_PLATFORMS ?= cpu
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp-run ## Set up and train examples/gpt.py, planned on 8 virtual devices
	@$(BIN)/python examples/gpt.py

test: lint ## Set up, lint, check types, run the fast tests
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

test-all: lint ## The same with the slow tests
	@$(BIN)/python -m pytest -n $(WORKERS)

lint: $(VENV)/.stamp-dev ## ruff (rules and format) and pyright
	@$(BIN)/ruff check .
	@$(BIN)/ruff check --quiet --config .ci/imports.toml $(LINKED)
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/.stamp-dev ## Fix what ruff can fix
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean: ## Remove the environment, caches and build output
	rm -rf $(VENV) .cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- set-up -------------------------------------------------------------------------------------------------------

# $(call install,EXTRA): an editable install at the versions in constraints.txt; one dot per package, log kept.
define install
	@echo "Installing meshwright[$(1)] into $(VENV) (a minute or two; log in $(VENV)/install.log)"
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off \
	    -c constraints.txt -e '.[$(1)]' 2>&1 | tee $(VENV)/install.log \
	    | while read -r line; do \
	        case $$line in Collecting*) printf .;; 'Installing collected'*) printf ' installing ';; esac; done \
	    || { echo; tail -n 25 $(VENV)/install.log; exit 1; }
	@echo done
endef

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "meshwright needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	    || { v=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	         echo "$(PYTHON) cannot make virtual environments. Run: apt-get install python$$v-venv"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp-run: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(call install,examples)
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(call install,dev)
	@touch $@ $(VENV)/.stamp-run
