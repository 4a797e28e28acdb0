"""A high-priority job that hangs or dies on the (emulated) GPU holds a low one no longer than fikit's lease."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from daemon_process import Fikitd, Runner, eventually, usual_daemon
from emulator_tools import SOURCES, driver_flags
from fikitd.config import fikit_toml

from fikitd import paths

SLACK_MS = 400  # two busy cores may be a few time slices late
HIGH, LOW = 1, 8


daemon = pytest.fixture(usual_daemon)


@pytest.fixture
def runner(
    daemon: Fikitd, native: Path, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]
) -> Runner:
    return Runner(daemon, cc(SOURCES / "emu_faults.c", *driver_flags(native)), paths.shim(), emulator_env())


def emuctl(runner: Runner, *arguments: str) -> str:
    env = {key: value for key, value in runner.env.items() if key != "LD_PRELOAD"}
    return subprocess.run(
        [paths.emuctl(), *arguments], env=env, check=True, capture_output=True, text=True, timeout=60
    ).stdout


@pytest.mark.parametrize(("what", "how_it_ends"), [("hang", None), ("error=700", "700\n"), ("kill", "")])
def test_low_job_is_held_no_longer_than_the_lease(
    daemon: Fikitd, runner: Runner, what: str, how_it_ends: str | None
) -> None:
    _, high = runner.start("beat", 300, priority=HIGH)
    assert high.stdout is not None
    assert high.stdout.readline() == "running\n"
    _, low = runner.start("spin", 200, 600, priority=LOW)
    assert low.stdout is not None
    low.stdout.readline()
    emuctl(runner, "inject", f"kernel=fikit_spin pid={high.pid} {what}")
    eventually(lambda: "struck 1" in emuctl(runner, "faults"))
    if how_it_ends is not None:
        assert high.stdout.readline() == how_it_ends
    assert low.stderr is not None
    out, err = low.stdout.read(), low.stderr.read()  # communicate() would lose what readline() has buffered
    assert (low.wait(60), err) == (0, "")
    kernels_ms = list(map(float, out.split()))
    assert len(kernels_ms) == 599
    lease_ms = fikit_toml.load(daemon.config).scheduler.lease_ms
    assert max(kernels_ms) < lease_ms + SLACK_MS
    assert statistics.median(kernels_ms) < lease_ms / 5  # one lease in all, not one for every kernel
    high.kill()
    high.communicate()
