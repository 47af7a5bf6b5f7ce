# Two commands from nothing: `make demo` and `make test`. Each makes its own environment in .venv.
PYTHON ?= python3
BIN := .venv/bin
RUNS ?= 2000
SEED ?= 0
PYTHONS ?= 3.11 3.12 3.13
RESOLUTIONS ?= lowest-direct highest
TESTS ?= tests

.PHONY: demo test check docs matrix dist audit chaos bench format clean

demo: .venv/plain
	PYTHONDONTWRITEBYTECODE= $(BIN)/distsvc demo --out demo-out

# Compiled modules are kept whatever the environment says: tests start hundreds of processes.
test: .venv/ready
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

# Strict: a warning is an error, and so is a link that leads nowhere. Nothing is fetched.
docs: .venv/docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --fresh-env docs build/docs
	@echo build/docs/index.html

# Lowest and newest dependencies on each of these Pythons that is there, by uv.
matrix:
	$(PYTHON) -m tests.matrix --pythons $(PYTHONS) --resolutions $(RESOLUTIONS) --tests $(TESTS)

dist: .venv/package
	rm -rf dist build *.egg-info
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

audit: .venv/package
	$(BIN)/pip-audit --disable-pip --require-hashes --requirement deploy/requirements.txt

chaos: .venv/ready
	$(BIN)/python -m tests.chaos --runs $(RUNS) --races 100 --overwrites 200 --seed $(SEED)
	$(BIN)/python -m tests.chaos --runs $(RUNS) --races 100 --store --seed $(SEED)

bench: .venv/ready
	$(BIN)/pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Not compiled: most modules are never imported, and those that are get compiled then.
.venv/plain: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "distsvc needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --no-compile --editable '.[report]'
	touch $@

.venv/ready: .venv/plain
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

.venv/docs: .venv/ready
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $@

.venv/package: .venv/plain
	$(BIN)/pip install --quiet --editable '.[package]'
	touch $@

clean:
	rm -rf .venv demo-out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
