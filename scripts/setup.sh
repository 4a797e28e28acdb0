#!/usr/bin/env bash
# Installs what is missing and builds: Debian packages, .venv, native parts. A second call finds nothing to do.
set -euo pipefail
cd "$(dirname "$0")/.."

build_packages="gcc g++ make python3 python3-dev python3-venv libtomlplusplus-dev flock:util-linux"
accounting_packages="slurmdbd slurm-wlm-mysql-plugin mariadb-server-core"  # for the tests of accounting
slurm_packages="slurmctld slurmd slurm-client munge libslurm-dev liblua5.1-0 lua5.1"
check_packages="lua5.4 clang-tidy valgrind libjemalloc2 iproute2 bindfs systemd-analyze:systemd rpmbuild:rpm musl-gcc:musl-tools libc6-dev-i386"
aarch64_packages="gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user"  # for make aarch64
page_packages="chromium"  # opens the page of fikit report --html in the tests
client_packages="ffmpeg:ffmpeg gcc-offload-nvptx"  # unmodified CUDA programs for the tests

say() { printf 'setup: %s\n' "$*" >&2; }

# missing PACKAGE... -> those that Debian has not installed; NAME:PACKAGE means "any program NAME will do".
missing() {
  local spec name
  for spec in "$@"; do
    name=${spec#*:}
    if [ "$spec" != "$name" ] && command -v "${spec%%:*}" >/dev/null; then continue; fi
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q ' installed$' || printf '%s ' "$name"
  done
}

have_debian() { command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; }

install_packages() {
  local wanted needed sudo=""
  have_debian || { say "this is not Debian or Ubuntu: install the counterparts of $build_packages $slurm_packages yourself"; return 0; }
  # shellcheck disable=SC2086
  wanted=$(missing $build_packages $slurm_packages $accounting_packages $check_packages $page_packages $client_packages)
  # Debian's cross compilers take the place of gcc-multilib: whoever has that keeps it, and goes without the tests for aarch64.
  # shellcheck disable=SC2086
  [ -n "$(missing gcc-multilib)" ] && wanted+=$(missing $aarch64_packages)
  [ -n "$wanted" ] || return 0
  # shellcheck disable=SC2086
  needed=$(missing $build_packages)
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo=sudo
    elif [ -t 0 ] && command -v sudo >/dev/null; then sudo=sudo
    else
      say "these Debian packages are missing and only root can install them: ${wanted}(the demo without Slurm, \`.venv/bin/fikit demo --no-slurm\`, needs of these: ${needed:-none})"
      [ -z "$needed" ] || exit 1
      return 0
    fi
  fi
  say "installing ${wanted}"
  local log=build/apt.log
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q update >"$log" 2>&1 &&
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $wanted >>"$log" 2>&1 ||
    { tail -n 5 "$log" >&2; say "apt-get could not install ${wanted}(its output: $log)"; exit 1; }
}

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
install_packages
install_python
build_native
