"""File work of the daemon: on threads of its own, as the job's user, bounded, and whole or not at all. Only what takes as long
for every user: what reads or makes as much as a user likes is done by a process of that user's (`workers/pool.py`).

Shared storage may hang, be full, be read-only or hold anything. So nothing here runs on the event loop, nothing is read
without a bound, and whatever a user may change is touched with that user's rights only.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from fikitd.base.threads import Thread

_T = TypeVar("_T")
_libc = ctypes.CDLL(None, use_errno=True)
_KEEP: Final = ctypes.c_uint32(-1)
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}", re.ASCII | re.DOTALL)
SETTLE_LOOK_S: Final = 0.01


class StorageTimeout(OSError):
    """The file system did not answer in time; the thread that asked is left to its fate."""


class Storage:
    """Runs functions on short-lived daemon threads. One that hangs costs its user one of `limit` places, and nobody else.
    Only the event loop touches it.

    A thread pool would not do: its workers change credentials for good (see `become`), and Python waits for pool threads
    at exit, also for one that sits in a dead NFS mount.
    """

    def __init__(self, limit: int = 32) -> None:
        self._limit = limit
        self._threads: dict[int, set[Thread]] = {}  # by user; a place is taken for as long as its thread lives
        self._in_time: Counter[int] = Counter()  # by user: calls that run, and for whose result somebody still waits
        self._waiting: dict[int, list[asyncio.Future[None]]] = {}

    async def run(self, uid: int, function: Callable[[], _T], timeout_s: float = 1.5) -> _T:
        """The result of `function`, which is done for user `uid`: at once, or when an earlier call for that user has ended.

        Raises what it raises, StorageTimeout when it takes longer than `timeout_s` (its wait for a place not among them) or when the
        user's places are all taken by calls that hang, and OSError where the system gives no thread.
        """
        while len(self._alive(uid)) >= self._limit:
            await self._change(uid)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()

        thread: Thread | None = None

        def finish(result: _T | None, error: BaseException | None) -> None:
            nonlocal thread
            if thread is not None:
                self._threads.get(uid, set()).discard(thread)  # it does nothing any more
            thread = None  # or it and this function would keep each other, and all that `function` knows
            self._changed(uid)
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def work() -> None:
            result, error = None, None
            try:
                result = function()
            except BaseException as caught:  # handed to the caller, whatever it is
                error = caught
            with suppress(RuntimeError):  # the loop was closed while we hung
                loop.call_soon_threadsafe(finish, result, error)

        thread = Thread(work)
        thread.start()
        self._threads.setdefault(uid, set()).add(thread)
        self._in_time[uid] += 1
        try:
            return await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            raise StorageTimeout(errno.ETIMEDOUT, f"the file system did not answer within {timeout_s:g} s") from None
        finally:
            self._in_time[uid] -= 1
            if not self._in_time[uid]:
                del self._in_time[uid]
            self._changed(uid)

    async def _change(self, uid: int) -> None:
        """Wait until a call of the user's has ended, or has run out of time. StorageTimeout where all have."""
        if not self._in_time[uid]:
            raise StorageTimeout(errno.EBUSY, "the file system does not answer")
        change = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(uid, []).append(change)
        await change

    def _changed(self, uid: int) -> None:
        for change in self._waiting.pop(uid, ()):
            if not change.done():
                change.set_result(None)

    async def settle(self, timeout_s: float) -> None:
        """Wait until nothing is under way, also what nobody waits for any more, but not longer than `timeout_s`.

        A process that leaves before leaves half a file behind.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while any(self._alive(uid) for uid in list(self._threads)):
                    await asyncio.sleep(SETTLE_LOOK_S)

    def _alive(self, uid: int) -> set[Thread]:
        """The threads that work for a user. Nothing is counted, so that nothing can be counted wrongly."""
        alive = {thread for thread in self._threads.pop(uid, ()) if thread.is_alive()}
        if alive:
            self._threads[uid] = alive
        return alive


def become(uid: int, gid: int) -> None:
    """Give the calling thread, and it alone, the file rights of a user; for the rest of the thread's life.

    setfsuid(2) is per thread and also takes root's file capabilities away, without a child process per file. Only root
    can; any other daemon serves its own user anyway. The daemon has dropped its supplementary groups at start.
    """
    if os.geteuid() != 0 or uid == 0:
        return
    _libc.setfsgid(ctypes.c_uint32(gid))
    _libc.setfsuid(ctypes.c_uint32(uid))
    # Neither call reports failure: asking again (with an impossible id) returns what is in force now.
    if ctypes.c_uint32(_libc.setfsuid(_KEEP)).value != uid or ctypes.c_uint32(_libc.setfsgid(_KEEP)).value != gid:
        raise PermissionError(errno.EPERM, f"could not act as uid {uid}")


def read_bounded(path: Path, limit: int, owner: int | None = None) -> bytes:
    """The whole file, which must be a regular one, no link, and at most `limit` bytes; ValueError when it is not.

    `owner`: and be this user's, or root's: anybody may link to others' files, or put one into a directory that is open.
    """
    # O_NONBLOCK: opening a FIFO that somebody left there must not wait for a writer.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if owner is not None and status.st_uid not in (0, owner):
            raise ValueError(f"it belongs to uid {status.st_uid}, not to uid {owner}")
        if status.st_size <= limit and len(data := file.read(limit + 1)) <= limit:
            return data
    raise ValueError(f"it is larger than {limit} bytes")


def write_atomic(path: Path, data: bytes, mode: int) -> None:
    """Replace `path` by `data`: temporary file, fsync, rename. A reader sees the old or the new file, never a part."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(data)
            file.flush()
            os.fsync(fd)
        temporary.rename(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def is_temporary(name: str) -> bool:
    """Whether `write_atomic` calls its temporary files so; one that stays is of a writer that was killed in the middle."""
    return _TEMPORARY.fullmatch(name) is not None


def reason(error: BaseException) -> str:
    """Why, in the system's own words, without Python's decoration."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def unreadable(path: Path, error: BaseException) -> str:
    """Why a user could not read a file: somebody else's is that, and no permission that is missing."""
    if isinstance(error, PermissionError):
        with suppress(OSError):
            if path.stat().st_uid != os.geteuid():
                return "it is another user's, and only that user and root may read it"
    return reason(error)
