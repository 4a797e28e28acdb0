"""Somebody stops a client (a signal, the cgroup freezer, a debugger) or the kernel kills it: nobody else waits longer than a lease."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from control_groups import control_group
from daemon_process import SOURCE, Fikitd, Runner, eventually
from emulator_tools import SOURCES, driver_flags
from stops import STOPS, sleeps_on_a_futex, state

from fikitd import paths

LEASE_MS = 500
SLACK_MS = 400  # two busy cores may be a few time slices late
HIGH, LOW = 1, 8


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Fikitd]:
    daemon = Fikitd(tmp_path, "budget")
    daemon.config.write_text(daemon.config.read_text() + f"lease_ms = {LEASE_MS}\n")
    daemon.start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()
    assert "Traceback" not in daemon.log.read_text()


@pytest.fixture
def runner(daemon: Fikitd, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]) -> Runner:
    return Runner(daemon, cc(SOURCE), paths.shim(), emulator_env())


@pytest.fixture
def others(runner: Runner, native: Path, cc: Callable[..., Path]) -> Callable[[], list[float]]:
    """A function that runs a low job, and how many ms each of its kernels took."""
    spinner = Runner(runner.daemon, cc(SOURCES / "emu_faults.c", *driver_flags(native)), paths.shim(), runner.env)
    spinner._numbers = runner._numbers

    def run() -> list[float]:
        _, process = spinner.start("spin", 200, 40, priority=LOW)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        return [float(ms) for ms in out.split()]

    return run


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def goes_on(process: subprocess.Popen[str]) -> str:
    """What else it says once it may go on, and ends with success."""
    out, err = process.communicate("x", timeout=60)
    assert (process.returncode, err) == (0, "")
    return out


def waits_at_the_gate(process: subprocess.Popen[Any]) -> bool:
    return sleeps_on_a_futex(process.pid)


@pytest.mark.parametrize("launches", [0, 300], ids=["idle", "with work on the GPU"])
@pytest.mark.parametrize("how", STOPS)
def test_a_stopped_high_client_holds_nobody_longer_than_a_lease(
    runner: Runner, others: Callable[[], list[float]], how: str, launches: int
) -> None:
    job, high = runner.start(launches or 1, 1_000_000, "quiet", priority=HIGH)
    assert first_line(high) == f"done {launches or 1}\n"
    eventually(lambda: state(high.pid) == "S")  # on its standard input
    with STOPS[how](high.pid):  # type: ignore[attr-defined]
        took_ms = others()
    # Its work was on the GPU before: that takes as long as it takes.
    assert max(took_ms) < LEASE_MS + SLACK_MS + launches
    assert goes_on(high) == ""
    assert runner.daemon.control.job(job)["kernels"] == (launches or 1)


@pytest.mark.parametrize("how", STOPS)
def test_one_stopped_at_the_gate_holds_nobody_longer_than_a_lease_and_wakes_well(
    runner: Runner, others: Callable[[], list[float]], how: str
) -> None:
    """It is granted while it is stopped, and does not launch."""
    _, high = runner.start(400, 1_000_000, "quiet", priority=HIGH)
    first_line(high)
    job, low = runner.start(20, 200_000, priority=LOW)
    eventually(lambda: waits_at_the_gate(low))
    with STOPS[how](low.pid):  # type: ignore[attr-defined]
        assert max(others()) < 2 * LEASE_MS + SLACK_MS + 400
    assert goes_on(low) == "done 20\n"
    assert goes_on(high) == ""
    eventually(lambda: runner.daemon.control.job(job)["state"] == "ended")
    assert runner.daemon.control.job(job)["kernels"] == 20


@pytest.mark.parametrize("how", STOPS)
def test_a_stopped_fikitd_holds_nobody_longer_than_a_lease_and_goes_on(runner: Runner, how: str) -> None:
    _, high = runner.start(400, 1_000_000, "quiet", priority=HIGH)
    first_line(high)
    job, low = runner.start(20, 200_000, priority=LOW)
    eventually(lambda: waits_at_the_gate(low))
    assert runner.daemon.process is not None
    begin = time.monotonic()
    with STOPS[how](runner.daemon.process.pid):  # type: ignore[attr-defined]
        assert goes_on(low) == "done 20\n"
        assert time.monotonic() - begin < (2 * LEASE_MS + SLACK_MS + 400) / 1000
    assert goes_on(high) == ""
    eventually(lambda: runner.daemon.control.job(job)["state"] == "ended")
    assert runner.daemon.control.job(job)["kernels"] == 20
    assert runner.daemon.control.job(job)["expired"] > 0


def test_all_of_them_stopped_for_longer_than_a_lease_go_on_as_before(
    runner: Runner, others: Callable[[], list[float]]
) -> None:
    """A virtual machine that is paused, or whose clock that only runs forward goes on meanwhile: every lease runs out at once."""
    _, high = runner.start(400, 1_000_000, "quiet", priority=HIGH)
    first_line(high)
    job, low = runner.start(20, 200_000, priority=LOW)
    eventually(lambda: waits_at_the_gate(low))
    assert runner.daemon.process is not None
    with STOPS["SIGSTOP"](low.pid), STOPS["SIGSTOP"](high.pid), STOPS["SIGSTOP"](runner.daemon.process.pid):  # type: ignore[attr-defined]
        time.sleep(3 * LEASE_MS / 1000)
    assert goes_on(low) == "done 20\n"
    assert goes_on(high) == ""
    eventually(lambda: runner.daemon.control.job(job)["state"] == "ended")
    assert runner.daemon.control.job(job)["kernels"] == 20
    _, high = runner.start(400, 1_000_000, "quiet", priority=HIGH)
    first_line(high)
    assert max(others()) > 100  # priorities hold as before
    goes_on(high)


def test_one_killed_at_the_gate_holds_nobody_longer_than_a_lease(
    runner: Runner, others: Callable[[], list[float]]
) -> None:
    _, high = runner.start(400, 1_000_000, "quiet", priority=HIGH)
    first_line(high)
    job, low = runner.start(20, 200_000, priority=LOW)
    eventually(lambda: waits_at_the_gate(low))
    low.kill()
    assert max(others()) < LEASE_MS + SLACK_MS + 400
    assert low.communicate(timeout=60)[1] == ""
    goes_on(high)
    report = runner.daemon.control.job(job)
    assert (report["state"], report["kernels"], report["warnings"]) == ("ended", 0, [])


# Launches once in its first thread, at the gate; a second thread does what the test wants when a byte comes.
LAUNCH = """
import ctypes, os, sys, threading
def act():
    sys.stdin.read(1)
    {act}
