"""What hangs costs whoever it concerns a bounded time and one sentence, and others nothing: each bound, made short, is reached."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import daemon_fakes as fakes
import pytest
from daemon_fakes import FakeClient, eventually
from daemon_in_thread import Daemon
from fikitd.base import protocol
from fikitd.clients import client_profiles, connections, managed
from fikitd.daemon import control
from fikitd.jobs import identify
from fikitd.profiles.profile_store import ProfileStore

SHORT_S = 0.05


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """Something waits for this until the test is over."""
    over = threading.Event()
    yield over
    over.set()


def test_who_cannot_be_identified_in_time_is_refused_with_one_sentence(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, hang: threading.Event
) -> None:
    real = identify.identify
    daemon.job()
    with monkeypatch.context() as short:
        short.setattr(connections, "IDENTIFY_TIMEOUT_S", SHORT_S)
        short.setattr(identify, "identify", lambda *args, **more: hang.wait(20) and real(*args, **more))
        client = FakeClient(daemon.run_dir)
        client.send(fakes.hello())
        assert "could not be identified in time" in client.refusal()
    assert daemon.control.ping()
    assert daemon.client(), "the next one is"


def test_the_refusal_comes_before_the_shim_gives_up() -> None:
    assert 0 < connections.IDENTIFY_TIMEOUT_S < protocol.ANSWER_S
    assert managed.PROFILE_WAIT_S < protocol.ANSWER_S - connections.IDENTIFY_TIMEOUT_S


def test_who_connects_and_never_says_what_it_wants_is_disconnected(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as short:
        short.setattr(connections, "HELLO_TIMEOUT_S", SHORT_S)
        assert FakeClient(daemon.run_dir).answer()[0] == 0
    daemon.job()
    assert daemon.client()


def test_a_profile_that_cannot_be_stored_in_time_is_a_warning_in_the_report(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, hang: threading.Event
) -> None:
    monkeypatch.setattr(client_profiles, "SAVING_TIMEOUT_S", SHORT_S)
    monkeypatch.setattr(ProfileStore, "save", lambda *_, **__: hang.wait(20))
    daemon.core.measured = [fakes.kernel("gemm")]
    daemon.job("12", measure=True, profile="mine")
    daemon.client().close()
    warnings = eventually(lambda: daemon.control.job("12")["warnings"])
    where = daemon.config.daemon.profile_dir
    said = f"its profile could not be stored in {where}: the file system did not answer within {SHORT_S:g} s"
    assert warnings == [said]
    daemon.control.end("12")
    assert daemon.stored("12")["profile"] == {"key": "mine", "found": False, "stored": False, "borrowed": None}


def test_who_asks_nothing_on_the_control_socket_is_disconnected(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as short, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        short.setattr(control, "REQUEST_TIMEOUT_S", SHORT_S)
        silent.settimeout(10)
        silent.connect(str(Path(daemon.run_dir) / protocol.CONTROL_NAME))
        assert silent.recv(1) == b""
    assert daemon.control.ping()
