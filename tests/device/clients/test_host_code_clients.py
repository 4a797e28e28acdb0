"""Programs that launch and then compute on the host: the GPU itself says when their work is over (emulated GPU)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemon_process import SOURCE, Fikitd, Runner, client_runner
from emulator_tools import driver_flags

LEASE_S = 10
IN_TIME_S = 8  # far less than a lease, far more than the work


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Fikitd]:
    daemon = Fikitd(tmp_path)
    daemon.config.write_text(daemon.config.read_text() + f"lease_ms = {LEASE_S * 1000}\n")
    yield daemon.start()
    assert daemon.stop() == 0, daemon.log.read_text()


runner = pytest.fixture(client_runner)


def began(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().startswith("done")


def go_on(process: subprocess.Popen[str]) -> str:
    """Let a waiting program go; returns its standard error at its end."""
    _, err = process.communicate("x", timeout=IN_TIME_S)
    assert process.returncode == 0, err
    return err


def test_an_unknown_kernel_of_a_lower_job_on_the_host_does_not_block_other_lower_jobs(runner: Runner) -> None:
    _, high = runner.start(10, 1000, "hold", priority=1)
    began(high)
    _, computing = runner.start(1, 1_000_000, "quiet", priority=8)
    began(computing)
    _, other = runner.start(20, 50_000, priority=8)
    out, err = other.communicate(timeout=IN_TIME_S)
    assert (other.returncode, out, err) == (0, "done 20\n", "")
    assert go_on(computing) == go_on(high) == ""


def test_unknown_kernels_of_a_higher_job_on_the_host_do_not_block_lower_jobs(runner: Runner) -> None:
    _, low = runner.start(20, 50_000, "hold", priority=8)
    began(low)
    _, high = runner.start(5, 1_000_000, "quiet", priority=1)
    began(high)
    assert go_on(low) == ""
    assert go_on(high) == ""


@pytest.mark.parametrize("priority", [1, 9], ids=["marked by the kernel", "marked by the grant"])
def test_contexts_that_come_and_go_are_marked_without_harm(
    daemon: Fikitd, runner: Runner, cc: Callable[..., Path], native: Path, priority: int
) -> None:
    _, other = runner.start(10, 1000, "hold", priority=5)
    began(other)
    runner.client = cc(SOURCE.with_name("contexts.c"), *driver_flags(native))
    job, process = runner.start(priority=priority)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "done 700\n", "")
    runner.end(job)
    assert daemon.report(job)["kernels"] == 700
    assert go_on(other) == ""
