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
# Only files whose content changed since they last passed: clang-tidy is by far the slowest check.
mkdir -p build/tidy
configuration=$(cat .clang-tidy build/native/compile_commands.json | sha256sum | cut -c1-16)
headers=$(git ls-files -co --exclude-standard -- '*.h' '*.hpp' | xargs sha256sum | sha256sum | cut -c1-16)
git ls-files -co --exclude-standard -- 'emulator/*.c*' 'shim/*.c' 'fikitd/core/*.cpp' 'slurm_plugin/*.c' | while read -r file; do
  grep -q "/$file\"" build/native/compile_commands.json || continue
  echo "$file build/tidy/$(cat "$file" - <<<"$configuration $headers" | sha256sum | cut -c1-24)"
done | while read -r file stamp; do [ -e "$stamp" ] || echo "$file $stamp"; done |
  xargs -r -P "$(nproc)" -L 1 bash -c 'clang-tidy --quiet -p build/native "$0" 2>/dev/null && touch "$1"'
