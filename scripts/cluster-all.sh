#!/usr/bin/env bash
# The cluster suite under every release line of Slurm that fikit knows; the last lines say which ran and how it went.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
declare -A result
failed=0
for line in 22.05 24.11 26.05; do
  log=build/cluster-$line.log
  printf 'cluster-all: Slurm %s\n' "$line" >&2
  .venv/bin/fikit sandbox --slurm "$line" -- sh -c \
    'printf "ran under %s\n" "$(sinfo --version)"; exec "$@"' sh "$PWD/.venv/bin/python" -m pytest tests/cluster 2>&1 | tee "$log"
  if [ "${PIPESTATUS[0]}" = 0 ]; then outcome=passed; else outcome=failed; failed=1; fi
  ran=$(sed -n 's/^ran under slurm-wlm //p' "$log" | head -n 1)
  if [ -n "$ran" ]; then result[$line]="$outcome under Slurm $ran: $(tail -n 1 "$log")"
  else result[$line]="did not run: $(tail -n 1 "$log")"; fi
done
for line in 22.05 24.11 26.05; do printf '%s  %s\n' "$line" "${result[$line]}"; done
exit $failed
