#!/usr/bin/env bash
# Everything that only a real GPU can tell, in one JSON file: builds fikit beside the checkout, then runs bench.gpu.
# Needs an NVIDIA driver, a C++ compiler, CMake, ninja, and a Python with nanobind, scikit-build-core, click, rich and
# pytest; frameworks (PyTorch, CuPy, JAX, ...) are used where they are. No network, no Slurm, no root.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${BENCH_PYTHON:-python3}
site=$PWD/build/gpu/site
mkdir -p build/gpu

if ! "$python" -m pip install --quiet --no-index --no-deps --no-build-isolation --upgrade --target "$site" \
     -C build-dir=build/gpu/native . >build/gpu/build.log 2>&1; then
  tail -n 20 build/gpu/build.log >&2
  echo "run.sh: couldn't build fikit with $python, the end of build/gpu/build.log is above; it needs CMake, ninja, nanobind and scikit-build-core" >&2
  exit 1
fi
PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} PATH=$site/bin:$PATH exec "$python" -m bench.gpu "$@"
