# The two commands of the README: `make demo` and `make test`. Everything else serves them.
VENV := .venv
PY := $(VENV)/bin/python
DEVICE ?= emulated
.DEFAULT_GOAL := help

.PHONY: help setup build demo test lint bench clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: ## install what is missing (Debian packages, .venv, the build)
	@bash scripts/setup.sh

build: ## rebuild the native parts and refresh .venv
	@mkdir -p build && flock build/lock $(PY) -m pip install --quiet --no-build-isolation --no-deps -e .

demo: setup ## two jobs on one GPU under a throw-away Slurm; DEVICE=real uses the machine's GPU
	@$(VENV)/bin/fikit demo --device $(DEVICE) --out out/demo

test: setup ## linters, then every test
	@$(MAKE) --no-print-directory lint
	@$(PY) -m pytest

lint: ## ruff, mypy, layers, clang-tidy
	@bash scripts/lint.sh

clean: ## remove build products
	rm -rf build out .pytest_cache .mypy_cache .ruff_cache
