# The same verbs for people, CI and agents. Each sets up what it needs by itself.
.DEFAULT_GOAL := help
.PHONY: help setup fmt check test prove test-all chaos bench bench-drivers demo docs

BIN := .venv/bin
READY := .venv/.ready

# The first interpreter that truly runs: a pyenv shim may be on PATH and point nowhere.
FIND_PYTHON = for python in python3.11 python3 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; python=; done; \
	test -n "$$python" || { echo "Holdfast needs Python 3.11 or newer: apt-get install python3.11 python3.11-venv" >&2; exit 1; }

help:
	@echo "make setup | fmt | check | test | prove | test-all | chaos | bench | bench-drivers | demo | docs    (see CONTRIBUTING.md)"

setup: $(READY)

$(READY): pyproject.toml
	@$(FIND_PYTHON); "$$python" scripts/setup.py

fmt: setup
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

# Tests of the shape of the code and of its pages.
CHECKED := tests/gate tests/docs

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/python scripts/check_size.py
	$(BIN)/python scripts/generate_sync.py --check
	$(BIN)/python -m scripts.generate_docs --check
	$(BIN)/pytest -q -n logical $(CHECKED)

test: setup # what `check` runs is not run again
	$(BIN)/pytest -n logical -m "not slow and not proof" $(CHECKED:%=--ignore=%)

prove: setup
	$(BIN)/pytest -n logical -m "proof and not slow" $(CHECKED:%=--ignore=%)

test-all: setup
	$(BIN)/pytest -n logical

chaos: setup # STORE=sqlite or STORE=postgres: only there
	$(BIN)/python -m chaos $(if $(STORE),--store $(STORE))

bench: setup # STORE=sqlite or STORE=postgres: only there
	$(BIN)/python -m benchmarks $(if $(STORE),--store $(STORE))

bench-drivers: setup
	$(BIN)/python -m benchmarks.drivers

demo: setup
	$(BIN)/python examples/demo/run.py

docs: setup
	$(BIN)/python scripts/generate_sync.py
	$(BIN)/python -m scripts.generate_docs