threading.Thread(target=act, daemon=True).start()
cuda = ctypes.CDLL("libcuda.so.1")
context, module, function, ns = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(200_000)
ptx = b".version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry fikit_spin(.param .u64 ns) {{ ret; }}\\n"
assert cuda.cuInit(0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), ptx) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"fikit_spin") == 0
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(ns))
print("ready", flush=True)
cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
sys.exit("it was not to come back")
"""


def launches_and_then(runner: Runner, act: str) -> tuple[str, subprocess.Popen[str]]:
    python = Runner(runner.daemon, Path(sys.executable), paths.shim(), runner.env)
    python._numbers = runner._numbers
    job, process = python.start("-c", LAUNCH.format(act=act), priority=LOW)
    return job, process


def test_one_whose_memory_cgroup_kills_it_at_the_gate_holds_nobody_longer_than_a_lease(
    runner: Runner, others: Callable[[], list[float]]
) -> None:
    _, high = runner.start(1500, 1_000_000, "quiet", priority=HIGH)
    first_line(high)
    job, low = launches_and_then(runner, "eaten = bytearray(600 << 20)")
    with control_group("memory", low.pid) as group:
        group.limit_memory(300 << 20)
        assert first_line(low) == "ready\n"
        eventually(lambda: waits_at_the_gate(low))
        assert low.stdin is not None
        low.stdin.write("x")
        low.stdin.flush()
        assert low.wait(60) == -9
    assert max(others()) < LEASE_MS + SLACK_MS + 1500
    low.communicate()
    goes_on(high)
    assert runner.daemon.control.job(job)["state"] == "ended"


def test_one_that_becomes_another_program_at_the_gate_is_that_program(
    runner: Runner, others: Callable[[], list[float]]
) -> None:
    _, high = runner.start(1500, 1_000_000, "quiet", priority=HIGH)
    first_line(high)
    job, low = launches_and_then(runner, 'os.execv("/bin/echo", ["echo", "another"])')
    assert first_line(low) == "ready\n"
    eventually(lambda: waits_at_the_gate(low))
    assert goes_on(low) == "another\n"
    assert max(others()) < LEASE_MS + SLACK_MS + 1500
    goes_on(high)
    assert runner.daemon.control.job(job)["state"] == "ended"
