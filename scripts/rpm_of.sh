#!/usr/bin/env bash
# RPM packages of a stage (scripts/stage.sh): rpm_of.sh STAGE TOP VERSION PYTHON SLURM_LINE leaves them below TOP/out.
set -euo pipefail
cd "$(dirname "$0")/.."
stage=$1 top=$2 version=$3 python=$4 line=$5
command -v rpmbuild >/dev/null || { echo "rpm: rpmbuild is not installed: install rpm-build (Debian: rpm)" >&2; exit 1; }
mkdir -p "$top"
rpmbuild -bb --quiet scripts/fikit.spec \
  --define "_topdir $top" --define "_rpmdir $top/out" --define "fikit_stage $stage" \
  --define "fikit_version $version" --define "fikit_python $python" \
  --define "slurm_line $line" --define "slurm_next $(printf '%s' "$line" | awk -F. '{printf "%s.%02d", $1, $2 + 1}')" \
  >"$top/log" 2>&1 || { tail -n 20 "$top/log" >&2; exit 1; }
