"""A real fikitd without descriptors or without threads: programs run, those that it knows stay managed, and it recovers."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from control_groups import control_group
from daemon_process import Fikitd, Runner, client_runner, eventually, usual_daemon

daemon = pytest.fixture(usual_daemon)
runner = pytest.fixture(client_runner)


def descriptors(daemon: Fikitd) -> int:
    assert daemon.process is not None
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))  # noqa: PTH208


@contextmanager
def descriptors_left(daemon: Fikitd, more: int) -> Iterator[None]:
    assert daemon.process is not None
    pid = daemon.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors(daemon) + more, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def runs_or_is_told(runner: Runner) -> str:
    """A program as a job of its own: it computes what it should, and one line at most says that nobody manages it."""
    _, process = runner.start(20, 100_000)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "done 20\n")
    assert err == "" or (err.count("\n") == 1 and "it runs without priorities" in err), err
    assert "no answer" not in err  # it is told at once
    return err


def stays_managed(daemon: Fikitd, runner: Runner, without: Callable[[], None], *, quiet: bool = True) -> None:
    """`without`: what happens beside a job that fikitd has known since before."""
    job, process = runner.start(100, 100_000, "hold", priority=1)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "done 100\n"
    without()
    eventually(lambda: runs_or_is_told(runner) == "")
    process.stdin.write("x")
    process.stdin.flush()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "done 100\n", "")
    assert " 200 kernels" in daemon.control.summary(job)
    assert not quiet or "Traceback" not in daemon.log.read_text()


def test_without_descriptors_programs_run_and_fikitd_recovers(daemon: Fikitd, runner: Runner) -> None:
    runs_or_is_told(runner)
    told = []

    def without() -> None:
        for more in range(9):  # each step of a hello lacks one once
            with descriptors_left(daemon, more):
                told.append(runs_or_is_told(runner))

    stays_managed(daemon, runner, without)
    assert all(told[:4])
    log = daemon.log.read_text()
    assert log.count("could not be accepted") + log.count("were refused") <= 5


def test_without_memory_programs_run_and_fikitd_recovers(daemon: Fikitd, runner: Runner) -> None:
    """As with vm.overcommit_memory=2, or a limit on its address space: a thread may be made and find no memory to begin with."""
    assert daemon.process is not None
    pid = daemon.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_AS)

    def without() -> None:
        for more in (0, 2**20):
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
            resource.prlimit(pid, resource.RLIMIT_AS, (pages * resource.getpagesize() + more, before[1]))
            _, process = runner.start(20, 100_000)
            assert process.communicate(timeout=60)[0] == "done 20\n"
            resource.prlimit(pid, resource.RLIMIT_AS, before)
            assert daemon.control.ping()

    stays_managed(daemon, runner, without, quiet=False)


def test_without_threads_programs_run_and_fikitd_recovers(daemon: Fikitd, runner: Runner) -> None:
    assert daemon.process is not None
    with control_group("pids", daemon.process.pid) as group:
        told = []

        def without() -> None:
            for more in (0, 0, 1, 2):
                group.write("pids.max", int(group.read("pids.current")) + more)
                told.append(runs_or_is_told(runner))
                assert daemon.control.ping()
                group.write("pids.max", "max")

        stays_managed(daemon, runner, without)
        assert told[0]
