"""Batch jobs for which Slurm runs no epilog: over when none of their processes has been there for long enough, and not before."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, FakeCore, FakeProc, IdleDaemon, eventually
from fikitd.api.client import Control
from fikitd.api.reports import ReportStore
from fikitd.base.protocol import Device
from fikitd.jobs.orphans import Orphans
from fikitd.store.records import JobRecord

AFTER_S = 60
GPU = Device("Emulated GPU", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", 2**34)
STEPD = 700


class Node(IdleDaemon):
    """A daemon that does not run, on a node with the processes and the clock of the test."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reports = ReportStore(self.config.daemon.report_dir)
        self.now = 1000.0
        self.forgotten = Orphans(
            jobs=self.jobs, records=self.records, storage=self.parts["_storage"], proc=self.proc.root, after_s=AFTER_S,
            clock=lambda: self.now,
        )  # fmt: skip

    def record(self, job: str = "12", *, batch: bool = True, started_ns: int = 1) -> JobRecord:
        facts = {"batch": batch, "started_ns": started_ns, "sluid": "s6BMSRJ0KAVYNT"}
        record = JobRecord(**{"job": job, "uid": os.getuid(), "gid": os.getgid(), "priority": 1, **facts})
        record.write(self.run_dir)
        return record

    def stepd(self, job: str = "12", pid: int = STEPD, *, step: str = "batch") -> None:
        self.proc.add(pid, command=(f"slurmstepd: [{job}.{step}]",))

    def ends(self, pid: int = STEPD) -> None:
        shutil.rmtree(self.proc.root / str(pid))

    def passes(self, *seconds: float) -> None:
        """A look after each time."""

        async def run() -> None:
            for each in seconds:
                self.now += each
                await self.forgotten.look()

        asyncio.run(run())

    def known(self) -> list[str]:
        return [record.job for record in self.records.all()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_batch_job_without_a_process_is_over_after_a_while_with_its_report(node: Node) -> None:
    record = node.record()
    node.stepd()
    node.jobs.of(record, GPU)
    node.passes(0)
    node.ends()
    node.passes(AFTER_S, AFTER_S - 1)
    assert (node.known(), len(node.jobs.all())) == (["12"], 1)
    node.passes(1)
    assert (node.known(), node.jobs.all()) == ([], [])
    report = node.reports.load("12")
    assert report is not None
    assert report["state"] == "ended"


@pytest.mark.parametrize(
    "process",
    [
        {"command": ("slurmstepd: [12.batch]",)},
        {"uid": 1000, "cgroup": "0::/system.slice/slurmstepd.scope/job_12/step_batch/user/task_0\n"},
        {"uid": 1000, "cgroup": "0::/system.slice/slurmstepd.scope/s6BMSRJ0KAVYNT/step_batch/user/task_0\n"},
    ],
    ids=["slurmstepd", "cgroup", "cgroup of 26.05"],
)
def test_one_process_is_enough_to_live_however_long_it_does_nothing(node: Node, process: dict[str, Any]) -> None:
    node.record()
    node.proc.add(STEPD, **process)
    node.passes(0, 1000, 1000, 1_000_000)
    assert node.known() == ["12"]


def test_a_process_of_another_job_or_of_a_user_who_takes_the_name_does_not_count(node: Node) -> None:
    node.record()
    node.stepd("13")
    node.proc.add(701, uid=1000, command=("slurmstepd: [12.batch]",))
    node.record("13")
    node.passes(0, AFTER_S)
    assert node.known() == ["13"]


def test_the_time_begins_anew_with_every_process(node: Node) -> None:
    node.record()
    node.stepd()
    node.passes(0)
    node.ends()
    node.passes(1, AFTER_S - 1)
    node.stepd(pid=STEPD + 1)
    node.passes(1)
    node.ends(STEPD + 1)
    node.passes(1, AFTER_S - 1)
    assert node.known() == ["12"]
    node.passes(1)
    assert node.known() == []


def test_an_allocation_has_no_process_between_two_steps(node: Node) -> None:
    node.jobs.of(node.record(batch=False), GPU)
    node.passes(0, AFTER_S, AFTER_S)
    assert node.known() == ["12"]


CGROUP = "0::/system.slice/slurmstepd.scope/job_12/step_%s/user/task_special\n"
EXTERN = [{"command": ("slurmstepd: [12.extern]",)}, {"cgroup": CGROUP % "extern"}]


@pytest.mark.parametrize("process", EXTERN, ids=["slurmstepd", "cgroup"])
def test_where_slurm_keeps_an_extern_step_an_allocation_and_a_further_node_are_over_with_it(
    node: Node, process: dict[str, Any]
) -> None:
    node.jobs.of(node.record(batch=False), GPU)
    node.proc.add(STEPD, **process)
    node.stepd(pid=STEPD + 1, step="0")
    node.passes(0)
    node.ends(STEPD + 1)
    node.passes(AFTER_S, AFTER_S)
    assert node.known() == ["12"]
    node.ends()
    node.passes(1, AFTER_S - 1)
    assert node.known() == ["12"]
    node.passes(1)
    assert (node.known(), node.jobs.all()) == ([], [])


@pytest.mark.parametrize(
    "process",
    [
        {"command": ("slurmstepd: [12.0]",)},
        {"cgroup": CGROUP % "0"},
        {"uid": 1000, "command": ("slurmstepd: [12.extern]",), "cgroup": CGROUP % "0"},
        {"uid": 1000, "cgroup": CGROUP.replace("\n", "/job_12/step_extern\n") % "0"},
    ],
    ids=["slurmstepd", "cgroup", "name taken", "group made"],
)
def test_a_step_that_comes_and_goes_is_no_sign_that_the_job_is_over(node: Node, process: dict[str, Any]) -> None:
    node.record(batch=False)
    node.proc.add(STEPD, **process)
    node.passes(0)
    node.ends()
    node.passes(AFTER_S, AFTER_S)
    assert node.known() == ["12"]


def test_an_extern_step_of_the_failed_run_says_nothing_about_the_next_one(node: Node) -> None:
    node.record(batch=False)
    node.stepd(step="extern")
    node.passes(0)
    node.ends()
    node.record(batch=False, started_ns=2)
    node.passes(AFTER_S, AFTER_S)
    assert node.known() == ["12"]


def test_a_job_whose_program_is_connected_lives(node: Node) -> None:
    job = node.jobs.of(node.record(), GPU)
    job.client_came(1, 4711, lambda: fakes.NOTHING)
    node.passes(0, AFTER_S, AFTER_S)
    assert node.known() == ["12"]
    job.client_went(1, 4711, fakes.NOTHING)
    node.passes(0, AFTER_S)
    assert node.known() == []


def test_a_job_that_is_started_again_meanwhile_keeps_its_new_record(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.jobs.of(node.record(), GPU)
    node.passes(0)

    def starts_again(_wanted: object) -> dict[str, int]:
        node.record(started_ns=2)
        return {}

    monkeypatch.setattr(node.forgotten, "_living", starts_again)
    node.passes(AFTER_S)
    assert [record.started_ns for record in node.records.all()] == [2]
    node.passes(AFTER_S - 1)
    assert node.known() == ["12"]


def test_where_no_process_of_any_job_can_be_seen_none_is_taken_for_over(node: Node) -> None:
    node.record()
    node.passes(0, AFTER_S, AFTER_S)
    assert node.known() == ["12"]
    node.stepd("99")
    node.record("99")
    node.passes(0, AFTER_S)
    assert node.known() == ["99"]


def _fails(*_: object) -> None:
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize("part", ["_living", "remove"])
def test_what_fails_ends_no_job_and_no_look(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    node.jobs.of(node.record(), GPU)
    node.passes(0)
    with monkeypatch.context() as broken:
        broken.setattr(node.forgotten if part == "_living" else node.records, part, _fails)
        node.passes(AFTER_S, 1)
    assert (node.known(), len(node.jobs.all())) == (["12"], 1)
    assert caplog.text.count("its record could not be removed: Input/output error") == (part == "remove")
    node.passes(AFTER_S)
    assert (node.known(), node.jobs.all()) == ([], [])


def test_a_daemon_that_runs_looks_by_itself(tmp_path: Path) -> None:
    config, proc = fakes.config_in(tmp_path), FakeProc(tmp_path / "proc")
    config = replace(config, daemon=replace(config.daemon, orphan_timeout_s=1))
    proc.root.mkdir()
    with fakes.serving(config, FakeCore(), proc.root):
        run_dir = Path(config.daemon.run_dir)
        JobRecord(job="12", uid=os.getuid(), gid=os.getgid(), priority=1, batch=True).write(run_dir)
        proc.add(os.getpid(), uid=os.getuid(), cgroup="0::/slurmstepd.scope/job_12/step_batch\n")
        FakeClient(run_dir).welcome().close()
        eventually(lambda: Control(run_dir).job("12")["state"] == "ended")
        shutil.rmtree(proc.root / str(os.getpid()))
        eventually(lambda: not (run_dir / "jobs" / "12").exists())
        eventually(lambda: Control(run_dir).jobs() == [])
        eventually(lambda: list((run_dir / "ledger").iterdir()) == [])  # it is written beside the event loop
