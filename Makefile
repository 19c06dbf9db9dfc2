# Two commands do all the set-up: `make demo` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# The first interpreter that is new enough; override it with `make PYTHON=/path/to/python demo`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# What is installed is compiled where it is first imported: most of it never is.
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --no-compile --progress-bar on -c constraints.txt
LAB_FLAGS ?= $(shell [ "$$(id -u)" = 0 ] && echo --allow-root)
# One more than two cores: tests wait for kernels, servers and pages for a part of their time.
WORKERS ?= 3
# Nothing of what is run here may ask a model, whatever keys are set.
REPLAY := JUPYTER_AGENT_MODE=replay

.PHONY: help demo demo-local lab test test-deep test-collaboration notebooks check format examples docs bench bench-quick eval eval-quick matrix clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-19s %s\n", $$1, $$2}'

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer is needed. Install it, or name one: make PYTHON=/path/to/python demo"; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python's venv module is missing (on Debian: apt-get install python3-venv)."; exit 1; }

$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing what the demonstration needs into $(VENV) ..."
	$(INSTALL) -e '.[demo]'
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing what the tests and the examples need into $(VENV) ..."
	$(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo ## execute the quickstart notebook, replayed, into build/
	@$(BIN)/jupyter-agent demo --to build

$(VENV)/.local: $(VENV)/.demo
	@echo "Installing llama.cpp into $(VENV) ..."
	$(INSTALL) -e '.[demo,local]'
	@touch $@

demo-local: $(VENV)/.local ## run the quickstart live on a small model of this machine (1.1 GB, fetched once)
	@model=$$($(BIN)/python scripts/fetch_model.py) && \
	JUPYTER_AGENT_PROVIDER=local JUPYTER_AGENT_LOCAL__MODEL_PATH="$$model" \
	$(BIN)/jupyter-agent demo --live --to build/local

lab: $(VENV)/.dev ## open JupyterLab with the examples
	@# A wheel carries the front-end extension, an editable install does not.
	@mkdir -p $(VENV)/share/jupyter/labextensions/jupyter-agent
	@cp -R labextension/. $(VENV)/share/jupyter/labextensions/jupyter-agent
	$(BIN)/jupyter lab $(LAB_FLAGS) --notebook-dir=example_notebooks

test: $(VENV)/.dev ## run the tests, and the example notebooks under nbval: about eight minutes
	$(BIN)/python -m pytest -n $(WORKERS)
	@$(MAKE) --no-print-directory notebooks

test-deep: $(VENV)/.dev ## run every test with many more generated examples: half an hour and more
	HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -n $(WORKERS) -m ""
	@$(MAKE) --no-print-directory notebooks

COLLABORATION := build/collaboration

test-collaboration: ## run the tests of the open notebook with real-time collaboration switched on
	@$(MAKE) --no-print-directory VENV=$(COLLABORATION) $(COLLABORATION)/.dev
	$(COLLABORATION)/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt jupyter-collaboration
	$(COLLABORATION)/bin/python -m pytest tests/browser/test_cells.py

notebooks: $(VENV)/.dev ## validate the example notebooks from their cassettes
	$(REPLAY) $(BIN)/python -m pytest --nbval -p no:cacheprovider -n $(WORKERS) --dist loadscope --loadscope-reorder example_notebooks

check: $(VENV)/.dev ## formatting, lint, types, who may import whom, and one name for one type
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_names.py

format: $(VENV)/.dev ## put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

examples: $(VENV)/.dev ## make the examples' cassettes and outputs anew from their scripts
	$(BIN)/python scripts/make_examples.py

docs: $(VENV)/.dev ## build the documentation, with the reference and the examples, into build/docs
	$(BIN)/python scripts/make_reference.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/docs
	@echo "The documentation: build/docs/index.html"

bench: $(VENV)/.dev ## measure beside the peers, and write docs/benchmarks.md
	$(BIN)/python -m benchmarks --out docs/benchmarks.md

bench-quick: $(VENV)/.dev ## print the cheap ratios, without peers
	$(BIN)/python -m benchmarks --quick

# The tasks, which are others' work.
EVAL_DATA ?=
EVAL = @[ -n "$(EVAL_DATA)" ] || { echo "Name the folder of the tasks: make $@ EVAL_DATA=FOLDER (python -m evals --help says where they can be had)"; exit 1; }; \
	$(BIN)/python -m evals --data "$(EVAL_DATA)"

eval: $(VENV)/.dev ## solve tasks beside other agents for an hour, go on with the next run, write docs/quality.md
	$(EVAL) --minutes 60 --out docs/quality.md

eval-quick: $(VENV)/.dev ## solve a fixed sample of tasks, without smolagents: about five minutes
	$(EVAL) --tasks 5 --minutes 5 --agents one loop ours

matrix: $(VENV)/.dev ## run demo and test on Python 3.11 to 3.13, then ipykernel 6.31, 7.3, 7.4
	$(BIN)/python scripts/matrix.py

clean: ## remove what was built, .venv included
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
