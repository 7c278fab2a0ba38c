# The words that people and CI use. `make help` lists them. `make demo` and `make test` do all set-up by themselves.
#
#   PYTHON=/path/to/python   the Python (3.11 or newer) that the environment is made from
#   FILE=path                the text file that `make demo` works on
#   UPDATE=1                 let `make gas` rewrite what it compares with
#   SEED=number              where `make fuzz` starts from

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup compile demo test conformance fuzz gas lint format wheel test-wheel lock clean

PYTHON ?=
FILE ?=
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9

# Ape keeps what it learns about chains in the user's ~/.ape. Tests and demo use chains that live for seconds, so they
# keep it in the project; `ape run deploy` is not run from here and uses the user's own accounts.
LOCAL_APE := APE_DATA_FOLDER="$(CURDIR)/.ape-data"

help: ## List these targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

setup: $(VENV)/.linked ## Make .venv and node_modules with exactly the locked versions.

$(VENV)/.installed: pyproject.toml requirements.lock tools/ape-provenflow/pyproject.toml tools/prerequisites.sh
	@python=$$(PYTHON="$(PYTHON)" sh tools/prerequisites.sh) && \
	if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    rm -rf $(VENV) && "$$python" -m venv $(VENV); \
	fi
	@echo "installing the locked Python packages, about a minute ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c requirements.lock -e '.[dev]' -e tools/ape-provenflow
	@touch $@

node_modules/.installed: package.json package-lock.json .npmrc tools/prerequisites.sh
	@PYTHON="$(PYTHON)" sh tools/prerequisites.sh >/dev/null
	@echo "installing the locked Node packages ..."
	@npm ci --loglevel=error --no-update-notifier
	@touch $@

$(VENV)/.linked: $(VENV)/.installed node_modules/.installed tools/link_tools.py
	@$(BIN)/python tools/link_tools.py
	@touch $@

compile: setup ## Compile the contracts when anything changed, and export their ABIs and bytecode.
	@$(LOCAL_APE) $(BIN)/python -m provenflow.build

demo: compile ## Run an agent workflow on a local chain and verify it: make demo FILE=text.txt
	@$(LOCAL_APE) $(BIN)/python scripts/demo.py $(if $(FILE),"$(FILE)")

test: compile ## Run every test: Python on a local chain, and forge's fuzz tests.
	$(LOCAL_APE) $(BIN)/python -m pytest tests
	@if [ -n "$$(find fuzz -name '*.t.sol' 2>/dev/null | head -n 1)" ]; then \
	    echo "$(BIN)/forge test"; PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/forge test; \
	fi

conformance: compile ## Write docs/CONFORMANCE.md from the requirement markers of the tests.
	$(BIN)/python -m tests.support.conformance

gas: setup ## Measure gas and code size against snapshots/gas.json; with UPDATE=1 rewrite it and docs/GAS.md's tables.
	$(BIN)/python -m benchmarks.gas $(if $(UPDATE),--update,--check)

# Not part of `make test`: it starts somewhere else each time and takes a quarter of an hour.
fuzz: compile ## Search further than make test does: SEED=number repeats a search.
	@seed="$${SEED:-$$(date +%s)}" && echo "SEED=$$seed" && \
	    FOUNDRY_FUZZ_SEED="$$seed" FOUNDRY_FUZZ_RUNS=5000 FOUNDRY_INVARIANT_RUNS=128 FOUNDRY_INVARIANT_DEPTH=160 \
	    PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/forge test && \
	    $(LOCAL_APE) $(BIN)/python -m pytest --hypothesis-profile nightly --hypothesis-seed "$$seed" --timeout 0 \
	    tests/unit/workflow/test_stateful_model.py tests/unit/python/test_hashing_reference.py

lint: setup ## Check style, formatting and types of Python and Solidity; any finding fails.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/forge fmt --check
	$(BIN)/node node_modules/solhint/solhint.js --disc --noPoster --max-warnings 0 'contracts/**/*.sol'

format: setup ## Rewrite Python and Solidity in the project's format.
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/forge fmt

wheel: compile ## Build the wheel, with the compiled contracts in it, into dist/.
	@rm -rf dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

test-wheel: wheel ## Install the wheel into an empty environment and use it there.
	$(BIN)/python tools/check_wheel.py

# uv resolves, in an environment of its own that is thrown away. It keeps the versions that are locked as long as
# pyproject.toml allows them; delete requirements.lock first to take the newest.
lock: setup ## Renew requirements.lock and package-lock.json from pyproject.toml and package.json.
	@rm -rf .lock-env && $(BIN)/python -m venv .lock-env
	.lock-env/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	.lock-env/bin/uv pip compile pyproject.toml --all-extras --python-version 3.11 --no-header --no-annotate \
	    --no-emit-index-url --system-certs --quiet -o requirements.lock
	@rm -rf .lock-env
	npm install --package-lock-only --loglevel=error

clean: ## Remove everything built; .venv and node_modules stay.
	rm -rf .build .forge .ape-data .lock-env dist provenflow/_artifacts contracts/.cache
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -not -path './node_modules/*' -prune -exec rm -rf {} +
