#!/usr/bin/env bash
# libFuzzer on what one side reads from the other (tests/fuzz): each target for FUZZ_S seconds, from its corpus in
# tests/fuzz/corpus; what it finds new stays in build/fuzz. Needs clang and its runtime (libclang-rt-dev).
set -euo pipefail
cd "$(dirname "$0")/.."
flags=(-g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Ifikitd/core/protocol)
objects=build/fuzz/objects
mkdir -p "$objects"

shim() { # TARGET SHIM_SOURCE...
  local target=$1
  shift
  "${CLANG:-clang}" "${flags[@]}" -D_GNU_SOURCE -Ishim -pthread -o "build/fuzz/$target.bin" "tests/fuzz/$target.c" "${@/#/shim/}"
}

core() { # TARGET
  local source compiled=()
  for source in $(find fikitd/core/{policy,predictor,forecaster,tracking,dispatcher} -name '*.cpp') "tests/fuzz/$1.cpp"; do
    [[ $source == */bench.cpp ]] && continue
    compiled+=("$objects/$(basename "$(dirname "$source")")-$(basename "$source" .cpp).o")
    "${CLANG:-clang}++" "${flags[@]}" -std=c++20 -Ifikitd/core -c -o "${compiled[-1]}" "$source"
  done
  "${CLANG:-clang}++" "${flags[@]}" -pthread -o "build/fuzz/$1.bin" "${compiled[@]}"
}

shim shim_connect attach/connect.c
shim shim_page gate/gate.c memory/memory.c base/lock.c
core core_page
for target in shim_connect shim_page core_page; do
  mkdir -p "build/fuzz/$target"
  seeds=("build/fuzz/$target")
  [[ -d tests/fuzz/corpus/$target ]] && seeds+=("tests/fuzz/corpus/$target")
  echo "== $target"
  "build/fuzz/$target.bin" -max_total_time="${FUZZ_S:-60}" -print_final_stats=1 "${seeds[@]}"
done
