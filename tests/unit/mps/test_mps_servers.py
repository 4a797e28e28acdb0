"""The life of an MPS server, without any MPS: the control daemon here says what a test says."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from fikitd.mps import notes, servers
from fikitd.mps.control import NobodyListens, began
from fikitd.mps.servers import Server

ME = os.getpid()
UUID = "GPU-1a2b3c4d-0000-0000-0000-000000000000"


class LateControl:
    """Of a daemon that hears of its server's end after `late` commands to begin one, and until then has begun none."""

    def __init__(self, late: int) -> None:
        self.late, self.commands = late, 0

    async def start_server(self, _timeout_s: float) -> None:
        self.commands += 1

    async def servers(self, _timeout_s: float) -> list[int]:
        return [ME] if self.commands > self.late else []

    async def status(self, _server: int, _timeout_s: float) -> str:
        return "ACTIVE"


class EarlyControl(LateControl):
    """Of a daemon whose socket is there before it listens: `late` commands find nobody."""

    listens = True

    def start(self) -> int:
        return ME

    def reap(self) -> None:
        pass

    async def start_server(self, _timeout_s: float) -> None:
        self.commands += 1
        if self.commands <= self.late:
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


@pytest.mark.parametrize("late", [0, 2])
def test_a_server_is_begun_also_where_the_daemon_has_not_heard_of_the_end_of_the_one_before(
    late: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "LOOK_S", 0.001)

    async def ensure() -> Server:
        server = with_clients(tmp_path)
        server.pid, server.started = ME, began(ME)
        control: Any = LateControl(late)
        server.control = control
        await server.ensure(timeout_s=10)
        server.leave()
        return server

    assert asyncio.run(ensure()).server == ME


def test_a_control_daemon_whose_socket_is_there_before_it_listens_is_told_once_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "LOOK_S", 0.001)

    async def ensure() -> Server:
        server = with_clients(tmp_path)
        control: Any = EarlyControl(late=2)
        server.control = control
        await server.ensure(timeout_s=10)
        server.leave()
        return server

    assert asyncio.run(ensure()).server == ME
