"""A job of several processes that need 1.5 times the emulated GPU's memory together, under a real fikitd: each has a plan within the job's room, and by
the device's own record little comes by page faults any more. Every byte stays right whatever happens to one of them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon_process import Runner, eventually
from oversubscribed import MIB, runner_on, serving, small_gpu
from restarted_service import Service
from several_processes import BUFFER_MIB, Job, forwards

GPU = small_gpu(256, 4000)
NO_PLANS = (
    "from fikitd._core import Dispatcher; Dispatcher.set_plan = lambda *arguments: 0; "
    "from fikitd.entry import fikitd; fikitd()"
)


class Unplanned(Service):
    """fikitd with its plans left out."""

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", NO_PLANS, "--config", str(self.config), *arguments]


@pytest.fixture
def daemon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    yield from serving(getattr(request, "param", Service)(tmp_path))


runner = runner_on(GPU)


@pytest.mark.parametrize("link", ["", "[copy]\nh2d_gbps = 4.0\nd2h_gbps = 4.0\n"], ids=["fast", "slow"])
def test_two_processes_go_by_their_plans_and_hardly_by_faults(
    link: str, daemon: Service, runner: Runner, native: Path, tmp_path: Path
) -> None:
    (tmp_path / "small.toml").write_text(GPU + link)
    job = Job(daemon, runner, native, forwards(12, 12), [12])
    plan = job.go_by_plans()
    assert plan["peak_bytes"] == 24 * BUFFER_MIB * MIB
    assert plan["budget_bytes"] <= 256 * MIB
    now = job.planned_now()
    assert now is not None
    assert now["budget_bytes"] <= 256 * MIB
    if link:
        eventually(lambda: job.plan()["expected_loss"] > 0, 30)  # they are planned for it
        job.go_by_plans()
    assert job.missed_share() <= 0.1
    assert all(right and passes > 10 for right, passes in job.ended())
    assert all(f"the memory of its process {pid} has a plan" in daemon.log.read_text() for pid in job.pids)


@pytest.mark.parametrize("daemon", [Unplanned], indirect=True)
def test_without_plans_they_go_by_faults(daemon: Service, runner: Runner, native: Path) -> None:
    job = Job(daemon, runner, native, forwards(12, 12), [12])
    time.sleep(3)
    assert job.missed_share() > 0.3
    assert job.plan() == {}
    assert all(right for right, _ in job.ended())


def test_a_large_and_a_small_process(daemon: Service, runner: Runner, native: Path) -> None:
    job = Job(daemon, runner, native, forwards(16, 8), [16, 8])
    plan = job.go_by_plans()
    assert plan["peak_bytes"] == 24 * BUFFER_MIB * MIB
    assert job.missed_share() <= 0.1
    assert all(right for right, _ in job.ended())


def test_a_process_that_is_killed_leaves_the_other_one_all_of_the_gpu(
    daemon: Service, runner: Runner, native: Path
) -> None:
    job = Job(daemon, runner, native, forwards(12, 12), [12])
    before = job.go_by_plans()
    os.kill(job.pids[0], signal.SIGKILL)
    eventually(lambda: job.planned_now() is None, 30)
    time.sleep(1)
    assert job.missed_share() == 0.0
    after = job.plan()
    assert (after["processes"], after["budget_bytes"]) == (2, before["budget_bytes"]), "the report says what was"
    ((right, passes),) = job.ended()
    assert right
    assert passes > 20


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "restarted"])
def test_a_fikitd_that_ends_in_the_middle(how: signal.Signals, daemon: Service, runner: Runner, native: Path) -> None:
    job = Job(daemon, runner, native, forwards(12, 12), [12])
    job.go_by_plans()
    daemon.restart(how)
    job.go_by_plans()
    now = job.planned_now()
    assert now is not None
    assert now["peak_bytes"] == 24 * BUFFER_MIB * MIB
    assert job.missed_share() <= 0.1
    assert all(right for right, _ in job.ended())


def test_one_that_does_not_iterate_has_all_of_its_memory(daemon: Service, runner: Runner, native: Path) -> None:
    job = Job(daemon, runner, native, [*forwards(14), f"main_about(6, {BUFFER_MIB})"], [14])
    job.go_by_plans(processes=1)
    now = job.planned_now()
    assert now is not None
    assert now["peak_bytes"] == 14 * BUFFER_MIB * MIB
    assert now["budget_bytes"] <= (256 - 6 * BUFFER_MIB) * MIB
    assert job.missed_share() <= 0.1
    assert all(right for right, _ in job.ended())


def test_beside_another_job_all_run_at_once_by_their_plans(daemon: Service, runner: Runner, native: Path) -> None:
    jobs = [Job(daemon, runner, native, forwards(8, 8), [8]), Job(daemon, runner, native, forwards(8), [])]
    eventually(lambda: all(job.planned_now() for job in jobs), 60)
    jobs[0].go_by_plans(passes=20)
    now = [job.planned_now() for job in jobs]
    assert [each["peak_bytes"] for each in now if each] == [16 * BUFFER_MIB * MIB, 8 * BUFFER_MIB * MIB]
    assert sum(each["budget_bytes"] for each in now if each) <= 256 * MIB
    assert all(job.missed_share() <= 0.1 for job in jobs)
    assert all(right and passes > 10 for job in jobs for right, passes in job.ended())
