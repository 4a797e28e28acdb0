"""Whatever fails while a client comes or goes: all that was taken for it is given back, and the next one is served."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, FakeDeparted, FakeDispatcher, eventually
from daemon_in_thread import Daemon
from descriptors import descriptors_of
from fikitd.api.traces import JobTrace
from fikitd.clients import client_profiles, managed
from fikitd.clients.present import Present
from fikitd.gpus.memory import MemoryPage
from fikitd.jobs.job import Job
from fikitd.jobs.registry import Jobs

Failure = Callable[..., Any]


def raising(error: BaseException) -> Failure:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


NO_THREAD = RuntimeError("can't start new thread")
NO_DESCRIPTOR = OSError(errno.EMFILE, "Too many open files")


PAGES_AND_DOORBELLS = ("memfd:page", "eventfd")


@pytest.mark.parametrize(
    ("where", "name", "error"),
    [
        (fakes.FakeCore, "Dispatcher", NO_THREAD),
        (fakes.FakeCore, "make_page", NO_DESCRIPTOR),
        (managed.os, "eventfd", NO_DESCRIPTOR),
        (MemoryPage, "take", NO_DESCRIPTOR),
        (client_profiles.ClientProfiles, "find", NO_THREAD),
        (FakeDispatcher, "add_client", MemoryError()),
        (Job, "client_came", MemoryError()),
        (Present, "came", MemoryError()),
        (JobTrace, "came", MemoryError()),
        (Jobs, "client_came", NO_THREAD),
        (managed.Managed, "_keep", NO_DESCRIPTOR),
        (managed, "send", NO_DESCRIPTOR),
        (FakeDispatcher, "describe", MemoryError()),
        (FakeDispatcher, "ended", MemoryError()),
        (FakeDeparted, "journal", MemoryError()),
        (FakeDeparted, "profile", MemoryError()),
    ],
)
def test_a_client_that_fails_somewhere_leaves_nothing_taken(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, error: BaseException
) -> None:
    daemon.job()
    first = daemon.client()
    before = descriptors_of(*PAGES_AND_DOORBELLS)
    with monkeypatch.context() as broken:
        broken.setattr(where, name, raising(error))
        other = FakeClient(daemon.run_dir)
        other.send(fakes.hello(uuid=b"another GPU!!!!!"))
        with suppress(BrokenPipeError, ConnectionResetError):  # it was closed before all that we said was read
            other.send(fakes.description())
            other.socket.shutdown(socket.SHUT_WR)
            while other.socket.recv(4096):
                pass
        other.close()
        eventually(lambda: descriptors_of(*PAGES_AND_DOORBELLS) <= before)
    third = daemon.client(uuid=b"another GPU!!!!!")
    assert [sorted(dispatcher.clients) for dispatcher in daemon.core.dispatchers] == [[1], [max(daemon.core.seen)]]
    third.close()
    first.close()
    eventually(lambda: daemon.control.job("12")["state"] == "ended")
    assert daemon.control.end("12").startswith("fikit: job 12")
    assert daemon.control.jobs() == []
