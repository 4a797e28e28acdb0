#!/usr/bin/env bash
# Every static check: ruff, mypy, who-may-know-whom, shell and Lua syntax, clang-tidy on C and C++.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin

$bin/ruff check .
$bin/ruff format --check .
$bin/mypy
$bin/lint-imports --no-cache >build/lint-imports.log 2>&1 || { cat build/lint-imports.log; exit 1; }
$bin/python scripts/check_includes.py
for script in scripts/*.sh .ci/run; do bash -n "$script"; done
for script in slurm_plugin/lua/*.lua; do luac5.1 -p "$script"; done

if ! command -v clang-tidy >/dev/null; then
  echo "lint: clang-tidy is not installed (Debian package clang-tidy), C and C++ were not checked" >&2
  [ -z "${CI:-}" ] || exit 1
  exit 0
fi
$bin/python scripts/tidy.py
