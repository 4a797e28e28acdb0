"""fikitd restarts without losing running jobs: who keeps its descriptors (systemd) hands their clients to the next one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from daemon_process import Runner, client_runner, eventually
from restarted_service import Service


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Service]:
    daemon = Service(tmp_path).start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()
    daemon.systemd.stop()


runner = pytest.fixture(client_runner)


def held(runner: Runner, **facts: Any) -> tuple[str, subprocess.Popen[str]]:
    """A job whose program has launched 40 kernels, and does so again when it is given a line."""
    job, process = runner.start(40, 50_000, "hold", **facts)
    assert process.stdout is not None
    assert process.stdout.readline() == "done 40\n"
    return job, process


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "restarted"])
def test_a_running_job_goes_on_managed_and_notices_nothing(
    how: signal.Signals, daemon: Service, runner: Runner
) -> None:
    job, process = runner.start(100, 50_000, "hold", mem_bytes=2**30)
    assert process.stdout is not None
    assert process.stdout.readline() == "done 100\n"
    eventually(lambda: daemon.control.job(job)["kernels"] == 100)
    daemon.restart(how)
    eventually(lambda: daemon.control.job(job)["kernels"] == 100)
    assert daemon.control.job(job)["state"] == "running"
    out, err = process.communicate("x", timeout=60)
    assert (process.returncode, out, err) == (0, "done 100\n", "")
    runner.end(job)
    report = daemon.report(job)
    assert (report["kernels"], report["processes"], report["state"]) == (200, 1, "ended")
    assert report["warnings"] == []
    eventually(daemon.systemd.empty)


def test_kernels_that_were_described_before_are_known_after_it(daemon: Service, runner: Runner) -> None:
    job, process = held(runner, measure=True, profile="mine")
    daemon.restart(signal.SIGKILL)
    eventually(lambda: daemon.control.job(job)["kernels"] == 40)
    assert process.communicate("x", timeout=60)[1] == ""
    runner.end(job)
    (stored,) = (daemon.profiles / str(os.getuid()) / "mine").iterdir()
    kernels = json.loads(stored.read_text())["kernels"]
    assert {kernel["name"] for kernel in kernels} == {"fikit_spin"}
    times = sum(kernel["duration"]["count"] for kernel in kernels if not kernel["context"])
    assert times >= 35  # of the 40 after the restart


def test_priorities_hold_under_the_next_daemon(daemon: Service, runner: Runner) -> None:
    lower, low = held(runner, priority=1)
    higher, high = held(runner, priority=1)
    daemon.control.priority(lower, 8)
    daemon.restart(signal.SIGKILL)
    for job in (lower, higher):
        eventually(lambda job=job: daemon.control.job(job)["kernels"] == 40)
    assert [daemon.control.job(job)["priority"] for job in (lower, higher)] == [8, 1]
    waits = daemon.control.job(lower)["wait"]["count"]
    assert low.communicate("x", timeout=60)[1] == ""
    report = eventually(lambda: (now := daemon.control.job(lower))["state"] == "ended" and now)
    assert report["kernels"] == 80
    assert report["wait"]["count"] > waits  # its gate was closed again
    assert high.communicate("x", timeout=60)[1] == ""


def test_a_process_that_ended_meanwhile_is_not_gone_on_with(daemon: Service, runner: Runner) -> None:
    job, process = held(runner)
    assert daemon.process is not None
    daemon.process.kill()
    daemon.process.wait()
    process.kill()
    process.communicate()
    daemon.start()
    runner.end(job)  # at once
    assert daemon.report(job)["kernels"] == 40, daemon.log.read_text()


def test_a_process_that_was_counted_is_not_counted_again_by_a_fikitd_that_is_handed_it(
    daemon: Service, runner: Runner
) -> None:
    job, process = held(runner)
    daemon.systemd.forgets = False
    process.kill()
    process.communicate()
    note = daemon.run_dir / "ledger" / job
    eventually(lambda: note.exists() and json.loads(note.read_text())["running"] == 0)
    daemon.systemd.forgets = True
    daemon.restart(signal.SIGKILL)
    report = daemon.control.job(job)
    assert (report["kernels"], report["processes"]) == (40, 1), daemon.log.read_text()
    eventually(daemon.systemd.empty)
    runner.end(job)
    assert (daemon.report(job)["kernels"], daemon.report(job)["warnings"]) == (40, [])


def test_a_job_whose_record_is_gone_runs_free(daemon: Service, runner: Runner) -> None:
    job, process = held(runner)
    assert daemon.process is not None
    daemon.process.kill()
    daemon.process.wait()
    (daemon.run_dir / "jobs" / job).unlink()
    daemon.start()
    eventually(daemon.systemd.empty)
    out, err = process.communicate("x", timeout=60)
    assert (process.returncode, out) == (0, "done 40\n")
    assert "fikitd is gone" in err
