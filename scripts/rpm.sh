#!/usr/bin/env bash
# `make rpm`: fikit and fikit-slurm as RPM packages in dist/, of the files that the Debian packages have.
set -euo pipefail
cd "$(dirname "$0")/.."
plugin=$1 # directory that `make slurm-plugin` filled
command -v rpmbuild >/dev/null || { echo "rpm: rpmbuild is not installed: install rpm-build (Debian: rpm)" >&2; exit 1; }
python=.venv/bin/python
line=$($python -m fikit.slurm_versions "$plugin/spank_fikit.so")
top=$PWD/build/rpm
rm -rf "$top"
mkdir -p "$top" dist
bash scripts/stage.sh "$plugin" "$top/stage"
rpmbuild -bb --quiet scripts/fikit.spec \
  --define "_topdir $top" --define "_rpmdir $top/out" --define "fikit_stage $top/stage" \
  --define "fikit_version $($python -c 'import fikitd; print(fikitd.__version__)')" \
  --define "fikit_python $($python -c 'import sys; print("python%d.%d" % sys.version_info[:2])')" \
  --define "slurm_line $line" --define "slurm_next $(printf '%s' "$line" | awk -F. '{printf "%s.%02d", $1, $2 + 1}')" \
  >"$top/log" 2>&1 || { tail -n 20 "$top/log" >&2; exit 1; }
find "$top/out" -name '*.rpm' -exec cp {} dist/ \;
find "$top/out" -name '*.rpm' -printf 'rpm: dist/%f\n'
