#!/usr/bin/env bash
# `make deb-test`: the packages in dist/, in a Debian that has Slurm and nothing else; made once, kept below ~/.cache/fikit.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "deb-test: only root can install packages into a system of their own: use sudo" >&2; exit 1; }
suite=$(. /etc/os-release; echo "${VERSION_CODENAME:-}")
clean=${XDG_CACHE_HOME:-$HOME/.cache}/fikit/clean-$suite
if [ ! -x "$clean/usr/sbin/slurmd" ]; then
  command -v debootstrap >/dev/null || { echo "deb-test: debootstrap is not installed: install that package" >&2; exit 1; }
  echo "deb-test: making a clean Debian $suite in $clean (once; some minutes)" >&2
  rm -rf "$clean.partial" "$clean"
  mkdir -p "$(dirname "$clean")" build
  source=$(.venv/bin/python -m fikit.sandbox.package_sources "$suite" debootstrap --variant=minbase \
    --include=python3,slurmctld,slurmd,slurm-client,munge,liblua5.1-0 "$suite" "$clean.partial" 2>build/deb-test.log) ||
    { tail -n 5 build/deb-test.log >&2; exit 1; }
  echo "deb $source $suite main" >"$clean.partial/etc/apt/sources.list"
  mv "$clean.partial" "$clean"
fi
FIKIT_CLEAN_DEBIAN=$clean FIKIT_PACKAGES=$PWD/dist .venv/bin/python -m pytest tests/packages
