# `make demo` and `make test` do all of their own set-up. PYTHON chooses the interpreter, JOBS the number of test processes.
PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
BENCHMARKS := $(filter-out %/harness.py %/standin_controller.py,$(wildcard benchmarks/*.py))

.PHONY: venv trainer-cpu test-trainer test-trainer-full demo test check bench golden datasets images images-os keys up clean

venv: .venv/.installed

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

TRAINER := .venv-trainer/bin

trainer-cpu: .venv-trainer/.installed

# openrlhf without its dependencies: it asks for CUDA packages. What is removed clashes with PyTorch's CPU build or is not used.
.venv-trainer/.installed: trainer_adapter/openrlhf/requirements-cpu.txt
	$(PYTHON) -m venv .venv-trainer
	$(TRAINER)/python -m pip install --quiet --disable-pip-version-check -r trainer_adapter/openrlhf/requirements-cpu.txt
	$(TRAINER)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec triton
	$(TRAINER)/python -m pip install --quiet --disable-pip-version-check --no-deps openrlhf==0.11.2
	$(TRAINER)/python -m pip install --quiet --disable-pip-version-check pytest pytest-asyncio pytest-timeout hypothesis
	$(TRAINER)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

test-trainer: venv trainer-cpu
	ENVHUB_REQUIRE=trainer $(TRAINER)/python -m pytest -m 'torch or trainer' tests/trainer

test-trainer-full: venv trainer-cpu
	ENVHUB_REQUIRE=trainer TRAINER_FULL=1 $(TRAINER)/python -m pytest -m 'torch or trainer' tests/trainer

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

bench: venv trainer-cpu
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
	rm -rf .venv .venv-trainer build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
