# Two commands do all set-up on a machine with Python 3.11, pip and make:
#   make explore    the workbench in JupyterLab
#   make test       every test
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help explore test check fix bundle figures clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

explore: $(VENV)/.app ## JupyterLab open on your copy of notebooks/explore.ipynb (ARGS="--port=9999" goes to jupyter lab)
	@scripts/explore.sh $(VENV) $(ARGS)

test: $(VENV)/.dev ## all tests, with what they need installed first (ARGS="-k board" goes to pytest)
	@scripts/chromium.sh $(VENV) || true
	EXPLORER_REQUIRE_BROWSER=1 $(BIN)/python -m pytest $(ARGS)

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
