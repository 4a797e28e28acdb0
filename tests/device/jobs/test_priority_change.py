"""A job's priority changes while two real programs run on one emulated GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon_process import Fikitd, Runner, client_runner, eventually


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Fikitd]:
    daemon = Fikitd(tmp_path, policy="prio").start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()


runner = pytest.fixture(client_runner)


def kernels(daemon: Fikitd, job: str) -> int:
    return sum(report["kernels"] for report in daemon.control.jobs() if report["job"] == job)


def test_a_low_job_that_becomes_the_high_one_waits_no_more_and_the_other_does(daemon: Fikitd, runner: Runner) -> None:
    first, working = runner.start(1500, 2_000_000, priority=1)
    eventually(lambda: kernels(daemon, first) > 10)
    second, other = runner.start(200, 2_000_000, priority=8)
    eventually(lambda: any(report["job"] == second for report in daemon.control.jobs()))
    assert daemon.control.priority(second, 0) == 0
    _, err = other.communicate(timeout=60)
    assert (other.returncode, err) == (0, "")
    done = kernels(daemon, first)
    assert done < 1300, "it had to wait for the other"
    _, err = working.communicate(timeout=60)
    assert (working.returncode, err) == (0, "")
    runner.end(second)
    runner.end(first)
    report = daemon.report(first)
    assert report["kernels"] == 1500
    assert (
        sum(entry["total_s"] for entry in report["wait_reasons"] if entry["job"] == second and entry["priority"] == 0)
        > 0.05
    )
    assert daemon.report(second)["priority"] == 0


def test_changes_without_end_cost_no_kernel(daemon: Fikitd, runner: Runner) -> None:
    programs = [runner.start(400, 300_000, priority=priority) for priority in (1, 8)]
    for round_ in range(100):
        for job, process in programs:
            if process.poll() is None:
                daemon.control.priority(job, round_ % 10)
    for _, process in programs:
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
    for job, _ in programs:
        runner.end(job)
        assert daemon.report(job)["kernels"] == 400
