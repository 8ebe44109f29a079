# make run   the dev server with the demo bundle and the reference agent
# make worker  the program that wrangler would deploy, and its size
# make test  everything that must pass; CI runs this

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8080
NODE_CLIENT := tests/contract/node
WORKER := edge/worker
WRANGLER := WRANGLER_SEND_METRICS=false $(WORKER)/node_modules/.bin/wrangler deploy --dry-run

.PHONY: run worker test test-all lint format bundle browser clean

run: $(VENV)/.serve
	@$(BIN)/frontdesk dev --bundle models/demo --agent examples/agent/agent.py --port $(PORT)

worker: $(WORKER)/build/.done
	@cat $(WORKER)/build/sizes.txt

test: $(VENV)/.dev $(VENV)/redis-stack $(NODE_CLIENT)/node_modules/.done $(WORKER)/build/.done browser lint
	$(BIN)/python -m pytest -q -m "not slow"

test-all: $(VENV)/.distill $(VENV)/redis-stack $(NODE_CLIENT)/node_modules/.done $(WORKER)/build/.done browser lint
	$(BIN)/python -m pytest -q

lint: $(VENV)/.dev $(WORKER)/node_modules/.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	npm run check --silent --prefix $(WORKER)

format: $(VENV)/.dev $(WORKER)/node_modules/.done
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd $(WORKER) && npx biome check --write .

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
$(NODE_CLIENT)/node_modules/.done $(WORKER)/node_modules/.done: %/node_modules/.done: %/package.json %/package-lock.json
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' && npm --version >/dev/null || \
	  { echo "This needs Node.js 20 or newer with npm, for the isolate's worker and OpenAI's Node SDK: https://nodejs.org/en/download"; exit 1; }
	npm ci --prefix $* --ignore-scripts --no-audit --no-fund
	@touch $@

# What wrangler would upload, and a second program with the same parts for tests.
$(WORKER)/build/.done: $(WORKER)/node_modules/.done wrangler.toml models/demo/frontdesk.json \
  $(wildcard $(WORKER)/*.ts $(WORKER)/src/*.ts $(WORKER)/src/stages/*.ts $(WORKER)/test/*.ts)
	rm -rf $(WORKER)/build && mkdir $(WORKER)/build
	$(WRANGLER) --outdir $(WORKER)/build/worker > $(WORKER)/build/wrangler.txt || { cat $(WORKER)/build/wrangler.txt; exit 1; }
	$(WRANGLER) $(WORKER)/test/probe.ts --outdir $(WORKER)/build/probe > /dev/null
	grep 'Total Upload' $(WORKER)/build/wrangler.txt > $(WORKER)/build/sizes.txt
	@touch $@

browser:
	@for name in chromium chromium-browser google-chrome google-chrome-stable \
	  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do command -v "$$name" >/dev/null && exit 0; done; \
	  echo "make test needs Chromium or Chrome, for the tests of the report: apt-get install chromium fonts-noto-cjk, or brew install --cask google-chrome"; exit 1

clean:
	rm -rf $(VENV) $(NODE_CLIENT)/node_modules $(WORKER)/node_modules $(WORKER)/build .mypy_cache .ruff_cache .pytest_cache .hypothesis
