"""Traces and blame through the daemon: the control verb, what is stored at a job's end, and for whom. The core is a fake."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, FakeCore, FakeProc, eventually
from fikitd.api.client import Control, ControlError
from fikitd.api.reports import ReportStore
from fikitd.api.traces import TraceStore
from fikitd.base.peer import Peer
from fikitd.config.fikit_toml import Config
from fikitd.jobs import job_files
from fikitd.store.records import JobRecord
from trace_samples import EVENTS

ME = os.getuid()


class Site:
    def __init__(self, config: Config, core: FakeCore, proc: FakeProc) -> None:
        self.config, self.core, self.proc = config, core, proc
        self.control = Control(config.daemon.run_dir)
        self.traces = TraceStore(config.daemon.report_dir)

    def client(self, job: str, uid: int = ME, priority: int = 1) -> FakeClient:
        """This process, as one of that job."""
        JobRecord(job=job, uid=uid, gid=uid, priority=priority).write(self.config.daemon.run_dir)
        self.proc.add(os.getpid(), uid=uid, cgroup=f"0::/system.slice/slurmstepd.scope/job_{job}/step_0\n")
        return FakeClient(self.config.daemon.run_dir).welcome()

    def report(self, job: str) -> dict[str, Any]:
        report = ReportStore(self.config.daemon.report_dir).load(job)
        assert report is not None
        return report


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    config, core, proc = fakes.config_in(tmp_path), FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(config, core, proc.root):
        yield Site(config, core, proc)


def held_by(client: int) -> dict[str, Any]:
    entry = {"reason": "behind", "by": client, "kernel": "", "p90_ns": None, "count": 2, "total_ns": 4_000_000}
    return {"kernels": 1, "held": [entry]}


def test_a_running_jobs_trace_is_told_on_the_control_socket(site: Site) -> None:
    site.core.journal = EVENTS
    client = site.client("12")
    trace = site.control.trace("12")
    assert (trace["format"], trace["job"]) == ("fikit-trace", "12")
    assert [len(each["events"]) for each in trace["clients"]] == [8]
    assert trace["others"]["1"] == {"job": "12", "priority": 1}
    client.close()


def test_without_journals_the_answer_says_where_they_are_turned_on(site: Site) -> None:
    client = site.client("12")
    with pytest.raises(ControlError, match="no trace of job 12 is kept; is trace_events 0 in"):
        site.control.trace("12")
    with pytest.raises(ControlError, match="job 13 is not running under this fikitd, or is not yours"):
        site.control.trace("13")
    client.close()
    eventually(lambda: site.control.job("12")["state"] == "ended")
    site.control.end("12")
    assert site.traces.load("12") is None
    assert site.report("12")["warnings"] == []


def test_at_the_end_of_a_job_its_trace_lies_beside_the_report_and_is_its_users(site: Site) -> None:
    site.core.journal = EVENTS
    site.client("12").close()
    eventually(lambda: site.control.job("12")["state"] == "ended")
    site.control.end("12")
    stored = site.traces.load("12")
    assert stored is not None
    assert stored["state"] == "ended"
    assert len(stored["clients"]) == 1
    assert (site.traces.directory / str(ME) / "12.trace.gz").stat().st_uid == ME
    assert [report["job"] for report in ReportStore(site.traces.directory).list()] == ["12"], "no report itself"


def test_a_trace_that_cannot_be_stored_costs_a_warning_and_not_the_report(site: Site) -> None:
    site.core.journal = EVENTS
    (site.traces.directory / str(ME) / "12.trace.gz").mkdir(parents=True)  # in the way
    client = site.client("12")
    client.close()
    eventually(lambda: site.control.job("12")["warnings"])
    assert "its trace could not be stored in" in site.control.job("12")["warnings"][0]
    assert site.report("12")["job"] == "12"


def test_a_trace_that_cannot_be_stored_in_time_costs_a_warning(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(job_files, "TRACE_TIMEOUT_S", 0.05)
    monkeypatch.setattr("fikitd.api.traces.pieces", lambda _: over.wait(20) and iter(()))
    site.core.journal = EVENTS
    try:
        site.client("12").close()
        warnings = eventually(lambda: site.control.job("12")["warnings"])
        assert warnings == [
            f"its trace could not be stored in {site.traces.directory}: the file system did not answer within 0.05 s"
        ]
    finally:
        over.set()


def test_nobody_elses_trace_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.core.journal = EVENTS
    client = site.client("12")
    assert site.control.trace("12")

    class Stranger:
        @staticmethod
        def of(connection: socket.socket) -> Peer:
            return replace(Peer.of(connection), uid=ME + 1)

    monkeypatch.setattr("fikitd.daemon.control.Peer", Stranger)
    with pytest.raises(ControlError, match="job 12 is not running under this fikitd, or is not yours"):
        site.control.trace("12")
    monkeypatch.undo()
    client.close()


def test_reports_blame_jobs_also_those_that_left(site: Site) -> None:
    first = site.client("17", priority=0)
    site.core.stats = held_by(1)
    second = site.client("12", priority=8)
    first.close()
    eventually(lambda: site.control.job("17")["state"] == "ended")
    (entry,) = site.control.job("12")["wait_reasons"]
    assert entry == {
        "reason": "behind", "job": "17", "priority": 0, "kernel": "", "p90_us": None, "total_s": 0.004, "cost_s": 0.0, "count": 2,
    }  # fmt: skip
    second.close()
    eventually(lambda: site.control.job("12")["state"] == "ended")
    site.control.end("12")
    assert site.report("12")["wait_reasons"] == [entry]
    assert site.report("12")["delays"] == []
