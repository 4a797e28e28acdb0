"""Two jobs of several processes each whose memory does not fit on the emulated GPU together take turns under a real fikitd: a job's processes have
one turn, and every byte stays right whatever happens to one of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from daemon_process import Runner, eventually
from oversubscribed import oversubscribing_daemon, runner_on, small_gpu
from restarted_service import Service
from several_processes import BUFFER_MIB, Job, forwards

GPU = small_gpu(192, 2000)
SLOW_LINK = "[copy]\nh2d_gbps = 4.0\nd2h_gbps = 4.0\n"
LOOK_S = 0.15

daemon = pytest.fixture(oversubscribing_daemon)


runner = runner_on(GPU)


def about(*counts: int) -> list[str]:
    """Processes with so many buffers that no plan can be made for."""
    return [f"main_about({count}, {BUFFER_MIB})" for count in counts]


@pytest.fixture
def jobs(daemon: Service, runner: Runner, native: Path) -> list[Job]:
    """Of 128 MiB each, where there are 192."""
    return [Job(daemon, runner, native, about(5, 3), []) for _ in range(2)]


def who_ran(jobs: Sequence[Job], seconds: float) -> list[tuple[tuple[int, ...], ...]]:
    """Look by look: how many kernels each process of each job had run since the look before."""
    until, found, before = time.monotonic() + seconds, [], [job.kernels() for job in jobs]
    while time.monotonic() < until:
        time.sleep(LOOK_S)
        now = [job.kernels() for job in jobs]
        found.append(tuple(tuple(b - a for a, b in zip(*each, strict=True)) for each in zip(before, now, strict=True)))
        before = now
    return found


def have_turns(jobs: Sequence[Job], more: int = 2) -> None:
    """Each so many more times as it has processes."""
    before = [job.turns() for job in jobs]
    eventually(
        lambda: all(job.turns() >= was + more * len(job.kernels()) for job, was in zip(jobs, before, strict=True)),
        60,
    )


def all_right(jobs: Sequence[Job]) -> bool:
    return all(right and rounds > 3 for job in jobs for right, rounds in job.ended())


def test_the_processes_of_a_job_have_one_turn_and_the_other_jobs_have_theirs(jobs: list[Job]) -> None:
    have_turns(jobs)
    looks = who_ran(jobs, 8)
    for own, other in ((0, 1), (1, 0)):
        alone = [look for look in looks if all(look[own]) and not any(look[other])]
        assert len(alone) >= 4, looks
    assert all_right(jobs)


def test_over_a_slow_link(daemon: Service, runner: Runner, native: Path, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(GPU + SLOW_LINK)
    jobs = [Job(daemon, runner, native, about(5, 3), []) for _ in range(2)]
    have_turns(jobs)
    assert all_right(jobs)


def test_a_process_that_is_killed_in_its_turn_leaves_its_job_and_the_other_one_theirs(jobs: list[Job]) -> None:
    have_turns(jobs, 1)
    os.kill(jobs[0].pids[1], signal.SIGKILL)
    eventually(lambda: len(jobs[0].kernels()) == 1, 10)
    looks = who_ran(jobs, 6)  # 80 and 128 MiB
    assert any(look[0][0] for look in looks)
    assert any(all(look[1]) for look in looks)
    assert all_right(jobs)


def test_who_grows_small_enough_by_a_death_runs_beside_the_other_job(
    daemon: Service, runner: Runner, native: Path
) -> None:
    jobs = [Job(daemon, runner, native, about(2, 4), []), Job(daemon, runner, native, about(6, 2), [])]
    have_turns(jobs, 1)
    os.kill(jobs[0].pids[1], signal.SIGKILL)  # 32 and 128 MiB: they fit
    eventually(lambda: len(jobs[0].kernels()) == 1, 10)
    eventually(lambda: all(all(each) for each in who_ran(jobs, 2 * LOOK_S)[-1]), 30)
    before = [job.turns() for job in jobs]
    looks = who_ran(jobs, 4)
    assert sum(bool(look[0][0] and all(look[1])) for look in looks) > len(looks) / 2, looks
    assert [job.turns() for job in jobs] == before
    assert all_right(jobs)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "restarted"])
def test_a_fikitd_that_ends_in_the_middle(how: signal.Signals, daemon: Service, jobs: list[Job]) -> None:
    have_turns(jobs, 1)
    daemon.restart(how)
    have_turns(jobs, 1)
    assert all_right(jobs)


def test_jobs_that_alone_have_too_much_take_turns_by_plans(daemon: Service, runner: Runner, native: Path) -> None:
    """256 MiB each: in its turn a job has plans for the 192 that there are."""
    jobs = [Job(daemon, runner, native, forwards(8, 8), [8]), Job(daemon, runner, native, forwards(8, 8), [])]
    eventually(lambda: all(job.plan().get("processes", 0) == 2 and job.plan()["passes"] > 20 for job in jobs), 60)
    for job in jobs:
        assert job.plan()["budget_bytes"] <= 192 << 20
    assert all_right(jobs)
