"""A job that needs more memory than there is on the emulated GPU, under a real fikitd: what it touches is learnt, its memory moves by a plan, and
(almost) nothing comes by page faults any more, by the device's own record. Every byte stays right whatever happens to it."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from daemon_process import Runner, eventually, heard, tell
from emulator_tools import stats
from oversubscribed import CHUNK, MIB, oversubscribing_daemon, runner_on, small_gpu
from restarted_service import Service

COUNT, BUFFER_MIB = 22, 16  # 352 MiB
GPU = small_gpu(256, 4000)
PROGRAM = f"import rotating_child; rotating_child.main_planned({COUNT}, {BUFFER_MIB})"
LEARNS = f"import rotating_child; rotating_child.learn({COUNT}, {BUFFER_MIB}, 6)"
PROGRAM_ANEW = f"import rotating_child; rotating_child.main_anew({COUNT}, {BUFFER_MIB})"
LEARNS_ANEW = f"import rotating_child; rotating_child.learn_anew({COUNT}, {BUFFER_MIB}, 6)"
MEMORY = {"mem_bytes": 192 * MIB, "mem_host_bytes": 192 * MIB, "profile": "planned", "priority": 8}


daemon = pytest.fixture(oversubscribing_daemon)
runner = runner_on(GPU)


@pytest.fixture
def missed(runner: Runner, native: Path) -> Callable[[int, float], int]:
    """Bytes that came by page faults while so many seconds went by."""

    def ask(pid: int) -> int:
        (found,) = [p for device in stats(native, runner.env) for p in device["processes"] if p["pid"] == pid]
        return int(found["missed_chunks"]) * CHUNK

    def missed(pid: int, seconds: float) -> int:
        begin = ask(pid)
        time.sleep(seconds)
        return ask(pid) - begin

    return missed


class Job:
    def __init__(self, daemon: Service, runner: Runner, learns: str = LEARNS, program: str = PROGRAM) -> None:
        self.daemon = daemon
        runner.run("-c", learns, measure=True, **{**MEMORY, "priority": 5})
        self.name, self.process = runner.start("-c", program, **MEMORY)
        assert heard(self.process) == "ready"

    def turn(self) -> None:
        """To its other order."""
        tell(self.process, "turn")
        assert heard(self.process) == "turned"

    def plan(self) -> dict[str, Any]:
        return dict(self.daemon.control.job(self.name)["memory"].get("plan") or {})

    def planned(self, passes: int = 10) -> dict[str, Any]:
        """Once it has gone by a plan for so many passes."""
        eventually(lambda: self.plan().get("passes", 0) >= passes, 40)
        return self.plan()

    def ended(self) -> tuple[bool, int]:
        """Whether every byte was right, and how many passes it had."""
        out, err = self.process.communicate("end\n", timeout=90)
        assert self.process.returncode == 0, err
        right, passes = out.split()
        return right == "True", int(passes)


def test_a_job_that_is_learnt_goes_by_its_plan_and_no_more_by_faults(
    daemon: Service, runner: Runner, missed: Callable[[int, float], int]
) -> None:
    job = Job(daemon, runner)
    plan = job.planned()
    assert plan["budget_bytes"] < plan["peak_bytes"] == COUNT * BUFFER_MIB * MIB
    begin = job.plan()["passes"]
    by_faults = missed(job.process.pid, 2.0)
    passes = job.plan()["passes"] - begin
    assert passes >= 5
    assert by_faults <= 0.05 * passes * COUNT * BUFFER_MIB * MIB
    job.turn()
    assert job.ended()[0]
    assert "its memory has a plan" in daemon.log.read_text()


def test_memory_that_is_taken_anew_is_there_for_the_first_launch_that_touches_it(
    daemon: Service, runner: Runner, missed: Callable[[int, float], int]
) -> None:
    job = Job(daemon, runner, LEARNS_ANEW, PROGRAM_ANEW)
    plan = job.planned()
    assert plan["peak_bytes"] == (COUNT + 1) * BUFFER_MIB * MIB
    begin = job.plan()["passes"]
    by_faults = missed(job.process.pid, 2.0)
    passes = job.plan()["passes"] - begin
    assert passes >= 3
    assert by_faults <= 0.25 * passes * COUNT * BUFFER_MIB * MIB, "as much comes anew in a pass"
    assert job.ended()[0]


def test_one_that_does_something_else_has_another_plan(
    daemon: Service, runner: Runner, missed: Callable[[int, float], int]
) -> None:
    job = Job(daemon, runner)
    before = job.planned()
    job.turn()
    eventually(lambda: daemon.log.read_text().count("its memory has a plan") >= 2, 40)
    eventually(lambda: job.plan()["passes"] > before["passes"] + 30, 40)
    begin = job.plan()["passes"]
    by_faults = missed(job.process.pid, 2.0)
    passes = job.plan()["passes"] - begin
    assert by_faults <= 0.05 * passes * COUNT * BUFFER_MIB * MIB
    assert job.ended()[0]


@pytest.mark.parametrize("gbps", [2.0, 12.0])
def test_a_plan_is_made_for_the_link_that_its_moves_have_shown(
    daemon: Service, runner: Runner, tmp_path: Path, gbps: float
) -> None:
    (tmp_path / "small.toml").write_text(f"{GPU}\n[copy]\nh2d_gbps = {gbps}\nd2h_gbps = {gbps}\n")
    job = Job(daemon, runner)

    def rates() -> list[float]:
        return [float(rate) for rate in re.findall(r"over a link of ([0-9.]+) GB/s", daemon.log.read_text())]

    job.planned()
    eventually(lambda: len(rates()) >= 2, 40)
    assert rates()[0] == 24.0, "until something has moved"
    assert rates()[1] == pytest.approx(gbps, rel=0.4)
    job.turn()
    assert job.ended()[0]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "restarted"])
def test_a_fikitd_that_ends_in_the_middle_of_a_plan(how: signal.Signals, daemon: Service, runner: Runner) -> None:
    job = Job(daemon, runner)
    job.planned()
    daemon.restart(how)
    job.planned()
    job.turn()
    assert job.ended()[0]
