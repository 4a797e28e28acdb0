"""run_dir on a file system that is full, read-only or broken, at every single operation of fikitd's."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemon_process import SOURCE, Fikitd, Runner
from failing_storage import OPERATIONS, FailingStorage

from fikitd import paths

ERRORS = [errno.ENOSPC, errno.EROFS, errno.EIO, errno.ESTALE]
READS = {"open", "read", "stat", "list"}  # without them fikitd does not know a job

NUMBERS = itertools.count(1)  # of the module's daemon


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run-dir")


@pytest.fixture(scope="module")
def storage(cc: Callable[..., Path], place: Path) -> FailingStorage:
    return FailingStorage(cc, place, place / "run")


@pytest.fixture(scope="module")
def daemon(place: Path, storage: FailingStorage) -> Iterator[Fikitd]:
    daemon = Fikitd(place, "budget")
    with daemon.started(storage.env):
        yield daemon


@pytest.fixture
def runner(daemon: Fikitd, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]) -> Runner:
    return Runner(daemon, cc(SOURCE), paths.shim(), emulator_env(), NUMBERS)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_error_costs_those_who_come_a_line_at_most_and_those_who_are_there_nothing(
    daemon: Fikitd, runner: Runner, storage: FailingStorage, operation: str
) -> None:
    there, process = runner.start(20, 50_000, "hold", priority=1)
    assert process.stdout is not None
    assert process.stdout.readline() == "done 20\n"
    for error in ERRORS:
        with storage.fails(operation, error=error) as struck:
            job, comes = runner.start(20, 50_000)
            out, err = comes.communicate(timeout=60)
            assert (comes.returncode, out) == (0, "done 20\n")
            assert err == "" or (operation in READS and err.count("\n") == 1), err
            assert daemon.control.job(there)["state"] == "running"
            assert struck() or operation not in {"open", "read", "stat", "write", "rename"}
        daemon.control.end(job)
        (daemon.run_dir / "jobs" / job).unlink()
        if err == "":
            assert daemon.report(job)["kernels"] == 20
    assert process.communicate("x", timeout=60) == ("done 20\n", "")
    assert " 40 kernels" in daemon.control.end(there)
    (daemon.run_dir / "jobs" / there).unlink()
    job, err, _ = runner.run(20, 50_000)
    assert (err, daemon.report(job)["warnings"]) == ("", [])
    assert len(daemon.log.read_text().splitlines()) < 400


def test_a_full_one_loses_nothing_but_notes(daemon: Fikitd, runner: Runner, storage: FailingStorage) -> None:
    before = len(daemon.log.read_text())
    with storage.fails("write", "mkdir", "rename", error=errno.ENOSPC) as struck:
        job, process = runner.start(20, 50_000)
        assert process.communicate(timeout=60) == ("done 20\n", "")
        daemon.control.end(job)
        assert struck()
    assert daemon.report(job)["kernels"] == 20
    log = daemon.log.read_text()[before:]
    assert os.strerror(errno.ENOSPC) in log or "left out" in log  # what is too much for a log is counted there
