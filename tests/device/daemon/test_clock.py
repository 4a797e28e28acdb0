"""A wall clock that jumps by two years at every look, in fikitd and in the programs: nobody decides anything by it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemon_process import SOURCE, Fikitd, Runner, eventually
from fikitd.profiles.profile_store import ProfileStore

from fikitd import paths


@pytest.fixture
def clock(cc: Callable[..., Path]) -> str:
    return str(cc("tests/device/programs/daemon/jumping_clock.c", "-shared", "-fPIC"))


@pytest.fixture
def daemon(tmp_path: Path, clock: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fikitd]:
    with monkeypatch.context() as environment:
        environment.setenv("LD_PRELOAD", clock)
        daemon = Fikitd(tmp_path, "budget").start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()


@pytest.fixture
def runner(daemon: Fikitd, clock: str, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]) -> Runner:
    runner = Runner(daemon, cc(SOURCE), paths.shim(), emulator_env())
    runner.env["LD_PRELOAD"] += f":{clock}"
    return runner


def test_the_clock_really_jumps(clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", clock)
    with os.popen("date +%s; date +%s") as dates:
        assert {abs(int(date) - time.time()) > 300 * 86400 for date in dates.read().split()} == {True}


def test_jobs_share_and_are_reported_and_learnt_from_as_ever(daemon: Fikitd, runner: Runner) -> None:
    runner.run(60, 100_000, measure=True, profile="mine")
    (high, program), (low, other) = (
        runner.start(300, 100_000, priority=priority, profile="mine") for priority in (1, 8)
    )
    for process in (program, other):
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "done 300\n", "")
    for job in (high, low):
        eventually(lambda job=job: daemon.control.job(job)["state"] == "ended")
        runner.end(job)
        report = daemon.report(job)
        assert (report["kernels"], report["warnings"], report["profile"]["found"]) == (300, [], True)
        assert 0 < report["span_s"] < 60
        assert report["wait"]["total_s"] < 60
    profile = ProfileStore(daemon.profiles).load(os.getuid(), "mine")
    assert profile is not None
    assert profile["launches"] >= 60
