# Two commands do all set-up on a machine with Python 3.11, pip and make:
#   make explore    the workbench in JupyterLab
#   make test       the tests
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
# `make test` deals the files of tests out to so many processes.
WORKERS ?= 2
# `make test-all` runs this share of the slower tests, chosen by this number: a new choice every day.
SHARE ?= 1
SEED ?= $(shell date -u +%Y%m%d)
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help explore test test-all test-alone check fix bundle figures clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

explore: $(VENV)/.app ## JupyterLab open on your copy of notebooks/explore.ipynb (ARGS="--port=9999" goes to jupyter lab)
	@scripts/explore.sh $(VENV) $(ARGS)

test: $(VENV)/.dev ## the tests but the slowest, with what they need installed first (ARGS="-k board" goes to pytest)
	@scripts/chromium.sh $(VENV) || true
	EXPLORER_REQUIRE_BROWSER=1 $(BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist loadfile $(ARGS)

test-all: $(VENV)/.dev ## the slower rest (SHARE=0.3 of it, chosen by SEED=7)
	@scripts/chromium.sh $(VENV) || true
	EXPLORER_REQUIRE_BROWSER=1 HYPOTHESIS_PROFILE=sample EXPLORER_TEST_SEED=$(SEED) EXPLORER_SLOW_SHARE=$(SHARE) \
	  $(BIN)/python -m pytest -m slow --hypothesis-seed=$(SEED) $(ARGS)

test-alone: $(VENV)/.dev ## the tests that read the reference folder, in a clone that has none
	scripts/test_alone.sh $(VENV) $(ARGS)

check: $(VENV)/.dev ## lint, format, types, JavaScript
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	scripts/check_js.sh

fix: $(VENV)/.dev ## mend what can be mended by a program
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bundle: ## build widgets/static from widgets/js (needs node and npm)
	cd widgets/js && npm ci --no-audit --no-fund && npm run build

figures: $(VENV)/.dev ## run the benchmarks and rewrite the figures in README.md (ARGS=evaluate runs one)
	$(BIN)/python scripts/figures.py $(ARGS)

clean: ## remove the environment and all that tools left behind
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info widgets/js/node_modules

# An environment is made again only when what it is made of changes. `dev` contains `app`.
$(VENV)/.app: pyproject.toml constraints.txt scripts/install.sh scripts/jupyterlab_overrides.json
	@scripts/install.sh $(PYTHON) $(VENV) hf
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt scripts/install.sh scripts/jupyterlab_overrides.json
	@scripts/install.sh $(PYTHON) $(VENV) dev
	@touch $(VENV)/.app $@
