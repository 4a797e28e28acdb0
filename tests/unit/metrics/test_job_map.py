"""Files that say to dcgm-exporter which jobs have which GPU."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeCore, FakeProc, eventually
from daemon_in_thread import Daemon
from fikitd.api.client import Control
from fikitd.config.fikit_toml import MetricsConfig
from fikitd.gpus.nvml import NoNvml
from fikitd.metrics import job_map
from fikitd.metrics.job_map import JobMap, jobs_of_gpus
from fikitd.store.records import JobRecords
from fikitd.store.storage import Storage
from nvml_looks import GPU, OTHER, candidate, record, seen


def test_each_gpu_has_its_jobs_one_a_line() -> None:
    found = jobs_of_gpus([record(18, "0"), record(9, "0"), record(31, "1,2")], None)
    assert found == {"0": "9\n18\n", "1": "31\n", "2": "31\n"}


def test_a_gpu_is_called_as_nvml_counts_it() -> None:
    """Slurm says the numbers of device files, or UUIDs."""
    gpus = [{**seen(GPU, 0), "minor": 5}, {**seen(OTHER, 1), "minor": 0}]
    assert jobs_of_gpus([record(12, "5"), record(18, "0"), record(19, OTHER), record(20, "7")], gpus) == {
        "0": "12\n",
        "1": "18\n19\n",
    }


def test_where_gpus_are_split_numbers_may_be_of_instances_and_say_nothing() -> None:
    gpus = [{**seen(GPU, 0), "mig": True}, seen(OTHER, 1)]
    assert jobs_of_gpus([record(12, "0"), record(18, "1"), record(19, OTHER)], gpus) == {"1": "19\n"}


def test_what_is_no_job_of_slurms_is_in_no_file() -> None:
    assert (
        jobs_of_gpus(
            [
                dataclasses.replace(record(12, "0"), job="run-77-1"),
                dataclasses.replace(record(13, "0"), pid=7),
                record(14, "../x"),
            ],
            None,
        )
        == {}
    )


async def silent() -> list[dict[str, Any]]:
    raise NoNvml("no driver")


def mapped(tmp_path: Path) -> tuple[JobMap, Path]:
    (run_dir := tmp_path / "run").mkdir()
    (run_dir / "jobs").mkdir()
    (files := tmp_path / "map").mkdir()
    return JobMap(str(files), run_dir, JobRecords(run_dir), Storage(), ask=silent), files


def texts(files: Path) -> dict[str, str]:
    """A fikitd replaces and removes them meanwhile."""
    found = {}
    for path in list(files.iterdir()):
        with suppress(FileNotFoundError):
            found[path.name] = path.read_text()
    return {name: text for name, text in found.items() if not name.startswith(".")}


def test_what_an_earlier_fikitd_left_goes_and_what_is_not_its_own_stays(tmp_path: Path) -> None:
    told, files = mapped(tmp_path)
    for name in ("0", "3", "README"):
        (files / name).write_text("7\n")
    path = candidate(tmp_path / "run", record(31, "0"))
    asyncio.run(told.write())
    assert texts(files) == {"0": "31\n", "README": "7\n"}
    assert (files / "0").stat().st_mode & 0o777 == 0o644
    path.unlink()
    asyncio.run(told.write())
    assert texts(files) == {"README": "7\n"}


def test_a_file_that_says_it_already_is_not_written_again(tmp_path: Path) -> None:
    told, files = mapped(tmp_path)
    candidate(tmp_path / "run", record(31, "0"))
    asyncio.run(told.write())
    before = (files / "0").stat().st_ino
    candidate(tmp_path / "run", record(32, "1"))
    asyncio.run(told.write())
    assert (files / "0").stat().st_ino == before
    assert texts(files) == {"0": "31\n", "1": "32\n"}


def watched(told: JobMap, during: Coroutine[Any, Any, None]) -> None:
    async def all_of_it() -> None:
        watching = asyncio.ensure_future(told.watch())
        try:
            await during
            assert not watching.done()
        finally:
            watching.cancel()

    asyncio.run(all_of_it())


def test_a_directory_that_is_missing_is_said_once_and_written_when_it_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_map, "AGAIN_S", 0.01)
    told, files = mapped(tmp_path)
    candidate(tmp_path / "run", record(31, "0"))
    files.rmdir()

    async def comes_back() -> None:
        await asyncio.sleep(0.3)
        files.mkdir()
        for _ in range(1000):
            if texts(files) == {"0": "31\n"}:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(texts(files))

    with caplog.at_level(logging.WARNING):
        watched(told, comes_back())
    assert caplog.text.count("cannot be written to") == 1


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Daemon, Path]]:
    (files := tmp_path / "map").mkdir()
    config = dataclasses.replace(fakes.config_in(tmp_path), metrics=MetricsConfig(job_map_dir=str(files)))
    core, proc = FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(config, core, proc.root):
        yield Daemon(config, core, proc, Control(config.daemon.run_dir)), files


@pytest.mark.starts_processes
def test_a_fikitd_follows_its_jobs_as_they_come_and_go(
    site: tuple[Daemon, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what the kernel tells: nobody looks in between."""
    daemon, files = site
    run_dir = Path(daemon.run_dir)
    eventually((run_dir / "candidates").exists)
    daemon.job("12", gpus="0")
    alone = candidate(run_dir, record(31, "1"))
    eventually(lambda: texts(files) == {"0": "12\n", "1": "31\n"})
    daemon.job("13", gpus="0")
    eventually(lambda: texts(files) == {"0": "12\n13\n", "1": "31\n"})
    alone.unlink()
    (run_dir / "jobs" / "12").unlink()
    eventually(lambda: texts(files) == {"0": "13\n"})
