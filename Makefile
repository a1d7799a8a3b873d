# `make demo` and `make test` do all set-up themselves. CI runs the same targets.

PYTHON ?= python3
VENV := .venv
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)
DEMO := $(VENV)/.ready-demo
READY := $(VENV)/.ready-dev
# Whole modules go to two processes, so that what the tests of a module share is made once.
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder
PEERS := .venv-peers
LOWEST := .venv-lowest
LOWEST_TESTS := $(addprefix tests/,auditing cells cli/test_app.py contract methods release schema tables test_api.py test_extras.py)

.PHONY: setup demo check test test-fast test-lowest mutants bench attack fuzz peers records papers docs dist wheel image lock clean

# What the demo needs is installed first; everything else is added to the same environment.
$(DEMO): pyproject.toml requirements.lock
	@$(PYTHON) tools/environment.py demo

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) tools/environment.py dev

setup: $(READY)

demo: $(DEMO)
	@$(BIN)/microcell demo --output demo --force

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_architecture.py

# Each of the interpreters started would compile all modules again without bytecode.
demo test test-fast mutants: export PYTHONDONTWRITEBYTECODE :=

test: setup
	$(BIN)/pytest -q $(WORKERS)

# The inner loop: without the tests marked slow or listed in tests/long.txt.
test-fast: setup
	$(BIN)/pytest -q $(WORKERS) -p no:schemathesis -m "not slow and not long" tests

# The share of small changes to kernels, proofs and audits that the tests notice.
mutants: setup
	$(BIN)/python -m benchmarks.mutants $(if $(COUNT),--count $(COUNT))

# The lowest versions that pyproject.toml allows, in a separate environment.
test-lowest: setup
	$(BIN)/uv pip compile --quiet --upgrade --resolution lowest-direct --all-extras --no-header --no-annotate \
		--python $(BIN)/python --output-file build/lowest.txt pyproject.toml
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/$(SCRIPTS)/python --requirement build/lowest.txt \
		--constraint build/lowest.txt --editable . hypothesis pandas pypdf pytest pytest-timeout pytest-xdist
	NUMBA_CACHE_DIR=$(CURDIR)/build/lowest-kernels $(LOWEST)/$(SCRIPTS)/pytest -q $(WORKERS) -m "not slow" -W ignore::DeprecationWarning $(LOWEST_TESTS)

bench: setup
	$(if $(filter-out full,$(PROFILE)),,$(BIN)/python -m benchmarks.equal_records)
	$(if $(filter-out full,$(PROFILE)),,$(BIN)/python -m benchmarks.optimum)
	$(BIN)/python -m benchmarks $(or $(PROFILE),full)
	$(if $(filter-out full,$(PROFILE)),,$(BIN)/python -m benchmarks.requirements)

# Attack releases; a full run also writes docs/attacks.md and the figure in the README.
attack: setup
	$(BIN)/python -m benchmarks.adversary $(or $(PROFILE),full)
	$(if $(filter-out full,$(PROFILE)),,$(BIN)/python docs/make_readme.py)

# Publish N releases of random tables and recount them with other readers; CASE=… repeats one.
fuzz: setup
	$(BIN)/python -m benchmarks.fuzz $(or $(N),2000) --seed $(or $(SEED),0) $(if $(CASE),--case $(CASE))

# Packages to compare with in benchmarks, in a separate environment because their requirements may conflict with ours.
peers: setup
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(PEERS)
	$(BIN)/uv pip install --quiet --python $(PEERS)/$(SCRIPTS)/python --editable . --group peers

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
	$(BIN)/python docs/make_notebooks.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open build/site/index.html"
	@echo "With search: $(BIN)/python -m http.server -d build/site"

# A wheel with compiled kernels for this platform and version of Python.
wheel: setup
	MICROCELL_BUILD_KERNELS=1 $(BIN)/uv build --quiet --wheel --python $(BIN)/python

# The pure wheel and the source distribution, as published.
dist: setup
	rm -rf dist
	$(BIN)/uv build --quiet
	$(BIN)/uv tool run twine check --strict dist/*

image:
	docker build --tag microcell .

lock: setup
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev --no-emit-index-url \
		--no-header --no-annotate --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) $(PEERS) $(LOWEST) demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
