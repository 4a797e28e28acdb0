"""How busy the GPU was of jobs whose launches fikit did not see: by NVML's word, from root's records of who has which."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from pathlib import Path
from typing import Any
from unittest import mock

import daemon_fakes as fakes
import pytest
from cli_samples import REPORT
from daemon_fakes import FakeCore, FakeProc, eventually
from daemon_in_thread import ME, Daemon
from fikitd.api import uses
from fikitd.api.client import Control
from fikitd.api.reports import ReportStore
from fikitd.api.uses import Use, UseError, UseStore
from fikitd.jobs.gpu_use import GpuUse, use_of
from fikitd.jobs.job_files import JobFiles
from fikitd.store.records import JobRecord
from fikitd.store.storage import Storage
from fikitd.workers.retention import Kept, prune_reports
from hostile_values import spoiled, strings
from hypothesis import given
from hypothesis import strategies as st
from nvml_looks import GPU, OTHER, candidate, record, seen

START_NS = 1_790_000_000 * 10**9


class Site:
    """A node whose NVML says what a test says."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir, self.now_s = run_dir, START_NS / 1e9
        self.gpus: list[dict[str, Any]] = [seen(GPU, 0, 0.0), seen(OTHER, 1, 0.0)]
        self.ended: list[tuple[str, Use]] = []
        (run_dir / "jobs").mkdir()
        self.use = GpuUse(
            run_dir, 15, lambda record, use: self.ended.append((record.job, use)), self.ask, lambda: self.now_s
        )

    async def ask(self, view: bool) -> list[dict[str, Any]]:
        return self.gpus

    def begin(self, number: int, gpus: str, started_ns: int = START_NS) -> Path:
        return candidate(self.run_dir, dataclasses.replace(record(number, gpus), started_ns=started_ns))

    def look(self, *uses: float | None) -> None:
        self.gpus = [
            {**gpu, "use": use, "held_bytes": (index + 1) * 2**30}
            for index, (gpu, use) in enumerate(zip(self.gpus, uses, strict=True))
        ]
        self.now_s += 15
        asyncio.run(self.use.look())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_job_that_had_a_gpu_alone_is_as_busy_as_the_mean_of_the_looks(site: Site) -> None:
    path = site.begin(31, "1")
    for use in (0.1, 0.3, 0.2):
        site.look(0.9, use)
    assert site.ended == []
    path.unlink()
    site.look(0.9, 0.0)
    [(job, use)] = site.ended
    assert (job, use["looks"], use["every_s"], use["shared"]) == ("31", 3, 15.0, False)
    assert use["busy"] == pytest.approx(0.2)
    assert use["peak_bytes"] == 2 * 2**30
    assert [gpu["uuid"] for gpu in use["gpus"]] == [OTHER]
    assert (use["started"], use["ended"]) == ("2026-09-21T14:13:20Z", "2026-09-21T14:14:20Z")
    assert uses.checked(use) == use
    site.look(0.9, 0.0)
    assert len(site.ended) == 1


def test_of_several_gpus_the_mean_counts(site: Site) -> None:
    path = site.begin(31, "0,1")
    site.look(0.8, 0.2)
    path.unlink()
    site.look(0.0, 0.0)
    [(_, use)] = site.ended
    assert (use["busy"], use["peak_bytes"], len(use["gpus"])) == (0.5, 3 * 2**30, 2)


def test_a_job_that_shares_has_no_such_record(site: Site) -> None:
    """Its first step moves the prolog's file to the records."""
    path = site.begin(31, "1")
    site.look(0.5, 0.5)
    path.rename(site.run_dir / "jobs" / "31")
    site.look(0.5, 0.5)
    assert site.ended == []


def test_what_nvml_does_not_say_is_no_look(site: Site) -> None:
    path = site.begin(31, "1")
    site.look(0.5, None)
    path.unlink()
    site.look(0.5, None)
    assert site.ended == []


INSTANCE = OTHER.replace("GPU-", "MIG-")


def split(uuid: str, index: int) -> dict[str, Any]:
    return {**seen(uuid, index, None), "mig": True, "name": "H200 MIG 3g.71gb"}


