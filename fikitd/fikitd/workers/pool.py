"""Work on what users made, in processes with those users' rights (`worker.py`): bounded in time, memory and number, per user and in
all. fikitd's own process neither reads nor parses such things; it hands them on in blocks of bounded size.

A worker does one request at a time, stays for the next one of its user, and goes when none comes. One that is beyond its limits,
or does not answer, is killed; its place is free when the process has ended, which one that hangs in a file system may not.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from fikitd.base.shares import CONNECTIONS
from fikitd.base.validation import integer, no_constant, printable, string
from fikitd.store.storage import StorageTimeout
from fikitd.worker import LENGTH, MAX_CHUNK_BYTES, Limits

_log = logging.getLogger("fikitd")

PLACES_PER_USER: Final = 4
PLACES: Final = 32  # for all: no user can take them
WAITING_PER_USER: Final = CONNECTIONS.user  # calls: all of a user's programs may end at once
IDLE_S: Final = 10.0
END_S: Final = 1.0
START_S: Final = 10.0  # a busy node takes seconds to start a Python
RESTART_S: Final = 1.0  # between two nurseries
MAX_ANSWER_HEAD_BYTES: Final = 64 * 1024
_PART_BYTES: Final = 256 * 1024
NOBODY: Final = -1
_USUAL: Final = Limits()

Chunks = Iterable[bytes] | AsyncIterable[bytes]


class Rights(NamedTuple):
    uid: int
    gid: int


class WorkFailed(OSError):
    """The worker says why, or ended before it could."""


class Call(Protocol):
    """`Workers.call`; a Protocol so that tests can do the work in their own process."""

    async def __call__(
        self,
        rights: Rights,
        work: str,
        arguments: dict[str, Any],
        *,
        timeout_s: float,
        chunks: Chunks = (),
        descriptors: tuple[int, ...] = (),
        answer_bytes: int = 0,
        user: int | None = None,
    ) -> tuple[Any, bytes]: ...


class _Waiting(NamedTuple):
    user: int
    own: bool  # for a change of this user's workers; False: of anybody's
    change: asyncio.Future[None]


@dataclass(eq=False)
class _Worker:
    user: int
    rights: Rights
    stream: socket.socket
    pid: int = 0  # until it has started
    calls: int = 0
    started: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    ended: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    leaves: asyncio.TimerHandle | None = None  # when it has been idle for long enough


class Workers:
    """Only the event loop touches it. The first call starts what starts workers; `start` does so earlier."""

    def __init__(self, limits: Limits = _USUAL) -> None:
        self._limits = limits
        self._nursery: _Nursery | None = None
        self._born_s = -RESTART_S
        self._workers: set[_Worker] = set()  # those that have not ended: each has a place
        self._idle: dict[tuple[int, Rights], list[_Worker]] = {}
        self._waiting: deque[_Waiting] = deque()

    def start(self) -> None:
        """Starts what starts workers, so that the first call need not wait for it. A failure shows at that call."""
        with suppress(OSError):
            self._born()

    async def call(
        self,
        rights: Rights,
        work: str,
        arguments: dict[str, Any],
        *,
        timeout_s: float,
        chunks: Chunks = (),
        descriptors: tuple[int, ...] = (),
        answer_bytes: int = 0,
        user: int | None = None,
    ) -> tuple[Any, bytes]:
        """Result and answer of `user_work.do`, done with `rights` at the expense of `user` (default: the one whose rights they are).

        The answer has at most `answer_bytes`. Raises WorkFailed with the reason, StorageTimeout when it takes longer than
        `timeout_s`, when no place becomes free for so long, or too much of the user's is under way. The result is what the user's process says: check it.
        """
        user = rights.uid if user is None else user
        try:
            async with self._at_work(user, rights, timeout_s) as worker:
                await _send(worker.stream, {"work": work, "arguments": arguments}, chunks, descriptors)
                return await _receive(worker.stream, answer_bytes)
        except TimeoutError:
            raise StorageTimeout(errno.ETIMEDOUT, f"the file system did not answer within {timeout_s:g} s") from None

    async def settle(self, timeout_s: float) -> None:
        """Wait until no worker is at work, but not longer than `timeout_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while any(worker.leaves is None and worker.calls for worker in self._workers):
                    await self._change(NOBODY, own=False)

    def close(self) -> None:
        """No worker stays, whatever it is doing."""
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.close()
        for worker in list(self._workers):
            self._has_ended(worker, -1)

    @asynccontextmanager
    async def _at_work(self, user: int, rights: Rights, timeout_s: float) -> AsyncIterator[_Worker]:
        """A worker for one call, `timeout_s` long. After a failure of any kind nobody knows what it is doing: it is killed."""
        worker = await self._find(user, rights, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                if not worker.pid:
                    await self._born().start(worker)
                worker.calls += 1
                yield worker
        except WorkSaid as said:
            self._rests(worker)
            raise WorkFailed(said.errno, said.strerror) from None
        except (EOFError, ConnectionError):
            self._kill(worker)
            raise WorkFailed(errno.EIO, await self._why(worker)) from None
        except BaseException:
            self._kill(worker)
            raise
        else:
            self._rests(worker)

    async def _find(self, user: int, rights: Rights, timeout_s: float = START_S) -> _Worker:
        """An idle worker, or a place for a new one. TimeoutError where nothing changes for `timeout_s`."""
        while True:
            if idle := self._idle.get((user, rights)):
                worker = idle.pop()
                if worker.leaves is not None:
                    worker.leaves.cancel()
                    worker.leaves = None
                return worker
            own = [worker for worker in self._workers if worker.user == user]
            if len(own) < PLACES_PER_USER and len(self._workers) < PLACES:
                return self._place(user, rights)
            full = len(own) >= PLACES_PER_USER
            idle_ones = [worker for worker in (own if full else self._workers) if worker.leaves]
            if idle_ones:
                self._dismiss(idle_ones[0])
            async with asyncio.timeout(timeout_s):
                await self._change(user, own=full)

    def _place(self, user: int, rights: Rights) -> _Worker:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        worker = _Worker(user, rights, ours)
        try:
            self._born().expect(worker, theirs)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        self._workers.add(worker)
        return worker

    def _rests(self, worker: _Worker) -> None:
        """It waits for its next call, for a while."""
        if worker.ended.done():
            worker.stream.close()
            return
        self._idle.setdefault((worker.user, worker.rights), []).append(worker)
        worker.leaves = asyncio.get_running_loop().call_later(IDLE_S, self._dismiss, worker)
        self._changed(worker.user)

    def _dismiss(self, worker: _Worker) -> None:
        """It ends by itself when it sees that nobody will ask it any more; its place is free then."""
        self._leave_idle(worker)
        worker.stream.close()

    def _kill(self, worker: _Worker) -> None:
        worker.stream.close()
        if worker.pid and self._nursery is not None:
            self._nursery.kill(worker)

    async def _why(self, worker: _Worker) -> str:
        """Why a worker has ended in the middle of a call."""
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await asyncio.shield(worker.ended)
        return "its worker was ended: it took more memory or time than a user's may"

    def _has_ended(self, worker: _Worker, status: int) -> None:
        self._workers.discard(worker)
        if worker.leaves is not None:  # else a call finds its stream at its end, and closes it
            self._leave_idle(worker)
            worker.stream.close()
        if not worker.ended.done():
            worker.ended.set_result(status)
        self._changed(worker.user)

    def _leave_idle(self, worker: _Worker) -> None:
        if worker.leaves is not None:
            worker.leaves.cancel()
            worker.leaves = None
        idle = self._idle.get((worker.user, worker.rights), [])
        if worker in idle:
            idle.remove(worker)
        if not idle:
            self._idle.pop((worker.user, worker.rights), None)

    async def _change(self, user: int, *, own: bool) -> None:
        """Wait for some worker (`own`: of the user's) to be idle or gone. StorageTimeout where too many calls of the user's wait already."""
        if user != NOBODY and sum(waiting.user == user for waiting in self._waiting) >= WAITING_PER_USER:
            raise StorageTimeout(errno.EBUSY, f"{WAITING_PER_USER} other requests of uid {user} wait already")
        entry = _Waiting(user, own, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        try:
            await entry.change
        finally:
            with suppress(ValueError):
                self._waiting.remove(entry)

    def _changed(self, user: int) -> None:
        for waiting in self._waiting:
            if not waiting.change.done() and (waiting.user == user or not waiting.own):
                waiting.change.set_result(None)

    def _born(self) -> _Nursery:
        if self._nursery is None or not self._nursery.alive:
            if self._nursery is not None:
                self._nursery.close()
            now = time.monotonic()
            if now - self._born_s < RESTART_S:
                raise WorkFailed(errno.EAGAIN, "fikitd's workers could not be started")
            self._born_s = now
            self._nursery = _Nursery(self._limits, self._has_ended)
        return self._nursery


class WorkSaid(OSError):
    """The worker could not do it, for a reason, and waits for its next call."""


class _Nursery:
    """The process that starts workers."""

    def __init__(self, limits: Limits, has_ended: Callable[[_Worker, int], None]) -> None:
        self._has_ended = has_ended
        self._starting: deque[_Worker] = deque()  # as they were told to be
        self._running: dict[int, _Worker] = {}
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._control.setblocking(False)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-m", "fikitd.worker", str(theirs.fileno()), *map(str, limits)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()], cwd="/",
            )  # fmt: skip
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()
        self.alive = True
        asyncio.get_running_loop().add_reader(self._control, self._read)

    def expect(self, worker: _Worker, theirs: socket.socket) -> None:
        """Have it started; `start` waits for that. OSError."""
        words = f"start {worker.rights.uid} {worker.rights.gid}".encode("ascii")
        socket.send_fds(self._control, [words], [theirs.fileno()])
        theirs.close()
        self._starting.append(worker)

    async def start(self, worker: _Worker) -> None:
        """Wait until it has started. WorkFailed."""
        await asyncio.shield(worker.started)
        if not worker.pid:
            raise WorkFailed(errno.EAGAIN, "no worker could be started for it")

    def kill(self, worker: _Worker) -> None:
        with suppress(OSError):
            self._control.send(f"kill {worker.pid}".encode("ascii"))

    def close(self) -> None:
        """It and all workers end, for they see that fikitd has hung up."""
        self._gone()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)

    def _gone(self) -> None:
        if self.alive:
            self.alive = False
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()
            for worker in self._starting:
                worker.started.set_result(None)
                self._has_ended(worker, -1)
            self._starting.clear()
            for worker in list(self._running.values()):
                self._has_ended(worker, -1)
            self._running.clear()

    def _read(self) -> None:
        while self.alive:
            try:
                packet = self._control.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                _log.warning("the process that starts fikitd's workers has ended; the next request starts another one")
                self._gone()
                return
            verb, *numbers = packet.decode("ascii").split()
            if verb == "ended":
                worker = self._running.pop(int(numbers[0]), None)
                if worker is not None:
                    self._has_ended(worker, int(numbers[1]))
                continue
            worker = self._starting.popleft()
            if verb == "started":
                worker.pid = int(numbers[0])
                self._running[worker.pid] = worker
                if worker.stream.fileno() < 0:  # nobody waits for it any more
                    self.kill(worker)
            else:
                self._has_ended(worker, -1)
            worker.started.set_result(None)


async def _send(stream: socket.socket, head: dict[str, Any], chunks: Chunks, descriptors: tuple[int, ...]) -> None:
    loop = asyncio.get_running_loop()
    data = json.dumps(head).encode()
    first = LENGTH.pack(len(data))
    if descriptors:
        socket.send_fds(stream, [first], list(descriptors))  # there is room for four bytes: it waits for a request
    else:
        await loop.sock_sendall(stream, first)
    await loop.sock_sendall(stream, data)

    async def send(chunk: bytes) -> None:
        for begin in range(0, len(chunk), MAX_CHUNK_BYTES):
            part = memoryview(chunk)[begin : begin + MAX_CHUNK_BYTES]
            await loop.sock_sendall(stream, LENGTH.pack(len(part)))
            await loop.sock_sendall(stream, part)

    if isinstance(chunks, AsyncIterable):
        async for chunk in chunks:
            await send(chunk)
    else:
        for chunk in chunks:
            await send(chunk)
    await loop.sock_sendall(stream, LENGTH.pack(0))


async def _receive(stream: socket.socket, answer_bytes: int) -> tuple[Any, bytes]:
    """Raises WorkSaid, EOFError, ConnectionError; ValueError for what no worker of ours says."""
    frame = await _frame(stream, MAX_ANSWER_HEAD_BYTES)
    try:
        head = json.loads(frame, parse_constant=no_constant)
    except RecursionError:
        raise ValueError("its answer is nested too deeply") from None
    answer = bytearray()
    while chunk := await _frame(stream, answer_bytes - len(answer)):
        answer += chunk
    if not isinstance(head, dict):
        raise ValueError("its answer is not an object")
    if "error" in head:
        text = printable(string(head["error"], "error", 1000))
        raise WorkSaid(integer(head.get("errno"), "errno", 0, 4096), text)
    return head.get("result"), bytes(answer)


async def _frame(stream: socket.socket, most: int) -> bytes:
    (size,) = LENGTH.unpack(await _exactly(stream, LENGTH.size))
    if size > most:
        raise ValueError(f"its answer is larger than {most} bytes")
    return await _exactly(stream, size)


async def _exactly(stream: socket.socket, size: int) -> bytes:
    loop, data = asyncio.get_running_loop(), bytearray()
    while len(data) < size:
        part = await loop.sock_recv(stream, min(size - len(data), _PART_BYTES))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
