# The two commands of the README: `make demo` and `make test`. Everything else serves them.
VENV := .venv
PY := $(VENV)/bin/python
DEVICE ?= emulated
.DEFAULT_GOAL := help

.PHONY: help setup build demo test lint sanitize fuzz bench clean

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

sanitize: ## shim and dispatcher under the address, undefined behaviour and thread sanitizers
	@$(PY) -m pytest tests/device/test_shim_sanitized.py tests/unit/test_shim_fuzz.py \
	  tests/unit/test_core_sanitized.py

FUZZ_S ?= 60
CLANG ?= clang
fuzz: ## libFuzzer on what the shim reads from fikitd, for FUZZ_S seconds (clang and its runtime: libclang-rt-dev)
	@mkdir -p build/fuzz/shim_connect
	@$(CLANG) -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Ishim -Ifikitd/core/protocol \
	  -o build/fuzz/shim_connect.bin tests/fuzz/shim_connect.c shim/connect.c
	@build/fuzz/shim_connect.bin -max_total_time=$(FUZZ_S) -print_final_stats=1 build/fuzz/shim_connect

clean: ## remove build products
	rm -rf build out .pytest_cache .mypy_cache .ruff_cache