def test_of_an_instance_nvml_says_memory_alone(site: Site) -> None:
    site.gpus = [split(INSTANCE, 0)]
    path = site.begin(31, INSTANCE)
    site.look(None)
    path.unlink()
    site.look(None)
    [(_, use)] = site.ended
    assert (use["busy"], use["looks"], use["split"], use["peak_bytes"]) == (None, 0, True, 2**30)
    assert [gpu["uuid"] for gpu in use["gpus"]] == [INSTANCE]
    assert uses.checked(use) == use


def test_where_nobody_can_say_which_instance_a_job_has_it_is_not_known_how_busy_that_was(site: Site) -> None:
    site.gpus = [split(INSTANCE, 0), split(OTHER, 0)]
    path = site.begin(31, "1")
    site.look(None, None)
    assert (site.use.last.unplaced, site.use.last.holder(INSTANCE)) == (True, None)
    path.unlink()
    site.look(None, None)
    assert not site.use.last.unplaced
    [(_, use)] = site.ended
    assert (use["busy"], use["split"], use["gpus"], use["whole"], use["peak_bytes"]) == (None, True, [], 1, None)


def test_processes_of_a_job_with_an_instance_are_not_around_fikit(site: Site) -> None:
    owners = {"41": {"job": "31", "uid": 1}, "42": {"job": None, "uid": 2}, "43": None}
    site.gpus = [{**split(INSTANCE, 0), "processes": [41, 42, 43], "owners": owners}]
    site.begin(31, "1")
    site.look(None)
    assert site.use.last.around(site.gpus[0]) == 2


def test_processes_that_slurm_26_names_by_their_run_are_their_jobs(site: Site) -> None:
    owners = {"41": {"job": "s6BMSRJ0KAVYNT", "uid": 1}, "42": {"job": "s6BMSRJ0KAVYNS", "uid": 1}}
    site.gpus = [{**split(INSTANCE, 0), "processes": [41, 42], "owners": owners}]
    path = site.begin(31, "1")
    path.write_text(path.read_text() + "sluid=s6BMSRJ0KAVYNT\n")
    site.look(None)
    assert site.use.last.around(site.gpus[0]) == 1
    assert site.use.last.seen[0]["owners"]["41"]["job"] == "31"


def test_a_job_that_slurm_starts_again_is_another_run(site: Site) -> None:
    site.begin(31, "1")
    site.look(0.0, 0.9)
    path = site.begin(31, "1", START_NS + 1)
    site.look(0.0, 0.1)
    path.unlink()
    site.look(0.0, 0.0)
    assert [round(use["busy"], 3) for _, use in site.ended] == [0.9, 0.1]


def test_one_gpu_is_never_two_jobs(site: Site) -> None:
    paths = [site.begin(31, "1"), site.begin(32, "1")]
    site.look(0.0, 0.9)
    for path in paths:
        path.unlink()
    site.look(0.0, 0.0)
    assert site.ended == []


# Stored.


def full(job: str = "31", uid: int = ME) -> Use:
    gpu = seen(GPU, 0)
    return use_of(
        JobRecord(job=job, uid=uid, gid=0, priority=5, name="fit.sh"),
        1_790_000_060.0,
        gpus={GPU: gpu},
        looks=4,
        every_s=15,
        busy=0.21,
    )


def test_it_lies_beside_reports_and_is_none(tmp_path: Path) -> None:
    store, reports = UseStore(tmp_path), ReportStore(tmp_path)
    path = store.save(full())
    assert path.stat().st_mode & 0o777 == 0o600
    assert (store.load("31"), [use["job"] for use in store.newest()]) == (full(), ["31"])
    assert (reports.load("31"), reports.newest()) == (None, [])


def test_a_file_that_says_it_is_of_another_job_is_refused(tmp_path: Path) -> None:
    UseStore(tmp_path).save(full()).rename(tmp_path / str(ME) / "32.use")
    with pytest.raises(UseError, match="it says that it is of job 31"):
        UseStore(tmp_path).load("32")
    assert UseStore(tmp_path).newest() == []


