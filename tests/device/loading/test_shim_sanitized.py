"""The shim under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer, in programs that do what strains it most."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from shim_daemon import Daemon
from shim_hostile import build, outcome, without_shim

pytest_plugins = ["shim_fixtures"]

Compile = Callable[..., Path]
Environment = Callable[..., dict[str, str]]
StartDaemon = Callable[..., Daemon]
ROOT = Path(__file__).resolve().parents[3]
SHIM = ROOT / "shim"
# The sanitizer's runtime looks up its originals through these before it can check anything.
UNCHECKED = {"dlsym", "driver", "libc_function", "loader"}
HOW: dict[str, dict[str, object]] = {
    "open": {},
    "sampled": {"sample_every": 4},
    "measured": {"measure": True},
    "closed": {"closed": True, "lease_s": 0.2},
}


def checked_shim(sanitizer: str, out: Path) -> Path:
    """The library, built with a sanitizer."""
    generate = [sys.executable, "-B", SHIM / "generate.py", ROOT / "driver_api", SHIM / "entry_points.def", out]
    subprocess.run(generate, check=True)
    flags = ["-D_GNU_SOURCE", f"-I{SHIM}", f"-I{out}", f"-I{ROOT / 'fikitd' / 'core' / 'protocol'}"]
    flags += ["-O1", "-g", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec", "-Wno-tsan"]
    sources = [path for path in SHIM.rglob("*.c") if not path.stem.endswith("_bench")]
    sources += [SHIM / "loader/entry_x86_64.S", out / "symbol_tables.c", out / "stubs.S"]

    def compile_(source: Path) -> Path:
        checks = [] if source.stem in UNCHECKED or source.suffix == ".S" else [f"-fsanitize={sanitizer}"]
        subprocess.run(["cc", *flags, *checks, "-c", source, "-o", out / f"{source.stem}.o"], check=True)
        return out / f"{source.stem}.o"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_, sources))
    library = out / "libfikit_shim.so"
    link = ["cc", "-shared", f"-fsanitize={sanitizer}", "-o", library, *objects, "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*link, f"-Wl,--version-script={out / 'exports.map'}", "-Wl,-Bsymbolic"], check=True)
    return library


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def checked(
    request: pytest.FixtureRequest, cc: Compile, fake_cuda: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """The shim and the programs of shim_hostile*.c, all with the same sanitizer."""
    flag = f"-fsanitize={request.param}"
    return {
        "shim": checked_shim(request.param, tmp_path_factory.mktemp("checked")),
        **{
            name: build(cc, f"shim_hostile_{name}.c", fake_cuda, flag, "-Wno-unused-result")
            for name in ("threads", "process")
        },
    }


@pytest.mark.parametrize(
    "how", [(what, gate) for what in ("threads everything at once", "process fork") for gate in HOW]
)
def test_nothing_is_found(
    how: tuple[str, str], checked: dict[str, Path], shim_env: Environment, daemon: StartDaemon, tmp_path: Path
) -> None:
    what, gate = how
    program, _, habit = what.partition(" ")
    fikitd = daemon(**HOW[gate])
    suppressions = tmp_path / "suppressions"
    suppressions.write_text("called_from_lib:libcuda.so.1\n")  # the stand-in driver's own bookkeeping
    env = shim_env(
        LD_PRELOAD=str(checked["shim"]),
        FIKIT_SOCKET=str(fikitd.path),
        ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0",
        UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
        TSAN_OPTIONS=f"die_after_fork=0:suppressions={suppressions}",
    )
    command: list[str | Path] = [checked[program], habit]
    alone = outcome(command, without_shim(env))
    if "unexpected memory mapping" in alone.stderr:
        pytest.skip(f"the sanitizer does not run on this kernel: {alone.stderr}")
    done = outcome(command, env)
    assert done.stderr == ""
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    assert sum(page.launches() for page in fikitd.pages) > 0
