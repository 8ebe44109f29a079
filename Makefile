# make run   the dev server with the demo bundle and the reference agent
# make test  everything that must pass; CI runs this

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8080
NODE_CLIENT := tests/contract/node

.PHONY: run test test-all lint format bundle browser clean

run: $(VENV)/.serve
	@$(BIN)/frontdesk dev --bundle models/demo --agent examples/agent/agent.py --port $(PORT)

test: $(VENV)/.dev $(VENV)/redis-stack $(NODE_CLIENT)/node_modules/.done browser lint
	$(BIN)/python -m pytest -q -m "not slow"

test-all: $(VENV)/.distill $(VENV)/redis-stack $(NODE_CLIENT)/node_modules/.done browser lint
	$(BIN)/python -m pytest -q

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bundle: $(VENV)/.distill
	$(BIN)/frontdesk distill examples/desk -o models/demo

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

# The shared cache is tested on a real Redis Stack, which exists so for Linux on x86-64 alone.
$(VENV)/redis-stack: tests/redis_stack.py | $(VENV)/.dev
	@case "$$(uname -sm)" in "Linux x86_64") $(BIN)/python tests/redis_stack.py $@ && touch $@;; \
	  *) echo "No Redis Stack for this machine: its tests are skipped";; esac

# npm ci removes node_modules first, so the mark is gone until all of it is there.
$(NODE_CLIENT)/node_modules/.done: $(NODE_CLIENT)/package.json $(NODE_CLIENT)/package-lock.json
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' && npm --version >/dev/null || \
	  { echo "make test needs Node.js 20 or newer with npm, for the tests with OpenAI's Node SDK: https://nodejs.org/en/download"; exit 1; }
	npm ci --prefix $(NODE_CLIENT) --ignore-scripts --no-audit --no-fund
	@touch $@

browser:
	@for name in chromium chromium-browser google-chrome google-chrome-stable \
	  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do command -v "$$name" >/dev/null && exit 0; done; \
	  echo "make test needs Chromium or Chrome, for the tests of the report: apt-get install chromium fonts-noto-cjk, or brew install --cask google-chrome"; exit 1

clean:
	rm -rf $(VENV) $(NODE_CLIENT)/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis
