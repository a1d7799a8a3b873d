# `make demo` and `make test` do all set-up themselves. CI runs the same targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers

.PHONY: setup demo check test bench peers records papers docs lock clean

setup: $(READY)

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "microcell needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(BIN)/microcell compile
	@touch $(READY)

demo: setup
	@mkdir -p demo
	$(BIN)/microcell example --output demo --force
	$(BIN)/microcell anonymize demo/people.csv --schema demo/schema.toml -k 5 --output demo/people_k5.csv --report demo/people_k5.html
	@echo
	@echo "Published table:  demo/people_k5.csv"
	@echo "Report to open:   demo/people_k5.html"

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_architecture.py

test: setup
	$(BIN)/pytest -q -n 2 --dist worksteal

bench: setup
	$(BIN)/python -m benchmarks $(or $(PROFILE),full)

# Packages to compare with in benchmarks, in a separate environment because their requirements may conflict with ours.
peers:
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --editable . --group peers

records: setup
	$(BIN)/python -m benchmarks.records $(or $(EFFORT),best)

# Reproduce the five papers; a full run also regenerates the results page.
papers: setup
	$(BIN)/python -m experiments --profile $(or $(PROFILE),full)
	$(if $(filter-out full,$(PROFILE)),,$(BIN)/python -m experiments.page)

docs: setup
	$(BIN)/python docs/make_reference.py
	$(BIN)/python docs/make_methods.py
	$(BIN)/python docs/make_readme.py
	$(BIN)/python docs/make_picture.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open build/site/index.html"
	@echo "With search: $(BIN)/python -m http.server -d build/site"

lock:
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev --no-emit-index-url \
		--no-header --no-annotate --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) $(PEERS) demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
