# make run   the dev server with the demo bundle and the reference agent
# make test  everything that must pass; CI runs this

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8080

.PHONY: run test test-all lint format bundle clean

run: $(VENV)/.serve
	@$(BIN)/frontdesk dev --bundle models/demo --agent examples/agent/agent.py --port $(PORT)

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -q -m "not slow"

test-all: $(VENV)/.distill lint
	$(BIN)/python -m pytest -q

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bundle: $(VENV)/.dev
	$(BIN)/frontdesk train examples/desk -o models/demo

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Frontdesk needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	@echo "Setting up $(VENV): about half a minute"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.serve: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[server]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@ $(VENV)/.serve

$(VENV)/.distill: pyproject.toml $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -e '.[dev,distill]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
