"""A host that has to wait for a processor core is late, and its program has not paused: by the kernel's count of the wait."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from daemon_process import Fikitd, Runner, eventually

from fikitd import paths

SUPPORT = Path(__file__).resolve().parents[1] / "support"
LACKS_S = 0.6
# Twenty requests of 1 ms of the device, after each 2 ms of its host's own: computed, or slept. In the middle it computes until it has lacked a
# core, or pauses.
PROGRAM = """
from driver_child import *
import os, sys, time
context(); f = function(); how, meet = sys.argv[1:]
def host(s):
    if how == "computes":
        until = time.thread_time() + s
        while time.thread_time() < until: pass
    else:
        time.sleep(s)
for number in range(20):
    spin(f, 1000); synchronize()
    if number == 9:
        open(meet + ".half", "w").close()
        if how == "pauses": time.sleep({lacks})
        while how == "computes" and not os.path.exists(meet + ".lacked"): pass
    host(0.002)
print("done")
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Fikitd]:
    daemon = Fikitd(tmp_path, "budget").start()
    yield daemon
    daemon.stop()


@pytest.fixture
def runner(daemon: Fikitd, emulator_env: Callable[..., dict[str, str]], tmp_path: Path) -> Runner:
    config = tmp_path / "device.toml"
    config.write_text('[[kernel]]\nmatch = "*"\nduration = "param0_ns"\n')
    environment = emulator_env(EMUCUDA_CONFIG=str(config), PYTHONPATH=str(SUPPORT))
    return Runner(daemon, Path(sys.executable), paths.shim(), environment)


def pids_of(daemon: Fikitd, job: str) -> set[int]:
    return {process["pid"] for process in daemon.control.node()["clients"] if process["job"] == job}


@contextmanager
def core_taken_from(pids: set[int]) -> Iterator[None]:
    """They get a hundredth of a core, which another program has."""
    cores = os.sched_getaffinity(0)
    core = min(cores)
    hog = subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"])
    try:
        for pid in pids:
            os.sched_setaffinity(pid, [core])
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        yield
    finally:
        hog.kill()
        hog.wait()
        for pid in pids:
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
            os.sched_setaffinity(pid, cores)


@pytest.mark.parametrize("how", ["computes", "pauses"])
def test_a_gap_without_a_core_is_late_and_a_pause_is_the_programs_own(
    how: str, daemon: Fikitd, runner: Runner, tmp_path: Path
) -> None:
    meet = tmp_path / "meet"
    words = ("-c", PROGRAM.format(lacks=LACKS_S), how, str(meet))
    half, lacked = meet.with_suffix(".half"), meet.with_suffix(".lacked")
    lacked.touch()
    runner.run(*words, measure=True, profile="program")
    half.unlink()
    lacked.unlink()
    job, program = runner.start(*words, priority=5, profile="program", started_ns=time.time_ns())
    eventually(half.exists)
    if how == "computes":
        with core_taken_from(pids_of(daemon, job)):
            time.sleep(LACKS_S)
            lacked.touch()
    program.communicate(timeout=60)
    runner.end(job)
    report = daemon.report(job)
    found_s = report["pauses_s"] if how == "pauses" else report["host"]["late_s"]
    assert found_s >= LACKS_S / 2, report
