"""Jobs whose memory does not fit on the emulated GPU together take turns under a real fikitd, and every byte stays right whatever happens to it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemon_process import Runner, eventually
from restarted_service import Service

from fikitd import paths

MIB = 2**20
SUPPORT = Path(__file__).resolve().parents[1] / "support"  # what the programs import
GPU = """
[device]
memory = "192MiB"
context_memory = 0
[default]
base_us = 2000
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Service]:
    daemon = Service(tmp_path)
    daemon.config.write_text(
        daemon.config.read_text().replace('"paper"', '"budget"') + '\n[oversubscribe]\nallow = "lower"\nepoch_s = 1\n'
    )
    daemon.start()
    yield daemon
    assert daemon.stop() == 0, daemon.log.read_text()
    daemon.systemd.stop()
    assert "Traceback" not in daemon.log.read_text()


@pytest.fixture
def runner(daemon: Service, emulator_env: Callable[..., dict[str, str]], tmp_path: Path) -> Runner:
    config = tmp_path / "small.toml"
    config.write_text(GPU)
    return Runner(
        daemon, Path(sys.executable), paths.shim(), emulator_env(PYTHONPATH=str(SUPPORT), EMUCUDA_CONFIG=str(config))
    )


Job = tuple[str, subprocess.Popen[str]]


def rotating(runner: Runner, seconds: float, *, host_mib: int = 64) -> Job:
    code = f"import rotating_child; rotating_child.main(8, 16, {seconds})"
    job = runner.start("-c", code, mem_bytes=64 * MIB, mem_host_bytes=host_mib * MIB, priority=8)
    assert job[1].stdout is not None
    assert job[1].stdout.readline() == "ready\n"
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
    eventually(lambda: all(turns(daemon, job) >= 2 for job in jobs), 30)
    held = {entry["reason"] for job in jobs for entry in daemon.control.job(job[0])["held"]}
    assert "memory" in held
    results = [ended(job) for job in jobs]
    assert all(right and rounds > 3 for right, rounds in results), results


def test_beside_a_high_job_without_the_option_which_is_never_held(daemon: Service, runner: Runner) -> None:
    code = "import rotating_child; rotating_child.main(2, 16, 6)"
    jobs = [rotating(runner, 6), rotating(runner, 6)]
    high = runner.start("-c", code, mem_bytes=64 * MIB, priority=1)
    assert high[1].stdout is not None
    assert high[1].stdout.readline() == "ready\n"
    eventually(lambda: any(turns(daemon, job) >= 1 for job in jobs), 30)
    assert ended(high)[0]
    report = daemon.control.job(high[0])
    assert "memory" not in {entry["reason"] for entry in report["held"]}
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
