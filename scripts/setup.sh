#!/usr/bin/env bash
# Installs what is missing and builds: Debian packages, .venv, native parts. A second call finds nothing to do.
# setup.sh [tests]: with "tests" also the Debian packages of the tests. setup.sh packages demo|tests: these packages alone.
# No package is taken away. A machine that has a Slurm keeps it as it is: a cluster's Slurm is not ours to change.
set -euo pipefail
cd "$(dirname "$0")/.."

build_packages="gcc g++ make python3 python3-dev python3-venv libtomlplusplus-dev flock:util-linux"
slurm_packages="slurmctld slurmd slurm-client munge libslurm-dev liblua5.1-0 lua5.1"
accounting_packages="slurmdbd slurm-wlm-mysql-plugin mariadb-server-core" # for the tests of accounting
check_packages="lua5.4 clang-tidy valgrind libjemalloc2 iproute2 bindfs systemd-analyze:systemd rpmbuild:rpm musl-gcc:musl-tools libc6-dev-i386"
aarch64_packages="gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user"   # for make aarch64
page_packages="chromium"                                                    # opens the page of fikit report --html in the tests
client_packages="ffmpeg:ffmpeg gcc-offload-nvptx"                           # unmodified CUDA programs for the tests
log=build/apt.log
sudo=""

say() { printf 'setup: %s\n' "$*" >&2; }

installed() { { dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true; } | sed -n 's/^installed //p'; }

# missing PACKAGE... -> those that Debian has not installed; NAME:PACKAGE means "any program NAME will do".
missing() {
  local spec name
  for spec in "$@"; do
    name=${spec#*:}
    if [ "$spec" != "$name" ] && command -v "${spec%%:*}" >/dev/null; then continue; fi
    [ -n "$(installed "$name")" ] || printf '%s ' "$name"
  done
}

# Debian's package "slurm" draws network load; all others of these names are Slurm's, SchedMD's (slurm-smd-*) among them.
slurm_installed() { installed 'slurm-*' 'slurmctld' 'slurmd' 'slurmdbd' 'slurmrestd'; }

# The Slurm of this machine: a program, a configuration file or a package; nothing where there is none.
slurm_here() {
  local program file
  for program in slurmctld slurmd srun scontrol; do
    file=$(PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin:/opt/slurm/bin:/opt/slurm/sbin command -v $program) || continue
    if [ -x "$file" ]; then echo "$file"; return; fi
  done
  for file in /etc/slurm/slurm.conf /etc/slurm-llnl/slurm.conf; do
    if [ -e $file ]; then echo $file; return; fi
  done
  slurm_installed | head -n 1
}

# What apt would take away, and what of an installed Slurm it would change, if PACKAGE... were installed.
harm() {
  local slurm
  slurm=$(slurm_installed | paste -sd' ')
  apt-get -q --simulate install -y --no-install-recommends "$@" 2>/dev/null |
    awk -v slurm=" $slurm " '/^Remv / || (/^Inst / && index(slurm, " " $2 " ")) { printf "%s ", $2 }'
}

apt() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >>"$log" 2>&1; }

refresh() { # the lists of packages, once
  [ -z "${refreshed:-}" ] || return 0
  refreshed=1
  apt update
}

failed() { tail -n 5 "$log" >&2; say "apt-get could not install $*(its output: $log)"; exit 1; }

may_install() { # as root, or by sudo
  [ "$(id -u)" != 0 ] || return 0
  command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; } && sudo=sudo
}

# install WANTED NEEDED: where nobody may install, the build cannot go without NEEDED.
install() {
  [ -n "$1" ] || return 0
  if ! may_install; then
    say "these Debian packages are missing and only root can install them: $1(the demo without Slurm, \`.venv/bin/fikit demo --no-slurm\`, needs of these: ${2:-none})"
    [ -z "$2" ] || exit 1
    return 0
  fi
  say "installing $1"
  # shellcheck disable=SC2086
  refresh && apt install -y --no-remove --no-install-recommends $1 || failed "$1"
}

# The tests of accounting need more of Slurm. That comes only where it leaves the installed Slurm alone.
install_accounting() {
  local wanted changed
  # shellcheck disable=SC2086
  wanted=$(missing $accounting_packages)
  if [ -n "$wanted" ] && may_install; then
    # shellcheck disable=SC2086
    refresh && changed=$(harm $wanted) || failed "$wanted"
    if [ -n "$changed" ]; then
      say "${wanted}would change ${changed}of the installed Slurm: they are left out, and the tests of accounting are skipped"
      return 0
    fi
  fi
  install "$wanted" ""
}

install_packages() { # demo: what `make demo` needs; tests: what the tests need beyond that
  local needed wanted slurm
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "this is not Debian or Ubuntu: install the counterparts of $build_packages $slurm_packages yourself"
    return 0
  fi
  # shellcheck disable=SC2086
  needed=$(missing $build_packages)
  if [ "$1" = tests ]; then
    # shellcheck disable=SC2086
    wanted=$(missing $check_packages $page_packages $client_packages)
    # Debian's cross compilers take the place of gcc-multilib: whoever has that keeps it, and goes without the tests for aarch64.
    # shellcheck disable=SC2086
    [ -n "$(missing gcc-multilib)" ] && wanted+=$(missing $aarch64_packages)
    install "$wanted" ""
    install_accounting
    return 0
  fi
  slurm=$(slurm_here)
  if [ -n "$slurm" ]; then
    # shellcheck disable=SC2086
    [ -z "$(missing $slurm_packages)" ] || say "a Slurm is installed ($slurm): it stays as it is, and the plugin is built with its headers"
    install "$needed" "$needed"
  else
    # shellcheck disable=SC2086
    install "$needed$(missing $slurm_packages)" "$needed"
  fi
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
: >"$log"
if [ "${1:-}" = packages ]; then
  install_packages "$2"
  exit
fi
install_packages demo
[ "${1:-}" != tests ] || install_packages tests
install_python
build_native
