"""The life of an MPS server, without any MPS: the control daemon here says what a test says."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from fikitd.mps import notes, servers
from fikitd.mps.control import MpsError, NobodyListens, began
from fikitd.mps.servers import Server

ME = os.getpid()
UUID = "GPU-1a2b3c4d-0000-0000-0000-000000000000"


class FakeControl:
    """A control daemon that hears of its server's end after `late` commands to begin one, and until then has begun none."""

    listens = True

    def __init__(self, late: int = 0, server: int = ME) -> None:
        self.late, self.server, self.commands = late, server, list[int]()
        self.states = ["ACTIVE"]  # its answers, of which the last holds on
        self.pipes = Path()
        self.several: bool | None = None

    def start(self, *, several_users: bool) -> int:
        self.several = several_users
        return ME

    def reap(self) -> None:
        pass

    async def start_server(self, uid: int, _timeout_s: float) -> None:
        self.commands.append(uid)

    async def servers(self, _timeout_s: float) -> list[int]:
        return [self.server] if len(self.commands) > self.late else []

    async def status(self, _server: int, _timeout_s: float) -> str:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


class EarlyControl(FakeControl):
    """Of a daemon whose socket is there before it listens: `late` commands find nobody."""

    async def start_server(self, uid: int, _timeout_s: float) -> None:
        self.commands.append(uid)
        if len(self.commands) <= self.late:
            raise NobodyListens("does not answer")


def a_server(directory: Path) -> Server:
    return Server(UUID, directory, lambda: None, lambda: False)


def with_clients(directory: Path) -> Server:
    """A failure does not end its processes: us."""
    return Server(UUID, directory, lambda: None, lambda: True)


def test_a_log_that_has_grown_too_large_begins_anew_and_its_writer_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "MOST_LOG_BYTES", 100_000)
    server = a_server(tmp_path)
    server.bound_logs()  # there is none yet
    logs = notes.places(tmp_path, server.uuid).logs
    logs.mkdir()
    (logs / "short.log").write_bytes(b"kept")
    with (logs / "long.log").open("wb", buffering=0) as log:
        log.write(bytes(200_000))
        server.bound_logs()
        assert (logs / "long.log").stat().st_size == 0
        log.write(b"more")  # at its own place: what is before it takes no memory
        server.bound_logs()
    assert (logs / "long.log").read_bytes().lstrip(bytes(1)) == b"more"
    assert (logs / "short.log").read_bytes() == b"kept"


def ensured(control: Any, directory: Path, timeout_s: float = 10) -> Server:
    """A server that is there, or MpsError."""

    async def ensure() -> Server:
        server = with_clients(directory)
        server.control = control
        try:
            await server.ensure(timeout_s=timeout_s)
        finally:
            server.leave()
        return server

    return asyncio.run(ensure())


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "LOOK_S", 0.001)
    monkeypatch.setattr(servers, "BEGIN_S", 0.01)
    monkeypatch.setattr(servers, "SETTLED_S", 0.05)


@pytest.mark.parametrize("late", [0, 2])
def test_a_server_is_begun_also_where_the_daemon_has_not_heard_of_the_end_of_the_one_before(
    late: int, tmp_path: Path
) -> None:
    server = ensured(FakeControl(late), tmp_path)
    assert (server.server, server.ready) == (ME, True)


def test_a_control_daemon_whose_socket_is_there_before_it_listens_is_told_once_it_does(tmp_path: Path) -> None:
    assert ensured(EarlyControl(late=2), tmp_path).server == ME


def test_a_server_is_there_once_it_is_known_to_serve(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    control = FakeControl()
    control.states = ["INITIALIZING", "", "INITIALIZING", "ACTIVE"]
    caplog.set_level("INFO", "fikitd")
    assert ensured(control, tmp_path).ready
    assert control.states == ["ACTIVE"]
    assert f"MPS serves {UUID}" in caplog.text


@pytest.mark.parametrize("word", ["", "INITIALIZING"])
def test_a_server_that_never_is_known_to_serve_is_an_error_in_bounded_time(
    word: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    control = FakeControl()
    control.states = [word]
    caplog.set_level("INFO", "fikitd")
    with pytest.raises(MpsError, match=r"was not there within 0\.2 s: see .*\.log"):
        ensured(control, tmp_path, timeout_s=0.2)
    assert "MPS serves" not in caplog.text


def test_a_server_that_ends_as_soon_as_it_begins_is_an_error_that_names_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    control = FakeControl(server=2**22 + 1)  # a process that is not there
    caplog.set_level("INFO", "fikitd")
    with pytest.raises(MpsError, match=r"each of 5 ended as soon as it began: see .*\.log"):
        ensured(control, tmp_path)
    assert len(control.commands) == servers.MOST_BEGUN
    assert "MPS serves" not in caplog.text


def test_where_the_daemon_says_no_state_a_server_that_lives_for_a_while_is_ready_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    control = FakeControl()
    control.states = ["UNKNOWN"]
    assert ensured(control, tmp_path).ready
    assert caplog.text.count("says no server's state") == 1


def test_a_server_that_is_doubted_is_asked_again_before_it_counts_as_ready(tmp_path: Path) -> None:
    control: Any = FakeControl()

    async def doubt() -> list[bool]:
        server = with_clients(tmp_path)
        server.control = control
        await server.ensure()
        server.doubt()
        doubted = server.ready
        await server.ensure()
        server.leave()
        return [doubted, server.ready]

    assert asyncio.run(doubt()) == [False, True]
    assert len(control.commands) == 1, "it is no other server"


@pytest.mark.parametrize(("owner", "name"), [(None, "1a2b3c4d-0000"), (1000, "1a2b3c4d-0000-1000")])
def test_a_server_of_one_user_has_that_users_pipe_directory_in_which_nobody_else_may_write(
    owner: int | None, name: str, tmp_path: Path
) -> None:
    control: Any = FakeControl()

    async def ensure() -> None:
        server = with_clients(tmp_path)
        server.control = control
        server.give_to(owner)
        await server.ensure()
        server.leave()

    before = os.umask(0)
    try:
        asyncio.run(ensure())
    finally:
        os.umask(before)
    assert control.pipes == tmp_path / name
    assert control.pipes.stat().st_mode & 0o7777 == 0o755
    assert control.commands == [os.geteuid() if owner is None else owner]
    assert control.several == (owner is None and os.geteuid() == 0)
    assert [state.owner for state in notes.found(tmp_path) or ()] == [owner]


def test_a_control_daemon_that_has_ended_before_anybody_looked_is_an_error(tmp_path: Path) -> None:
    control = FakeControl()
    control.start = lambda **_: 2**22 + 1  # type: ignore[method-assign,assignment]
    with pytest.raises(MpsError, match=r"ended at once: see .*\.log"):
        ensured(control, tmp_path)


def test_a_note_of_before_names_no_owner(tmp_path: Path) -> None:
    notes.State(UUID, ME, began(ME), ["12"]).save(tmp_path / "x.json")
    text = (tmp_path / "x.json").read_text().replace(', "owner": null', "")
    (tmp_path / "x.json").write_text(text)
    assert "owner" not in text
    assert [state.owner for state in servers.states(tmp_path)] == [None]
