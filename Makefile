# The two commands of the README: `make demo` and `make test`. Everything else serves them.
VENV := .venv
PY := $(VENV)/bin/python
DEVICE ?= emulated
# Tests at a time: most wait more than they compute.
WORKERS ?= 2
QUICK_WORKERS ?= 4
.DEFAULT_GOAL := help

.PHONY: help setup setup-tests build slurm-plugin install uninstall deb rpm deb-test release demo test slow quick test-slowest cluster cluster-all lint aarch64 sanitize fuzz bench clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: ## install what is missing for the demo (Debian packages, .venv, the build); no package is removed, a Slurm stays as it is
	@bash scripts/setup.sh

setup-tests: ## the same, and the Debian packages of the tests: a browser, cross compilers, checkers
	@bash scripts/setup.sh tests

build: ## rebuild the native parts and refresh .venv (WERROR=1: what the compiler warns of ends it)
	@mkdir -p build && flock build/lock $(PY) -m pip install --quiet --no-build-isolation --no-deps -C cmake.define.FIKIT_WARNINGS_ARE_ERRORS=$(if $(WERROR),ON,OFF) -e .

SLURM_INCDIR ?=
OUT ?= out/slurm-plugin
CMAKE := $(or $(wildcard $(VENV)/bin/cmake),cmake)
slurm-plugin: ## the Slurm plugin and its Lua files alone, into OUT, for the Slurm whose headers are in SLURM_INCDIR
	@mkdir -p $(OUT)
	@$(CMAKE) -S slurm_plugin -B $(OUT)/build -DSLURM_INCDIR=$(SLURM_INCDIR) >$(OUT).log
	@$(CMAKE) --build $(OUT)/build >>$(OUT).log || { cat $(OUT).log >&2; exit 1; }
	@cp $(OUT)/build/spank_fikit.so slurm_plugin/lua/*.lua $(OUT)
	@echo "in $(OUT): the plugin for Slurm $$($(PY) -m fikit.slurm.versions $(OUT)/spank_fikit.so)"

PREFIX ?= /usr/local
DESTDIR ?=
INSTALL = $(PY) scripts/install.py --prefix $(PREFIX) $(if $(DESTDIR),--destdir $(DESTDIR))
install: ## what .venv has, into PREFIX (/usr/local), below DESTDIR for packagers; make setup comes first
	@$(INSTALL) install

uninstall: ## take it away again; a changed /etc/fikit/fikit.toml, profiles and reports stay
	@$(INSTALL) uninstall

deb: build slurm-plugin ## Debian packages in dist/: fikit, and fikit-slurm for the Slurm of SLURM_INCDIR
	@bash scripts/deb.sh $(OUT)

rpm: build slurm-plugin ## RPM packages in dist/, of the same files (needs rpmbuild: Debian package rpm)
	@bash scripts/rpm.sh $(OUT)

deb-test: deb rpm ## both kinds of packages tried in a clean Debian, docs/admin.md's installation with them (root, debootstrap; minutes the first time)
	@bash scripts/deb-test.sh

release: ## VERSION=0.2.0 in dist/: version, changelog, source distribution, wheel, deb and rpm per Slurm line, checksums; tried in a clean Debian (root)
	@$(PY) scripts/release.py $(VERSION)

demo: setup ## two jobs on one GPU under a throw-away Slurm; DEVICE=real uses the machine's GPU
	@$(VENV)/bin/fikit demo --device $(DEVICE) --out out/demo

test: setup-tests ## linters, then every test but make slow's; what fails (five tests at most) once more, alone
	@$(MAKE) --no-print-directory lint
	@$(PY) scripts/suite.py $(WORKERS)

slow: setup-tests ## the other tests: with a browser, Prometheus, qemu, sanitizers, packages, storms, Slurms of their own
	@$(PY) scripts/suite.py --slow $(WORKERS)

quick: ## lint of what changed since BASE (main), and the unit tests that start no process; also the pre-commit hook
	@BASE="$(BASE)" WORKERS=$(QUICK_WORKERS) bash scripts/quick.sh

test-slowest: ## where the last `make test` and `make slow` spent their time
	@$(PY) scripts/slowest.py

SLURM ?= 22.05
cluster: ## the tests under Slurm, of the release line SLURM: 22.05, 24.11 or 26.05 (root; the first time makes a Debian)
	@$(VENV)/bin/fikit sandbox --slurm $(SLURM) -- $(CURDIR)/$(PY) -m pytest tests/cluster

cluster-all: ## the tests under Slurm, of every release line; says which files ran and passed under which
	@bash scripts/cluster-all.sh

lint: ## ruff, mypy, layers, clang-tidy
	@bash scripts/lint.sh

sanitize: ## shim and dispatcher under the address, undefined behaviour and thread sanitizers
	@$(PY) -m pytest tests/device/loading/test_shim_sanitized.py tests/native/shim/test_shim_fuzz.py \
	  tests/native/core/test_core_sanitized.py

aarch64: ## shim and emulated driver cross-built for aarch64, and the shim's C programs with them under qemu (part of the suite)
	@bash scripts/aarch64.sh
	@$(PY) -m pytest tests/device/clients/test_shim_aarch64.py

FUZZ_S ?= 60
fuzz: ## libFuzzer on what shim and fikitd read from each other, each target for FUZZ_S seconds (clang and its runtime: libclang-rt-dev)
	@FUZZ_S=$(FUZZ_S) bash scripts/fuzz.sh

clean: ## remove build products
	rm -rf build out .pytest_cache .mypy_cache .ruff_cache
