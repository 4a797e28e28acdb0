"""A fikitd that was killed or replaced leaves what jobs did so far to the next one."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, FakeCore, FakeProc, eventually
from daemon_in_thread import Daemon
from fikitd.api.client import Control
from fikitd.base.protocol import Device
from fikitd.clients.fd_store import KINDS
from fikitd.jobs.ledger import Entry, Ledger
from fikitd.jobs.totals import Totals

UUID = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


@contextmanager
def serving(tmp_path: Path) -> Iterator[Daemon]:
    """A fikitd in the same directories as the one before."""
    config, core, proc = fakes.config_in(tmp_path), FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir(exist_ok=True)
    with fakes.serving(config, core, proc.root):
        yield Daemon(config, core, proc, Control(config.daemon.run_dir))


def work(daemon: Daemon, kernels: int) -> None:
    """One process of the job, to its end."""
    client = daemon.client()
    number = max(daemon.core.seen)
    for slot in range(1, kernels + 1):
        client.send(fakes.description(slot=slot))
    eventually(lambda: len(daemon.core.seen[number]["described"]) == kernels)
    client.close()
    eventually(lambda: all(job["state"] == "ended" for job in daemon.control.jobs()))


def entries(daemon: Daemon) -> list[str]:
    return [job for job, _ in Ledger(Path(daemon.run_dir)).entries()]


def test_the_next_daemon_goes_on_with_a_jobs_counters(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.job(started_ns=7)
        work(first, 3)
    with serving(tmp_path) as second:
        second.job(started_ns=7)
        assert second.control.job("12")["kernels"] == 3
        work(second, 2)
        report = second.control.job("12")
        assert (report["kernels"], report["processes"], report["device"]["uuid"]) == (5, 2, UUID)
        second.control.end("12")
        assert second.stored()["kernels"] == 5
        assert entries(second) == []


def test_a_daemon_that_is_taken_back_goes_on_with_what_it_knows_of_a_later_ones_notes(tmp_path: Path) -> None:
    with serving(tmp_path) as later:
        later.job(started_ns=7)
        work(later, 3)
    note = tmp_path / "run" / "ledger" / "12"
    document = json.loads(note.read_text())
    for facts in (document, document["totals"], document["device"]):
        facts["what a later one counts besides"] = 1
    note.write_text(json.dumps(document))
    with serving(tmp_path) as earlier:
        assert earlier.control.job("12")["kernels"] == 3


def test_what_a_fikitd_of_before_noted_is_bounded_by_its_span(tmp_path: Path) -> None:
    """It knew no other bound of the time on the GPU."""
    with serving(tmp_path) as earlier:
        earlier.job(started_ns=7)
        earlier.core.stats = {"span_ns": 5_000_000_000}
        work(earlier, 3)
    note = tmp_path / "run" / "ledger" / "12"
    document = json.loads(note.read_text())
    del document["totals"]["gpu_time_at_most_ns"]
    note.write_text(json.dumps(document))
    with serving(tmp_path) as later:
        report = later.control.job("12")
        assert (report["gpu_time_s"], report["gpu_time_at_most_s"]) == (None, 5.0)


def test_the_next_daemon_knows_why_a_job_waited_before(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.job(started_ns=7)
        by_itself = {"reason": "behind", "by": 1, "kernel": "", "p90_ns": None, "count": 2, "total_ns": 4_000_000}
        first.core.stats = {"held": [by_itself]}
        work(first, 3)
        told = first.control.job("12")["wait_reasons"]
    with serving(tmp_path) as second:
        assert second.control.job("12")["wait_reasons"] == told
        assert told[0]["total_s"] == 0.004


def test_a_job_that_ended_while_no_daemon_ran_has_its_report(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.job(started_ns=7)
        work(first, 3)
        shutil.rmtree(first.config.daemon.report_dir, ignore_errors=True)
    with serving(tmp_path) as second:
        second.control.end("12")
        assert second.stored()["kernels"] == 3


def test_what_another_run_of_the_job_did_is_forgotten(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.job(started_ns=7)
        work(first, 3)
        first.job(started_ns=8)
    with serving(tmp_path) as second:
        assert second.control.jobs() == []
        assert entries(second) == []


def test_a_job_whose_end_no_daemon_heard_has_its_report(tmp_path: Path) -> None:
    report = tmp_path / "reports" / str(os.getuid()) / "12.json"
    with serving(tmp_path) as first:
        first.job(started_ns=7, name="train")
        work(first, 3)
    report.unlink()
    (Path(first.run_dir) / "jobs" / "12").unlink()  # the epilog
    with serving(tmp_path) as second:
        eventually(report.exists)
        assert (second.stored()["kernels"], second.stored()["name"], second.stored()["warnings"]) == (3, "train", [])
        eventually(lambda: second.control.jobs() == [] == entries(second))


def test_a_job_says_what_a_killed_daemon_lost(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.job(started_ns=7)
        work(first, 3)
        first.client().send(fakes.description())
        note = tmp_path / "run" / "ledger" / "12"
        eventually(lambda: note.exists() and '"running": 1' in note.read_text())
        as_killed = note.read_bytes()
    note.write_bytes(as_killed)
    with serving(tmp_path) as second:
        assert (second.control.job("12")["kernels"], second.control.job("12")["processes"]) == (3, 2)
        second.control.end("12")
        assert second.stored()["warnings"] == [
            "fikitd ended under a process of the job, and what it did then is not in its report"
        ]


def test_a_disk_that_hangs_delays_nobodys_hello(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        daemon.job(started_ns=7)
        ledger = tmp_path / "run" / "ledger"
        ledger.mkdir(mode=0o700)
        os.mkfifo(ledger / ".12")  # who opens it to write waits for a reader
        try:
            daemon.client()
            daemon.client()
            assert daemon.control.job("12")["processes"] == 1
            assert not (ledger / "12").exists()
        finally:
            reader = os.open(ledger / ".12", os.O_RDONLY)
        try:
            assert b'"processes": 0' in os.read(reader, 65536)
        finally:
            os.close(reader)
        for client in FakeClient.made:
            client.close()
        # Not by Ledger.entries(), which takes the file that is being written for one that a dead fikitd left, and removes it.
        eventually(lambda: (ledger / "12").is_file() and json.loads((ledger / "12").read_text())["running"] == 0)


def test_whom_a_fikitd_has_counted_it_lets_go_when_that_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before, the next one is handed that client, and counts it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("FIKIT_KEEP", "1")

        def told() -> str:
            message, descriptors, _, _ = socket.recv_fds(systemd, 4096, 4)
            for descriptor in descriptors:
                os.close(descriptor)
            return message.decode().partition("\n")[0]

        with serving(tmp_path) as daemon:
            daemon.job(started_ns=7)
            client = daemon.client()
            assert [told() for _ in KINDS] == ["FDSTORE=1"] * len(KINDS)
            note = tmp_path / "run" / "ledger" / "12"
            eventually(note.exists)
            os.mkfifo(note.with_name(".12"))  # the next note is not written before it has a reader
            client.close()
            eventually(lambda: daemon.control.job("12")["state"] == "ended")
            assert not select.select([systemd], [], [], 0)[0], "nothing is dropped yet"
            noted = json.loads(note.with_name(".12").read_bytes())
            assert (noted["running"], noted["taken"]) == (0, [1])
            assert [told() for _ in KINDS] == ["FDSTOREREMOVE=1"] * len(KINDS)
            daemon.client()
            eventually(lambda: note.is_file() and json.loads(note.read_text())["running"] == 1)
            assert json.loads(note.read_text())["taken"] == []
        monkeypatch.delenv("FIKIT_KEEP")


def test_the_number_of_a_client_that_may_be_handed_over_again_is_not_used_again(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.job(started_ns=7)
        work(first, 3)
    note = tmp_path / "run" / "ledger" / "12"
    note.write_text(json.dumps({**json.loads(note.read_text()), "taken": [7]}))
    with serving(tmp_path) as second:
        second.job(started_ns=7)
        second.client()
        assert list(second.core.seen) == [8]
        eventually(lambda: json.loads(note.read_text())["taken"] == [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"version": 99}',
        '{"version": 1}',
        "[]",
        '{"version": 1, "device": {}, "totals": {}}',
        '{"version": 1, "device": {}, "totals": {}, "held": [["behind"]]}',
    ],
)
def test_a_damaged_entry_is_lost_and_nothing_else(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path) as first:
        first.job(started_ns=7)
        work(first, 3)
    ledger = tmp_path / "run" / "ledger"
    (ledger / "13").write_text(text)
    (ledger / ".12").write_text("half a file")
    with serving(tmp_path) as second:
        assert [job["job"] for job in second.control.jobs()] == ["12"]
    assert "job 13: what it did before fikitd was restarted is lost" in caplog.text
    assert "job .12" not in caplog.text


def test_a_ledger_that_cannot_be_written_costs_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path) as first:
        first.job(started_ns=7)
        (Path(first.run_dir) / "ledger").write_text("in the way")
        work(first, 3)
        assert eventually(lambda: "could not be noted" in caplog.text)
        first.control.end("12")
        assert first.stored()["kernels"] == 3
    assert (tmp_path / "run" / "ledger").is_file()


ENTRY = Entry(started_ns=7, last_seen_ns=8, device=Device("Emulated GPU", UUID, 2**34), totals=Totals())


def no_thread(*_: object) -> int:
    raise RuntimeError("can't start new thread")


def test_what_is_told_while_no_thread_can_be_started_is_noted_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path)
    followed: list[str] = []
    with monkeypatch.context() as full:
        full.setattr("_thread.start_new_thread", no_thread)
        ledger.write("12", ENTRY, lambda: followed.append("12"))
    assert [job for job, _ in ledger.entries()] == followed == ["12"]
    ledger.write("13", ENTRY)
    asyncio.run(ledger.settle(10))
    assert [job for job, _ in ledger.entries()] == ["12", "13"]


def test_one_jobs_note_that_fails_leaves_the_others_theirs(tmp_path: Path) -> None:
    def fail() -> None:
        raise MemoryError

    ledger = Ledger(tmp_path)
    ledger.write("12", ENTRY, fail)
    ledger.write("13", ENTRY)
    asyncio.run(ledger.settle(10))
    assert [job for job, _ in ledger.entries()] == ["12", "13"]
    ledger.remove("12")
    asyncio.run(ledger.settle(10))
    assert [job for job, _ in ledger.entries()] == ["13"]
