#!/usr/bin/env bash
# Installs what is missing and builds: Debian packages, .venv, native parts. A second call finds nothing to do.
# setup.sh [tests]: with "tests" also the Debian packages of the tests.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

# A Python of 3.11 or newer that can make virtual environments.
find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" /usr/bin/python3; do
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"; return 0
    fi
  done
  say "no Python 3.11+ with venv was found: install python3 and python3-venv"; return 1
}

hash_of() { git ls-files -co --exclude-standard -- "$@" 2>/dev/null | LC_ALL=C sort | { xargs -d '\n' sha256sum 2>/dev/null || true; } | sha256sum | cut -d' ' -f1; }

install_python() {
  local python stamp
  stamp=$(sha256sum pyproject.toml | cut -d' ' -f1)
  if [ -x .venv/bin/python ] && [ "$(cat build/python.stamp 2>/dev/null)" = "$stamp" ]; then return 0; fi
  python=$(find_python)
  say "making .venv with $("$python" --version)"
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  # Other people's packages may need build tools of their own; only ours is built with what is in .venv.
  .venv/bin/python - <<'PY' >build/requirements.txt
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
print(*project["dependencies"], *extras["dev"], *extras["clients"], sep="\n")
PY
  say "installing Python packages into it (minutes)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r build/requirements.txt
  say "building the native parts (minutes)"
  make --no-print-directory build
  printf '%s\n' "$stamp" >build/python.stamp
  native_hash >build/native.stamp
}

# Of what is built, and of where each Python module lies: the editable installation has a list of these.
native_hash() {
  { hash_of emulator shim fikitd/core slurm_plugin driver_api cmake CMakeLists.txt pyproject.toml
    git ls-files -co --exclude-standard -- 'fikitd/fikitd/*.py' 'wrapper/fikit/*.py' | LC_ALL=C sort; } | sha256sum | cut -d' ' -f1
}

build_native() {
  local stamp
  stamp=$(native_hash)
  [ "$(cat build/native.stamp 2>/dev/null)" = "$stamp" ] && return 0
  say "building the native parts"
  make --no-print-directory build
  printf '%s\n' "$stamp" >build/native.stamp
}

mkdir -p build
exec 9>build/setup.lock
flock 9
bash scripts/packages.sh demo
[ "${1:-}" != tests ] || bash scripts/packages.sh tests
install_python
build_native
