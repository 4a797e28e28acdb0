"""What a worker answers is a user's word: whatever it is, fikitd reads no more than it asked for, and goes on."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from typing import Any

import pytest
from fikitd.worker import LENGTH, Connection
from fikitd.workers.pool import WorkSaid, _receive
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples


def frame(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def answered(data: bytes, answer_bytes: int = 1000) -> tuple[Any, bytes]:
    """What fikitd makes of these bytes, behind which the stream ends."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        writer = threading.Thread(target=lambda: (theirs.sendall(data), theirs.shutdown(socket.SHUT_WR)))
        writer.start()

        async def receive() -> tuple[Any, bytes]:
            async with asyncio.timeout(20):
                return await _receive(ours, answer_bytes)

        try:
            return asyncio.run(receive())
        finally:
            ours.close()
            writer.join()


def test_an_answer_comes_as_it_was_sent() -> None:
    assert answered(frame(b'{"result": [1]}') + frame(b"abc") + frame(b"d") + frame(b"")) == ([1], b"abcd")
    with pytest.raises(WorkSaid, match=r"no\?space") as said:
        answered(frame(json.dumps({"error": "no\x1bspace", "errno": 28}).encode()) + frame(b""))
    assert said.value.errno == 28


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\1", LENGTH.pack(2**32 - 1), LENGTH.pack(2**31) + b"x" * 1000,
        frame(b"") + frame(b""), frame(b"[]") + frame(b""), frame(b"NaN") + frame(b""),
        frame(b"[" * 60_000) + frame(b""), frame(b"\xff") + frame(b""), frame(b"x" * 65_537),
        frame(b'{"error": 5, "errno": 1}') + frame(b""), frame(b'{"error": "x", "errno": -1}') + frame(b""),
        frame(b'{"error": "x"}') + frame(b""), frame(json.dumps({"error": "x" * 1001, "errno": 1}).encode()) + frame(b""),
        frame(b'{"result": 1}') + frame(b"x" * 1001), frame(b'{"result": 1}') + frame(b"x" * 600) * 2 + frame(b""),
        frame(b'{"result": 1}') + frame(b"x" * 600), frame(b'{"result": 1}') + LENGTH.pack(2**32 - 1) + b"x" * 5000,
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_an_error_and_nothing_more(data: bytes) -> None:
    with pytest.raises((ValueError, EOFError, ConnectionError)):
        answered(data)


@given(st.binary(max_size=200) | st.lists(st.binary(max_size=50).map(frame)).map(b"".join))
@settings(max_examples=examples(50), deadline=None)
def test_any_bytes_are_an_answer_or_an_error(data: bytes) -> None:
    try:
        _, answer = answered(data, 100)
    except (ValueError, EOFError, ConnectionError, WorkSaid):
        return
    assert len(answer) <= 100


def test_a_request_comes_in_blocks_with_its_descriptors() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(ours, [frame(b'{"work": "x"}')], [ours.fileno()])
        ours.sendall(frame(b"abc") + frame(b"") + frame(b'{"work": "y"}') + frame(b""))
        ours.shutdown(socket.SHUT_WR)
        request = Connection(theirs)
        assert request.head() == {"work": "x"}
        (descriptor,) = request.descriptors()
        socket.socket(fileno=descriptor).close()
        assert list(request.chunks()) == [b"abc"]
        assert (request.head(), list(request.chunks()), request.head()) == ({"work": "y"}, [], None)
