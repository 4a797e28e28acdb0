#!/usr/bin/env bash
# Cross-builds the shim and the emulated driver for aarch64 into build/aarch64, with Debian's cross compilers. What is built
# there runs under qemu-user: tests/device/clients/test_shim_aarch64.py.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${1:-build/aarch64}
missing=""
for program in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$program" >/dev/null || missing="$missing $program"
done
if [ -n "$missing" ]; then
  echo "aarch64: couldn't find$missing: install Debian's gcc-aarch64-linux-gnu, g++-aarch64-linux-gnu and qemu-user (they replace gcc-multilib, which nothing here needs)" >&2
  exit 1
fi
PATH=$PWD/.venv/bin:$PATH
mkdir -p "$OUT"
exec 9>"$OUT/lock"
flock 9
build() { # FOLDER TARGET...
  local folder=$1
  shift
  cmake -G Ninja -S "$folder" -B "$OUT/$folder" --toolchain "$PWD/cmake/aarch64.cmake" -DCMAKE_BUILD_TYPE=Debug \
    -DFIKIT_WARNINGS_ARE_ERRORS=ON -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DCMAKE_C_FLAGS_DEBUG=-O2 -DPython_EXECUTABLE="$PWD/.venv/bin/python" >"$OUT/$folder.log" 2>&1 &&
    cmake --build "$OUT/$folder" --target "$@" >>"$OUT/$folder.log" 2>&1 || { tail -n 40 "$OUT/$folder.log" >&2; return 1; }
}
build shim all
build emulator emu_cuda emu_cuda_link emuctl
