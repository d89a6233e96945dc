# `make demo` and `make test` do all of their own set-up. PYTHON chooses the interpreter, JOBS the number of test processes.
PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
BENCHMARKS := $(filter-out %/harness.py %/standin_controller.py,$(wildcard benchmarks/*.py))

.PHONY: venv demo test check bench golden datasets images images-os keys up clean

venv: .venv/.installed

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: venv
	$(BIN)/envhub demo

up: venv
	$(BIN)/envhub up

test: venv
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

check: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadgroup -m 'not slow and not mysql and not docker and not browser and not alfworld'

bench: venv
	for script in $(BENCHMARKS); do $(BIN)/python $$script --quick --json || exit 1; done

golden: venv
	ENVHUB_UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/golden

DATASETS := $(patsubst datasets/%/generate/main.py,%,$(wildcard datasets/*/generate/main.py))

datasets: venv
	for name in $(DATASETS); do $(BIN)/python datasets/$$name/generate/main.py --seed 2026 --out datasets/$$name || exit 1; done

images: venv
	$(BIN)/python task_images/build.py

keys:
	task_images/keys
	test -e .env || cp .env.example .env

images-os: venv
	$(BIN)/envhub images build os

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
