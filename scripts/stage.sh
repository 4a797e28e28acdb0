#!/usr/bin/env bash
# What the packages have in them: STAGE/fikit (all but the plugin) and STAGE/fikit-slurm (the plugin that `make slurm-plugin`
# left in PLUGIN, with its Lua files), each as it lies below /. Debian's and RPM's are made of this.
set -euo pipefail
cd "$(dirname "$0")/.."
plugin=$1 stage=$2
python=.venv/bin/python
minor=$($python -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
[ -x "/usr/bin/$minor" ] || { echo "stage: .venv is not the system's Python: make setup with PYTHON=/usr/bin/python3, so that the package runs with the nodes'" >&2; exit 1; }
rm -rf "$stage"
mkdir -p "$stage"
$python scripts/install.py install --prefix /usr --destdir "$stage/fikit"
application=$stage/fikit/usr/lib/fikit
slurm=$(realpath --relative-to="$stage/fikit" "$application/native/slurm")
rm -f "$stage/fikit/$slurm"/*
find "$application" -name '*.so*' -type f -exec strip --strip-unneeded {} +
gzip -9n "$stage"/fikit/usr/share/man/man*/*
mkdir -p "$stage/fikit-slurm/$slurm"
cp "$plugin/spank_fikit.so" "$plugin"/*.lua "$stage/fikit-slurm/$slurm"
strip --strip-unneeded "$stage/fikit-slurm/$slurm/spank_fikit.so"
