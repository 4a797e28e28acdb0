"""Unmodified third-party programs on the emulated GPU: the shim sees every launch that the device ran."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from emulator_tools import driver_flags
from shim_daemon import DRAINED, EXPIRED, GAP, SAMPLE, Daemon, wait_for

pytest_plugins = ["shim_fixtures"]

Environment = Callable[..., dict[str, str]]
StartDaemon = Callable[..., Daemon]
PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
SOURCES = PROGRAMS / "shim"
CLIENTS = [
    pytest.param("shim_tinygrad.py", {"DEV": "CUDA:PTX"}, id="tinygrad"),
    pytest.param("shim_cuda_core.py", {}, id="cuda.core"),
    pytest.param("shim_drjit.py", {}, id="drjit"),
    pytest.param("shim_taichi.py", {}, id="taichi", marks=pytest.mark.heavy),
    pytest.param("shim_halide.py", {}, id="halide", marks=pytest.mark.heavy),
]

HEAVY = {"shim_taichi.py": "taichi", "shim_halide.py": "halide"}


@pytest.fixture
def managed(emulator_env: Environment, shim: Path, tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Environment of a program on the emulated GPU, managed by a fake daemon. Caches go to a place of this test."""

    def environment(fikitd: Daemon, more: dict[str, str]) -> dict[str, str]:
        cache = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "CACHEDB": str(tmp_path / "cache.db")}
        return emulator_env(LD_PRELOAD=str(shim), FIKIT_SOCKET=str(fikitd.path), **cache, **more)

    return environment


def kernels_on_device(native: Path, env: dict[str, str]) -> int:
    without_shim = {k: v for k, v in env.items() if k != "LD_PRELOAD"}
    out = subprocess.check_output([native / "bin" / "emuctl", "stats", "--json"], env=without_shim)
    return sum(process["kernels"] for device in json.loads(out)["devices"] for process in device["processes"])


def run(source: str, env: dict[str, str], *before: str) -> str:
    """What the program says of its results."""
    if source in HEAVY and find_spec(HEAVY[source]) is None:
        pytest.skip(f"{HEAVY[source]} is not installed")
    done = subprocess.run(
        [*before, sys.executable, SOURCES / source], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    return done.stderr


@pytest.fixture
def beating(cc: Callable[..., Path], native: Path) -> list[str]:
    """Kernels of 300 us with pauses of a millisecond, until it is ended; it says "running" after the first."""
    return [str(cc(PROGRAMS / "emulator/emu_faults.c", *driver_flags(native))), "beat", "300"]


@pytest.mark.parametrize(("source", "more"), CLIENTS)
def test_results_are_as_without_the_shim_under_a_fikitd(
    source: str, more: dict[str, str], emulator_env: Environment, beating: list[str], tmp_path: Path
) -> None:
    """One that closes the gate of a low job beside a high one, and grants it what the high one leaves."""
    places = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "CACHEDB": str(tmp_path / "cache.db")}
    env = emulator_env(**places, **cache, **more)
    fikit = [str(Path(sys.executable).parent / "fikit"), "run", "--emulated", "--priority"]
    alone = run(source, env)
    high = [*fikit, "high", "--", *beating]
    with subprocess.Popen(high, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as beside:
        try:
            assert beside.stdout is not None
            assert beside.stdout.readline() == "running\n"
            managed = run(source, env, *fikit, "low", "--")
            assert beside.poll() is None, "the high job has ended"
        finally:
            beside.terminate()
    *result, said = managed.splitlines(keepends=True)
    assert "".join(result) == alone
    assert "waited" in said  # at its gate
    assert (seen := re.search(r"low: (?:.*?, )?(\d+) kernels", said))
    assert int(seen[1]) >= 20


@pytest.mark.parametrize(("source", "more"), CLIENTS)
def test_every_launch_is_seen(
    source: str, more: dict[str, str], managed: Callable[..., dict[str, str]], daemon: StartDaemon, native: Path
) -> None:
    fikitd = daemon()
    env = managed(fikitd, more)
    run(source, env)
    page = fikitd.page()
    assert page.launches() == page.u64("launch_seq") == kernels_on_device(native, env) >= 20
    assert page.u64("slot_launches", 0) == 0
    assert page.of_kind(DRAINED)[-1].value == page.launches()
    described = {slot for slot in range(1, 4096) if page.u64("slot_launches", slot)}
    wait_for(lambda: described == set(fikitd.kernels), "a description of every kernel")
    assert all(kernel["name"] and kernel["module"] for kernel in fikitd.kernels.values())
    assert not any(kernel["name"].startswith("unknown") for kernel in fikitd.kernels.values())


@pytest.mark.parametrize(("source", "more"), CLIENTS)
def test_closed_gate_holds_and_expires(
    source: str, more: dict[str, str], managed: Callable[..., dict[str, str]], daemon: StartDaemon, native: Path
) -> None:
    fikitd = daemon(closed=True, lease_s=0.1)
    env = managed(fikitd, more)
    run(source, env)
    page = fikitd.page()
    assert len(page.of_kind(EXPIRED)) == page.u64("expired_count") == page.launches() == kernels_on_device(native, env)


@pytest.mark.parametrize(("source", "more"), CLIENTS)
def test_measuring_times_every_launch(
    source: str, more: dict[str, str], managed: Callable[..., dict[str, str]], daemon: StartDaemon
) -> None:
    fikitd = daemon(measure=True)
    run(source, managed(fikitd, more))
    page = fikitd.page()
    samples, gaps = page.of_kind(SAMPLE), page.of_kind(GAP)
    assert len(samples) == page.launches()
    doubtful = sum(entry.t_ns >> 49 & 1 for entry in samples)  # no gap is known before such a launch
    assert len(samples) - 1 - doubtful <= len(gaps) <= len(samples) - 1
    assert all(0 < entry.value < 1_000_000_000 for entry in samples)
