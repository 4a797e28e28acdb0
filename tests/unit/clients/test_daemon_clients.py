"""The daemon and its clients: who is admitted, what they may send, what becomes of them. The native core is a fake."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, eventually
from daemon_in_thread import ME, Daemon
from descriptors import descriptors_of
from fikitd.api.client import Control
from fikitd.base import protocol, shares
from fikitd.clients import connections, managed
from fikitd.config.fikit_toml import SchedulerConfig
from fikitd.gpus import dispatchers


@contextmanager
def another_daemon(root: Path) -> Iterator[Daemon]:
    """One that begins within the test, which has changed its limits."""
    config, core, proc = fakes.config_in(root), fakes.FakeCore(), fakes.FakeProc(root / "proc")
    proc.root.mkdir()
    with fakes.serving(config, core, proc.root):
        yield Daemon(config, core, proc, Control(config.daemon.run_dir))


def test_a_client_of_a_job_is_welcomed_with_page_and_doorbell(daemon: Daemon) -> None:
    daemon.job(priority=8)
    client = FakeClient(daemon.run_dir)
    client.send(fakes.hello())
    kind, packet, (page, doorbell, memory) = client.answer()
    assert kind == protocol.WELCOME
    welcome = protocol.WelcomeLayout.from_buffer_copy(packet)
    assert welcome.page_bytes == os.fstat(page).st_size == 4096
    assert welcome.memory_bytes == os.fstat(memory).st_size == ctypes.sizeof(protocol.MemoryLayout)
    os.eventfd_write(doorbell, 1)
    assert daemon.core.seen[1]["priority"] == 8


def test_the_dispatcher_gets_the_configured_times_in_nanoseconds(daemon: Daemon) -> None:
    daemon.job()
    daemon.client()
    assert daemon.core.dispatchers[0].options == (
        SchedulerConfig().policy,
        100_000_000,
        20_000,
        500_000,
        2_000_000,
        20_000,
        32,
    )


def test_two_clients_of_one_gpu_share_a_dispatcher(daemon: Daemon) -> None:
    daemon.job()
    daemon.client()
    daemon.client()
    daemon.client(uuid=b"another gpu's id")
    assert [len(dispatcher.clients) for dispatcher in daemon.core.dispatchers] == [2, 1]


def test_kernel_descriptions_reach_the_dispatcher(daemon: Daemon) -> None:
    daemon.job()
    client = daemon.client()
    client.send(fakes.description(slot=7, name=b"_Z4gemm"))
    described = eventually(lambda: daemon.core.seen[1]["described"])
    assert described == [(7, "_Z4gemm", 0xAB, (2, 1, 1), (64, 1, 1), 0, 0)]


def test_a_process_without_a_job_is_refused_with_the_reason(daemon: Daemon) -> None:
    daemon.proc.add(os.getpid(), uid=ME)
    client = FakeClient(daemon.run_dir)
    client.send(fakes.hello())
    assert client.refusal() == f"process {os.getpid()} of uid {ME} belongs to no fikit job on this node"


KERNEL_TOO_SHORT = fakes.description()[:-1]
GARBAGE = {
    "random bytes": b"\x00\xff" * 40,
    "too long": b"\0" * 4000,
    "one byte": b"x",
    "second hello": fakes.hello(),
    "name without NUL": fakes.description(name=b"x" * protocol.NAME_BYTES),
    "slot 0": fakes.description(slot=0),
    "slot out of range": fakes.description(slot=protocol.SLOTS),
    "unknown kind": fakes.description(kind=3),
    "size of another message": KERNEL_TOO_SHORT,
}


@pytest.mark.parametrize("packet", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_closes_that_client_and_no_other(daemon: Daemon, packet: bytes) -> None:
    daemon.job()
    good, bad = daemon.client(), daemon.client()
    bad.send(packet)
    assert bad.answer()[0] == 0
    good.send(fakes.description())
    eventually(lambda: daemon.core.seen[1]["described"])
    assert eventually(lambda: list(daemon.core.dispatchers[0].clients) == [1])


@pytest.mark.parametrize("packet", [b"x", fakes.hello()[:-1], fakes.hello(name=b"x" * 256), fakes.description()])
def test_a_first_packet_that_is_no_hello_closes_the_connection(daemon: Daemon, packet: bytes) -> None:
    daemon.job()
    client = FakeClient(daemon.run_dir)
    client.send(packet)
    assert client.answer()[0] == 0
    daemon.client()


def test_descriptors_sent_by_a_client_are_not_kept(daemon: Daemon, tmp_path: Path) -> None:
    daemon.job()
    client = daemon.client()
    with (tmp_path / "sent").open("w") as sent:
        for slot in range(1, 20):
            socket.send_fds(client.socket, [fakes.description(slot=slot)], [sent.fileno()] * 3)
        eventually(lambda: len(daemon.core.seen[1]["described"]) == 19)
        assert descriptors_of(sent.name) == 1


def test_a_user_cannot_hold_more_than_the_limit_of_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "CONNECTIONS", replace(shares.CONNECTIONS, user=3))
    with another_daemon(tmp_path) as daemon:
        daemon.job()
        held = [daemon.client() for _ in range(3)]
        assert FakeClient(daemon.run_dir).refusal() == (
            f"uid {ME} has 3 connections already, which is the limit for one user"
        )
        held.pop().close()
        eventually(lambda: len(daemon.core.dispatchers[0].clients) == 2)
        daemon.client()


def test_one_user_cannot_keep_another_out_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatchers, "CLIENTS", shares.Limit("programs on this GPU", all=6, user=4, job=2, kept=1))
    with another_daemon(tmp_path) as daemon:
        daemon.job("12", priority=8)
        held = [daemon.client() for _ in range(2)]
        one_more = FakeClient(daemon.run_dir)
        one_more.send(fakes.hello())
        assert one_more.refusal() == "job 12 has 2 programs on this GPU already, which is the limit for one job"
        daemon.job("13", priority=8)
        held += [daemon.client() for _ in range(2)]
        daemon.job("14", priority=0)
        one_more = FakeClient(daemon.run_dir)
        one_more.send(fakes.hello())
        assert one_more.refusal() == f"uid {ME} has 4 programs on this GPU already, which is the limit for one user"
        daemon.client(uuid=b"another gpu's id")
        held.pop().close()
        eventually(lambda: len(daemon.core.dispatchers[0].clients) == 3)
        daemon.client()


def test_invented_gpus_are_the_jobs_and_its_users_own_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatchers, "GPUS", shares.Limit("GPUs", all=5, user=3, job=2))
    with another_daemon(tmp_path) as daemon:
        daemon.job("12")
        held = [daemon.client(uuid=b"%016d" % number) for number in range(2)]
        for job, number, whose in (("12", 2, "job 12 has programs on 2"), ("13", 3, f"uid {ME} has programs on 3")):
            daemon.job(job)
            if job == "13":
                held.append(daemon.client(uuid=b"%016d" % 2))
            one_more = FakeClient(daemon.run_dir)
            one_more.send(fakes.hello(uuid=b"%016d" % number))
            assert one_more.refusal() == f"{whose} GPUs already, which is the limit"
        for client in held:
            client.close()
        eventually(lambda: not any(dispatcher.clients for dispatcher in daemon.core.dispatchers))
        for number in range(10, 20):  # dispatchers that nobody uses any more make room
            daemon.client(uuid=b"%016d" % number).close()
        eventually(lambda: sum(not dispatcher.stopped for dispatcher in daemon.core.dispatchers) <= 5)


def test_watchers_and_descriptions_are_shares_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WATCHERS", replace(shares.WATCHERS, job=1))
    monkeypatch.setattr(managed, "DESCRIPTIONS", replace(shares.DESCRIPTIONS, user=600))
    with another_daemon(tmp_path) as daemon:
        daemon.job()
        daemon.client(purpose=protocol.PURPOSE_WATCH)
        one_more = FakeClient(daemon.run_dir)
        one_more.send(fakes.hello(purpose=protocol.PURPOSE_WATCH))
        assert one_more.refusal() == (
            "job 12 has 1 programs that watch GPU memory already, which is the limit for one job"
        )
        client = daemon.client()
        for slot in range(1, 5):
            client.send(fakes.description(slot=slot))
        [warning] = eventually(lambda: daemon.control.job("12")["warnings"])
        assert warning.startswith("not all of its kernels are told apart: uid ")
        assert [facts[0] for facts in daemon.core.seen[1]["described"]] == [1, 2]
        client.close()
        eventually(lambda: not daemon.core.dispatchers[0].clients)
        again = daemon.client()
        again.send(fakes.description())
        eventually(lambda: daemon.core.seen[2]["described"])


def test_a_client_whose_record_vanished_stays_managed(daemon: Daemon) -> None:
    daemon.job()
    client = daemon.client()
    (Path(daemon.run_dir) / "jobs" / "12").unlink()
    client.send(fakes.description())
    eventually(lambda: daemon.core.seen[1]["described"])
    daemon.control.end("12")
    client.send(fakes.description(slot=2))
    eventually(lambda: len(daemon.core.seen[1]["described"]) == 2)
    client.close()
    assert eventually(lambda: daemon.stored()["kernels"] == 2)


def test_a_hello_for_a_gpu_that_is_not_the_jobs_is_refused(daemon: Daemon) -> None:
    daemon.job(gpus="GPU-ffffffff-0405-0607-0809-0a0b0c0d0e0f", mem_bytes=1)
    for purpose in (protocol.PURPOSE_WORK, protocol.PURPOSE_WATCH):
        client = FakeClient(daemon.run_dir)
        client.send(fakes.hello(purpose=purpose))
        assert client.refusal().startswith("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f is not a GPU of job 12")
    assert daemon.core.dispatchers == []
    assert daemon.control.jobs() == []
