#!/usr/bin/env bash
# The cluster suite under every release line of Slurm that fikit knows, or those named; at the end which files ran under which.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
lines=("$@")
[ $# -gt 0 ] || lines=(22.05 24.11 26.05)
declare -A result
failed=0
for line in "${lines[@]}"; do
  log=build/cluster-$line.log xml=build/cluster-$line.xml
  rm -f "$xml"
  printf 'cluster-all: Slurm %s\n' "$line" >&2
  .venv/bin/fikit sandbox --slurm "$line" -- sh -c \
    'printf "ran under %s\n" "$(sinfo --version)"; exec "$@"' sh "$PWD/.venv/bin/python" -m pytest \
    "--junitxml=$xml" tests/cluster 2>&1 | tee "$log"
  if [ "${PIPESTATUS[0]}" = 0 ]; then outcome=passed; else outcome=failed; failed=1; fi
  ran=$(sed -n 's/^ran under slurm-wlm //p' "$log" | head -n 1)
  if [ -n "$ran" ]; then result[$line]="$outcome under Slurm $ran: $(tail -n 1 "$log")"
  else result[$line]="did not run: $(tail -n 1 "$log")"; fi
done
.venv/bin/python scripts/cluster_table.py "${lines[@]/#/build/cluster-}"
for line in "${lines[@]}"; do printf '%s  %s\n' "$line" "${result[$line]}"; done
exit $failed
