"""What the daemon says of its jobs: reports, summaries, the control socket and who may ask it. The native core is a fake."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeCore, FakeDispatcher, FakeProc, eventually
from daemon_in_thread import Daemon, as_nobody
from fikitd.api import node_format, report_format, trace_format
from fikitd.api.client import Control, ControlError
from fikitd.api.reports import ReportStore
from fikitd.base import protocol
from fikitd.clients import managed
from fikitd.config.fikit_toml import SchedulerConfig
from fikitd.daemon import control as control_module
from fikitd.daemon import server as server_module
from trace_samples import EVENTS

from fikitd import _core


def test_end_stores_the_sum_over_all_clients(daemon: Daemon) -> None:
    daemon.job()
    for _ in range(2):
        client = daemon.client()
        client.send(fakes.description())
        client.close()
    daemon.control.end("12")
    report = daemon.stored()
    assert (report["kernels"], report["state"], report["priority_name"]) == (2, "ended", "high")
    assert report["device"]["emulated"] is True
    assert daemon.control.jobs() == []


def test_a_job_that_nobody_ends_is_stored_when_its_clients_are_gone(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fikitd.jobs.registry.QUIET_S", 0.05)
    daemon.job()
    daemon.client().close()
    eventually(lambda: ReportStore(daemon.config.daemon.report_dir).load("12"))


def test_what_a_killed_prolog_left_goes_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SWEEP_S", 0.05)
    config, proc = fakes.config_in(tmp_path), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(config, FakeCore(), proc.root):
        left = Path(config.daemon.run_dir) / "jobs" / ".12.4711"
        left.touch()
        eventually(lambda: not left.exists())


def test_a_requeued_job_begins_a_new_report(daemon: Daemon) -> None:
    daemon.job(started_ns=1)
    client = daemon.client()
    client.send(fakes.description())
    client.close()
    eventually(lambda: not daemon.core.dispatchers[0].clients)
    daemon.job(started_ns=2)
    daemon.client().close()
    daemon.control.end("12")
    assert daemon.stored()["kernels"] == 0


def test_a_name_that_a_step_wrote_into_the_record_later_is_reported(daemon: Daemon) -> None:
    daemon.job()
    daemon.client()
    daemon.job(name="train")
    daemon.client()
    assert (daemon.control.job("12")["name"], daemon.control.job("12")["processes"]) == ("train", 1)


def test_a_running_job_is_visible_on_the_control_socket(daemon: Daemon) -> None:
    daemon.job(name="train")
    client = daemon.client()
    client.send(fakes.description())
    eventually(lambda: daemon.control.job("12")["kernels"] == 1)
    (report,) = daemon.control.jobs()
    assert (report["job"], report["name"], report["state"], report["ended"]) == ("12", "train", "running", None)


def test_summary_is_empty_when_nothing_was_managed(daemon: Daemon) -> None:
    assert daemon.control.summary("12") == ""


def test_summary_waits_for_clients_that_are_just_leaving(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    describe = FakeDispatcher.describe

    def slowly(*arguments: Any) -> None:
        time.sleep(0.001)
        describe(*arguments)

    monkeypatch.setattr(FakeDispatcher, "describe", slowly)
    monkeypatch.setattr(managed, "_BATCH", 1)  # who asks is heard in the middle of them
    monkeypatch.setattr(control_module, "SUMMARY_WAIT_S", 10)
    daemon.job()
    client = daemon.client()
    for slot in range(1, 200):
        client.send(fakes.description(slot=slot))
    client.close()
    assert daemon.control.summary("12").startswith("fikit: job 12 high: 199 kernels, waited 0 us")


def test_summary_does_not_wait_for_ever(daemon: Daemon) -> None:
    daemon.job()
    client = daemon.client()
    begin = time.monotonic()
    assert daemon.control.summary("12")
    assert 0.25 < time.monotonic() - begin < 3
    client.close()


def test_ping_tells_version_and_policy(daemon: Daemon) -> None:
    assert daemon.control.ping() == f"fikitd 0.1.0+{_core.BUILD} {SchedulerConfig().policy}"


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (b"dance", 'verb "dance" is not known'),
        (b"job", "job takes 1 argument, not 0"),
        (b"ping now", "ping takes 0 arguments, not 1"),
        (b"job 99", "job 99 is not running under this fikitd, or is not yours"),
        (b"job \xff", "in ASCII"),
        (b"x" * 2000, "at most 1024 bytes"),
        (b" ", "in ASCII"),
    ],
)
def test_bad_requests_get_one_sentence(daemon: Daemon, request_: bytes, sentence: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(Path(daemon.run_dir) / protocol.CONTROL_NAME))
        connection.send(request_)
        answer = connection.recv(4096).decode()
        assert connection.recv(4096) == b""
    assert answer.startswith("error ")
    assert answer.endswith("\n")
    assert sentence in answer


def test_a_long_answer_comes_in_several_packets(daemon: Daemon) -> None:
    for number in range(60):
        daemon.job(str(number), name="x" * 256)
        daemon.client()
    assert len(daemon.control.jobs()) == 60


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")
def test_other_users_neither_see_nor_end_a_job(daemon: Daemon, tmp_path: Path) -> None:
    daemon.job()
    client = daemon.client()
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)
    control = Control(daemon.run_dir)
    for ask in (
        lambda: control.job("12"),
        lambda: control.trace("12"),
        lambda: control.end("12"),
        control.shutdown,
        lambda: control.summary("12"),
    ):
        with pytest.raises(ControlError, match=r"not yours|may not"):
            as_nobody(ask)
    assert as_nobody(control.jobs) == []
    assert len(daemon.control.jobs()) == 1
    client.close()


def test_readers_know_every_field_that_fikitd_writes(daemon: Daemon) -> None:
    """A field that is missing in the tables of what is accepted would be lost on the way."""
    daemon.core.journal = EVENTS
    daemon.core.stats = {
        "held": [{"reason": "behind", "by": 1, "kernel": "gemm", "p90_ns": 5_000, "total_ns": 7_000, "count": 3}]
    }
    daemon.job(name="train", mem_bytes=2**30, profile="mine", array="12_3")
    client = daemon.client()
    client.send(fakes.description())
    eventually(lambda: daemon.control.job("12")["kernels"] == 1)
    for check, words in (
        (report_format.checked, ("job", "12")),
        (trace_format.checked, ("trace", "12")),
        (node_format.checked, ("node",)),
    ):
        said = json.loads(daemon.control._ask(*words))
        assert check(said) == said, words
    assert daemon.control.job("12")["wait_reasons"], "of what a report may have, this has most"
