#!/usr/bin/env bash
# bench/gpu/run.sh [--call 2] [--json FILE.json.gz] [--logs FILE.tar.gz] [--parts PART ...] [--ways WAY ...] [--minutes N] [--seconds N] [--quick]
#
# Measures on a real GPU: builds fikit beside the checkout, then runs bench.gpu. Call 1 takes at most 9.5 minutes, call 2 at most 2.5.
# bench/gpu/README.md describes the calls, their parts and the ways of sharing.
#
# Needs an NVIDIA driver, a C and a C++ compiler, CMake, ninja, and a Python of 3.11 or newer with nanobind, click and rich;
# frameworks (PyTorch, Triton, JAX, CuPy) are used where they are. No network, no Slurm, no root, no git, no CUDA toolkit.
# BENCH_PYTHON names another Python, BENCH_BUILD another directory to build in.
set -uo pipefail
FIKIT_GPU_BEGAN=$(date +%s.%N)
export FIKIT_GPU_BEGAN PYTHONDONTWRITEBYTECODE=1
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
root=$PWD
python=${BENCH_PYTHON:-python3}
build=${BENCH_BUILD:-$root/build/gpu}

fail() { echo "run.sh: $*" >&2; exit 1; }

# Before the build, which takes the minutes of a rented GPU.
for word; do case $word in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$root/bench/gpu/run.sh"; exit 0 ;; esac; done

python=$(command -v "$python") || fail "there is no ${BENCH_PYTHON:-python3}: name a Python of 3.11 or newer in BENCH_PYTHON"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$python is older than 3.11: name a newer one in BENCH_PYTHON"
missing=$("$python" -c 'import importlib.util as u; print(*(n for n in ("nanobind", "click", "rich") if not u.find_spec(n)))')
[ -z "$missing" ] || fail "$python has no ${missing// / and no }, which the build needs: install that, or name another Python in BENCH_PYTHON"
mkdir -p "$build" 2>/dev/null && [ -w "$build" ] || build=$(mktemp -d /tmp/fikit-gpu-build.XXXXXX) ||
  fail "couldn't make a directory to build in: name one in BENCH_BUILD"
log=$build/build.log
: >"$log"

# A Python of the run's own, with fikit and all that the other one has: fikitd starts workers that no PYTHONPATH reaches.
own=$build/venv
make_python() {
  "$python" -m venv --without-pip "$own" || return 1
  site=$("$own/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || return 1
  "$python" - >"$site/fikit_others.pth" <<'PY'
import sys
for path in sys.path:
    if path.endswith(("site-packages", "dist-packages")):
        print(f"import site; site.addsitedir({path!r})")
PY
}
make_python >>"$log" 2>&1 || fail "couldn't make a Python environment in $own: $(tail -n 1 "$log")"

# Programs of Python packages lie beside their Python, wherever PATH leads.
PATH=$PATH:$(dirname "$python")
tool() { command -v "$1" || "$python" -c "import $1, pathlib; print(pathlib.Path($1.__file__).parent / 'data' / 'bin' / '$1')" 2>/dev/null; }
cmake=$(tool cmake) || fail "there is no CMake"
generator=()
ninja=$(tool ninja) && generator=(-G Ninja "-DCMAKE_MAKE_PROGRAM=$ninja")

# What cannot be built is missing in the result, and no more: every target is tried. BENCH_BUILD_ONLY: what its own test builds, in
# front of a core that is there.
read -ra folders <<<"${BENCH_BUILD_ONLY:-native shim core}"
build_all() {
  timeout 60 "$cmake" -S bench/gpu -B "$build/native" "${generator[@]}" "-DPython_EXECUTABLE=$python" || return 1
  if [ -n "$ninja" ]; then timeout 150 "$ninja" -C "$build/native" -k 0 "${folders[@]/%//all}"
  else timeout 150 "$cmake" --build "$build/native" --parallel; fi
  local built=$? folder
  for folder in "${folders[@]}"; do timeout 30 "$cmake" --install "$build/native/$folder" --prefix "$site" || built=1; done
  return $built
}
build_all >>"$log" 2>&1 || {
  grep -iE "error|FAILED" "$log" | head -n 5 >&2
  echo "run.sh: not everything could be built ($log); the run goes on with what there is" >&2
}

cp -r fikitd/fikitd wrapper/fikit "$site/" || fail "couldn't copy fikit into $site"
for name in fikit fikitd; do
  printf '#!/bin/sh\nexec "%s" -c "from %s.entry import %s; %s()" "$@"\n' "$own/bin/python" "$name" "$name" "$name" >"$own/bin/$name"
  chmod +x "$own/bin/$name"
done
export PYTHONPATH=$root PATH=$own/bin:$PATH FIKIT_NATIVE=$site/fikitd/native
exec "$own/bin/python" -m bench.gpu "$@"
