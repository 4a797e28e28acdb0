#!/usr/bin/env bash
# make quick: lint of what changed since the branch left BASE (default: origin/main, else main), and the unit tests that start no process.
# Sources in C and C++ are checked as they are; the tests try what was built last.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
[ -x $bin/python ] || { echo "quick: there is no .venv, make setup makes it" >&2; exit 1; }

base=HEAD
for name in ${BASE:-origin/main main}; do
  if base=$(git merge-base HEAD "$name" 2>/dev/null); then break; fi
  base=HEAD
done
mapfile -t changed < <(git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard)

# of SUFFIX... -> the changed files whose names end so.
of() {
  local name suffix
  for name in "${changed[@]}"; do
    for suffix in "$@"; do [[ $name != *"$suffix" ]] || printf '%s\n' "$name"; done
  done
}
mapfile -t python < <(of .py .pyi)
mapfile -t native < <(of .c .cpp)
mapfile -t headers < <(of .h .hpp)

if [ ${#python[@]} -gt 0 ]; then
  $bin/ruff check --quiet --force-exclude "${python[@]}"
  $bin/ruff format --quiet --check --force-exclude "${python[@]}"
  $bin/mypy >build/quick-mypy.log 2>&1 || { cat build/quick-mypy.log; exit 1; }
  $bin/lint-imports >build/quick-imports.log 2>&1 || { cat build/quick-imports.log; exit 1; }
fi
if [ $((${#native[@]} + ${#headers[@]})) -gt 0 ]; then $bin/python scripts/check_includes.py; fi
for script in $(of .sh); do bash -n "$script"; done
if [ ${#native[@]} -gt 0 ]; then
  if command -v clang-tidy >/dev/null; then $bin/python scripts/tidy.py "${native[@]}"
  else echo "quick: clang-tidy is not installed (Debian package clang-tidy), C and C++ were not checked" >&2; fi
fi
exec $bin/python -m pytest -n "${WORKERS:-2}" --dist loadgroup --quick tests/unit
