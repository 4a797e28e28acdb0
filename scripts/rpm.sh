#!/usr/bin/env bash
# `make rpm`: fikit and fikit-slurm as RPM packages in dist/, of the files that the Debian packages have.
set -euo pipefail
cd "$(dirname "$0")/.."
plugin=$1 # directory that `make slurm-plugin` filled
python=.venv/bin/python
line=$($python -m fikit.slurm.versions "$plugin/spank_fikit.so")
top=$PWD/build/rpm
rm -rf "$top"
mkdir -p "$top" dist
bash scripts/stage.sh "$plugin" "$top/stage"
bash scripts/rpm_of.sh "$top/stage" "$top" "$($python -c 'import fikitd; print(fikitd.__version__)')" \
  "$($python -c 'import sys; print("python%d.%d" % sys.version_info[:2])')" "$line"
find "$top/out" -name '*.rpm' -exec cp {} dist/ \;
find "$top/out" -name '*.rpm' -printf 'rpm: dist/%f\n'
