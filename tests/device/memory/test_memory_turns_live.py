"""Jobs whose memory does not fit on the emulated GPU together take turns under a real fikitd, and every byte stays right whatever happens to it."""

from __future__ import annotations

import signal
import subprocess

import pytest
from control_groups import control_group
from daemon_process import Runner, eventually, heard, tell
from oversubscribed import MIB, oversubscribing_daemon, runner_on, small_gpu
from restarted_service import Service

GPU = small_gpu(192, 2000)


daemon = pytest.fixture(oversubscribing_daemon)
runner = runner_on(GPU)


Job = tuple[str, subprocess.Popen[str]]


def rotating(runner: Runner, seconds: float, *, host_mib: int = 64) -> Job:
    code = f"import rotating_child; rotating_child.main(8, 16, {seconds})"
    job = runner.start("-c", code, mem_bytes=64 * MIB, mem_host_bytes=host_mib * MIB, priority=8)
    assert heard(job[1]) == "ready"
    return job


def ended(job: Job) -> tuple[bool, int]:
    """Whether its contents were right, and how often it went round."""
    out, err = job[1].communicate(timeout=90)
    assert job[1].returncode == 0, err
    right, rounds = out.split()
    return right == "True", int(rounds)


def turns(daemon: Service, job: Job) -> int:
    moved = daemon.control.job(job[0])["memory"]["moved"]
    return int(moved["turns"])


def test_two_jobs_take_turns_and_both_go_on(daemon: Service, runner: Runner) -> None:
    jobs = [rotating(runner, 8), rotating(runner, 8)]
    eventually(lambda: all(turns(daemon, job) >= 1 for job in jobs), 30)
    held = {entry["reason"] for job in jobs for entry in daemon.control.job(job[0])["wait_reasons"]}
    assert "memory" in held
    results = [ended(job) for job in jobs]
    assert all(right and rounds > 3 for right, rounds in results), results


def test_beside_a_high_job_without_the_option_which_is_never_held(daemon: Service, runner: Runner) -> None:
    code = "import rotating_child; rotating_child.main(2, 16, 6)"
    jobs = [rotating(runner, 6), rotating(runner, 6)]
    high = runner.start("-c", code, mem_bytes=64 * MIB, priority=1)
    assert heard(high[1]) == "ready"
    eventually(lambda: any(turns(daemon, job) >= 1 for job in jobs), 30)
    assert ended(high)[0]
    report = daemon.control.job(high[0])
    assert "memory" not in {entry["reason"] for entry in report["wait_reasons"]}
    assert "moved" not in report["memory"]
    assert all(ended(job)[0] for job in jobs)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "restarted"])
def test_a_restart_in_the_middle_of_an_epoch(how: signal.Signals, daemon: Service, runner: Runner) -> None:
    jobs = [rotating(runner, 9), rotating(runner, 9)]
    eventually(lambda: any(turns(daemon, job) >= 1 for job in jobs), 30)
    daemon.restart(how)
    before = [turns(daemon, job) for job in jobs]
    eventually(lambda: any(turns(daemon, job) > was for job, was in zip(jobs, before, strict=True)), 30)
    assert all(right and rounds > 1 for right, rounds in map(ended, jobs))


def test_a_job_that_is_killed_lets_the_other_one_have_the_gpu(daemon: Service, runner: Runner) -> None:
    first, second = rotating(runner, 30), rotating(runner, 6)
    eventually(lambda: turns(daemon, first) + turns(daemon, second) >= 1, 30)
    first[1].kill()
    first[1].communicate()
    right, rounds = ended(second)
    assert right
    assert rounds > 3


def test_a_job_that_the_kernel_kills_for_its_host_memory_in_a_turn_costs_nobody_else_anything(
    daemon: Service, runner: Runner
) -> None:
    """What lies on the host may count against the memory of the job's control group, and then the kernel kills it there."""
    code = "import rotating_child; rotating_child.grow_when_told(8, 16)"
    with control_group("memory") as group:
        first = runner.start("-c", code, mem_bytes=64 * MIB, mem_host_bytes=64 * MIB, priority=8)
        assert heard(first[1]) == "ready"
        second = rotating(runner, 10)
        eventually(lambda: turns(daemon, first) + turns(daemon, second) >= 1, 30)
        group.add(first[1].pid)
        group.limit_memory(32 * MIB)  # beyond what it has: that stays counted where it was
        tell(first[1], "grow")
        assert first[1].wait(30) == -signal.SIGKILL
    first[1].communicate()
    right, rounds = ended(second)
    assert right
    assert rounds > 3
    eventually(lambda: daemon.control.job(first[0])["state"] == "ended", 10)
