#!/usr/bin/env bash
# libFuzzer on what one side reads from the other: each target of tests/fuzz for FUZZ_S seconds, from its corpus in
# tests/fuzz/corpus; what it finds new stays in build/fuzz. Needs clang and its runtime (libclang-rt-dev), and a build.
set -euo pipefail
cd "$(dirname "$0")/.."
flags=(-g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
export CC="${CLANG:-clang}" CXX="${CLANG:-clang}++"

sources=(tests/fuzz/shim_*.c tests/fuzz/core_*.cpp)
for source in "${sources[@]}"; do
  target=$(basename "${source%.*}")
  .venv/bin/python scripts/native_program.py "build/fuzz/$target.bin" "$source" -- "${flags[@]}"
done
for source in "${sources[@]}"; do
  target=$(basename "${source%.*}")
  mkdir -p "build/fuzz/$target"
  seeds=("build/fuzz/$target")
  [[ -d tests/fuzz/corpus/$target ]] && seeds+=("tests/fuzz/corpus/$target")
  echo "== $target"
  "build/fuzz/$target.bin" -max_total_time="${FUZZ_S:-60}" -print_final_stats=1 "${seeds[@]}"
done
