"""A program of the job that only asks how much GPU memory it has (NVML): it sees the job's page and is no client."""

from __future__ import annotations

import mmap
import os

import daemon_fakes as fakes
from daemon_fakes import FakeClient, eventually
from daemon_in_thread import Daemon
from fikitd.base import protocol

MIB = 2**20


def watch(daemon: Daemon) -> tuple[FakeClient, protocol.MemoryLayout]:
    client = FakeClient(daemon.run_dir)
    client.send(fakes.hello(purpose=protocol.PURPOSE_WATCH))
    kind, _, (_, _, memory) = client.answer()
    assert kind == protocol.WELCOME
    return client, protocol.MemoryLayout.from_buffer(mmap.mmap(memory, os.fstat(memory).st_size))


def test_who_watches_sees_the_limit_of_a_job_that_has_no_client(daemon: Daemon) -> None:
    daemon.job(mem_bytes=100 * MIB)
    _, memory = watch(daemon)
    assert (memory.limit_bytes, memory.shares) == (100 * MIB, 0)
    assert daemon.core.seen == {}
    assert daemon.control.jobs() == []


def test_who_watches_sees_what_the_jobs_processes_hold(daemon: Daemon) -> None:
    daemon.job(mem_bytes=100 * MIB)
    daemon.client()
    client, memory = watch(daemon)
    assert memory.shares == 1
    assert len(daemon.core.seen) == 1
    client.close()
    daemon.client()
    assert eventually(lambda: memory.shares == 2)


def test_who_watches_and_describes_kernels_is_disconnected(daemon: Daemon) -> None:
    daemon.job()
    client, _ = watch(daemon)
    client.send(fakes.description())
    assert client.answer()[0] == 0


def test_who_belongs_to_no_job_watches_nothing(daemon: Daemon) -> None:
    daemon.proc.add(os.getpid(), uid=os.getuid())
    client = FakeClient(daemon.run_dir)
    client.send(fakes.hello(purpose=protocol.PURPOSE_WATCH))
    assert "belongs to no fikit job" in client.refusal()