@given(st.data())
def test_whatever_stands_in_a_file_is_refused_or_within_bounds(data: st.DataObject) -> None:
    try:
        found = uses.checked(data.draw(spoiled(full())))
    except ValueError:
        return
    assert all(text.isprintable() for text in strings(found))
    assert found["busy"] is None or 0 <= found["busy"] <= 1


def test_it_counts_among_the_reports_that_a_user_keeps(tmp_path: Path) -> None:
    for number in range(4):
        UseStore(tmp_path).save(full(str(number)))
    prune_reports(tmp_path / str(ME), ME, Kept(2, 0, 0))
    assert len(list((tmp_path / str(ME)).iterdir())) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="makes another user's directory")
def test_it_is_stored_beside_the_directories_of_other_users(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The thread that stores it has its user's rights, and looks into no other directory."""
    reports, others = tmp_path / "reports", tmp_path / "reports/65533"
    others.mkdir(parents=True)
    others.chmod(0o700)
    os.chown(others, 65533, 65533)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)

    async def store(job: str) -> None:
        nothing: Any = mock.AsyncMock()
        files = JobFiles(
            reports=ReportStore(reports), store=nothing, storage=Storage(), work=nothing, pruner=nothing, comments=nothing, spool=nothing
        )  # fmt: skip
        files.used(JobRecord(job=job, uid=65534, gid=65534, priority=5), full(job, 65534))
        await asyncio.gather(*files._pruning)

    asyncio.run(store("31"))
    assert (UseStore(reports).load("31") or {}).get("uid") == 65534, caplog.text
    ReportStore(reports).save({**REPORT, "uid": 65534, "job": "32"})
    asyncio.run(store("32"))
    assert UseStore(reports).load("32") is None, "a job that has a report has that"


# By fikitd.


@pytest.fixture
def served(tmp_path: Path) -> Any:
    config, core, proc = fakes.config_in(tmp_path), FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(config, core, proc.root):
        yield Daemon(config, core, proc, Control(config.daemon.run_dir))


def stored(site: Daemon, job: str = "12") -> Use | None:
    return UseStore(site.config.daemon.report_dir).load(job)


@pytest.mark.starts_processes
def test_a_sharing_job_whose_programs_used_no_gpu_leaves_a_note(served: Daemon) -> None:
    served.job(gpus="0", name="train.sh", started_ns=START_NS)
    assert served.control.end("12") == ""
    eventually(lambda: stored(served) is not None)
    use = stored(served)
    assert use is not None
    assert (use["shared"], use["name"], use["looks"], use["busy"], use["gpus"]) == (True, "train.sh", 0, None, [])


@pytest.mark.starts_processes
@pytest.mark.parametrize(
    ("given", "whole"), [({"gpus": "0"}, None), ({"gpus": "0", "measure": True}, 1), ({"gpus": "0,1"}, 2)]
)
def test_who_certainly_had_whole_gpus_is_said_to(served: Daemon, given: dict[str, Any], whole: int | None) -> None:
    served.job(started_ns=START_NS, **given)
    served.control.end("12")
    eventually(lambda: stored(served) is not None)
    assert (stored(served) or {}).get("whole") == whole


@pytest.mark.starts_processes
def test_a_job_that_has_a_report_leaves_no_note(served: Daemon) -> None:
    ReportStore(served.config.daemon.report_dir).save({**REPORT, "uid": ME})
    served.job(gpus="0")
    served.control.end("12")
    served.job("13", gpus="0")
    served.control.end("13")
    eventually(lambda: stored(served, "13") is not None)
    assert stored(served) is None


@pytest.mark.starts_processes
def test_a_job_without_a_gpu_and_one_of_fikit_run_leave_none(served: Daemon) -> None:
    served.job("14")
    served.control.end("14")
    served.job("15", gpus="0", pid=1)
    served.control.end("15")
    served.job("13", gpus="0")
    served.control.end("13")
    eventually(lambda: stored(served, "13") is not None)
    assert [path.name for path in Path(served.config.daemon.report_dir, str(ME)).iterdir()] == ["13.use"]
    assert json.loads(Path(served.config.daemon.report_dir, str(ME), "13.use").read_text())["shared"] is True
