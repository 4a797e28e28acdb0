"""Reports and profiles on storage that is full, gone, read-only or broken, at every single operation."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from daemon_process import SOURCE, Fikitd, Runner, mount
from failing_storage import OPERATIONS, FailingStorage
from fikitd.profiles.profile_store import ProfileStore

from fikitd import paths

ERRORS = [errno.EDQUOT, errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.ESTALE]

NUMBERS = itertools.count(1)  # of the module's daemon


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("storage")


@pytest.fixture(scope="module")
def storage(cc: Callable[..., Path], place: Path) -> FailingStorage:
    (place / "shared").mkdir()
    return FailingStorage(cc, place, place / "shared")


@pytest.fixture(scope="module")
def daemon(place: Path, storage: FailingStorage) -> Iterator[Fikitd]:
    daemon = Fikitd(place, "budget")
    daemon.reports, daemon.profiles = place / "shared" / "reports", place / "shared" / "profiles"
    daemon.config.write_text(
        f'[daemon]\nrun_dir = "{daemon.run_dir}"\nreport_dir = "{daemon.reports}"\nprofile_dir = "{daemon.profiles}"\n'
    )
    with daemon.started(storage.env):
        yield daemon


@pytest.fixture
def runner(daemon: Fikitd, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]) -> Runner:
    return Runner(daemon, cc(SOURCE), paths.shim(), emulator_env(), NUMBERS)


def jobs_run(runner: Runner, daemon: Fikitd) -> tuple[list[str], list[str]]:
    """One that measures and one that uses its profile, as jobs beside each other; they must succeed, and print nothing of ours.
    Their ids, and what they are told: in their reports and at their ends (fikitd's log leaves lines out that are too many)."""
    started = [runner.start(20, 50_000, measure=measure, profile="mine") for measure in (True, False)]
    for _, process in started:
        assert process.communicate(timeout=60) == ("done 20\n", "")
        assert process.returncode == 0
    told = []
    for job, _ in started:
        daemon.control.summary(job)
        told += daemon.control.job(job)["warnings"]
        told += daemon.control.end(job).split(", ")
        (daemon.run_dir / "jobs" / job).unlink()
    return [job for job, _ in started], told


def complete(daemon: Fikitd, jobs: list[str]) -> bool:
    for job in jobs:
        report = daemon.report(job)
        if report["warnings"] or report["profile"]["stored"] is False or report["kernels"] != 20:
            return False
    return True


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_error_at_every_operation_is_a_line_and_what_follows_is_stored(
    daemon: Fikitd, runner: Runner, storage: FailingStorage, operation: str
) -> None:
    jobs_run(runner, daemon)
    for error in ERRORS:
        with storage.fails(operation, error=error) as struck:
            jobs, told = jobs_run(runner, daemon)
        if struck():
            said = [sentence for sentence in told if os.strerror(error) in sentence]
            assert said or complete(daemon, jobs), (errno.errorcode[error], told)
            assert len(said) <= 20, said  # each of the sixteen runs of a profile may be named
        assert daemon.control.ping()
    jobs, told = jobs_run(runner, daemon)
    assert complete(daemon, jobs), told
    if operation not in ("unlink", "write", "fsync", "rename", "chmod"):
        return
    left = [path for path in daemon.reports.parent.rglob(".*") if path.is_file()]
    assert left == [] or operation == "unlink", left


def test_storage_that_is_slow_at_every_operation_loses_nothing(
    daemon: Fikitd, runner: Runner, storage: FailingStorage
) -> None:
    with storage.fails(*OPERATIONS, hang_s=0.005) as struck:
        jobs, told = jobs_run(runner, daemon)
    assert struck() > len(OPERATIONS)
    assert complete(daemon, jobs), told


def test_a_profile_that_was_there_is_used_again_afterwards(daemon: Fikitd, runner: Runner) -> None:
    jobs, _ = jobs_run(runner, daemon)
    assert daemon.report(jobs[1])["profile"]["found"] is True
    assert ProfileStore(daemon.profiles).load(os.getuid(), "mine") is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_storage_unmounted_while_jobs_run_is_a_line_and_gets_no_tree_on_the_local_disk(
    tmp_path: Path, cc: Callable[..., Path], emulator_env: Callable[..., dict[str, str]]
) -> None:
    daemon, shared = Fikitd(tmp_path, "budget"), tmp_path / "shared"
    mount(shared, "size=16m")
    daemon.reports, daemon.profiles = shared / "site" / "reports", shared / "site" / "profiles"
    for directory in (daemon.reports, daemon.profiles):
        directory.mkdir(parents=True)
    text = daemon.config.read_text()
    daemon.config.write_text(
        text.replace(f"{tmp_path}/reports", str(daemon.reports)).replace(f"{tmp_path}/profiles", str(daemon.profiles))
    )
    daemon.start()
    runner = Runner(daemon, cc(SOURCE), paths.shim(), emulator_env())
    try:
        jobs, _ = jobs_run(runner, daemon)
        assert complete(daemon, jobs)
        job, process = runner.start(20, 50_000, "hold", measure=True, profile="mine")
        assert process.stdout is not None
        assert process.stdout.readline() == "done 20\n"
        subprocess.run(["umount", "--lazy", str(shared)], check=True)
        assert process.communicate("x", timeout=60) == ("done 20\n", "")
        assert "not stored" in daemon.control.summary(job)
        runner.end(job)
        _, told = jobs_run(runner, daemon)
        assert [sentence for sentence in told if str(daemon.reports) in sentence], told
        assert list(shared.iterdir()) == []
        mount(shared, "size=16m")
        for directory in (daemon.reports, daemon.profiles):
            directory.mkdir(parents=True)
        jobs, told = jobs_run(runner, daemon)
        assert complete(daemon, jobs), told
    finally:
        subprocess.run(["umount", "--lazy", str(shared)], check=False, capture_output=True)
        assert daemon.stop() == 0, daemon.log.read_text()
    assert "Traceback" not in daemon.log.read_text()
