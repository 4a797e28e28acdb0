"""File work of the daemon: bounded in time, per user, whole or not at all."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from pathlib import Path

import pytest
from fikitd.store.storage import Storage, StorageTimeout, write_atomic


def test_a_call_that_hangs_ends_for_its_caller() -> None:
    release = threading.Event()

    async def ask() -> None:
        with pytest.raises(StorageTimeout, match="did not answer within"):
            await Storage().run(1, release.wait, timeout_s=0.05)

    asyncio.run(ask())
    release.set()


def test_what_a_finished_call_knew_is_let_go_at_once() -> None:
    """A departed client with its pages among it, without Python's collector."""

    class Known:
        pass

    async def ask() -> weakref.ref[Known]:
        known = Known()
        await Storage().run(1, lambda: str(known))
        return weakref.ref(known)

    gc.disable()
    try:
        known = asyncio.run(ask())
        deadline = time.monotonic() + 5
        while known() is not None and time.monotonic() < deadline:
            time.sleep(0.001)  # the thread ends after its result
        assert known() is None
    finally:
        gc.enable()


def test_a_users_hanging_calls_use_up_that_users_places_only() -> None:
    release = threading.Event()

    async def ask() -> None:
        storage = Storage(limit=2)
        for _ in range(2):
            with pytest.raises(StorageTimeout):
                await storage.run(1, release.wait, timeout_s=0.01)
        begin = asyncio.get_running_loop().time()
        with pytest.raises(StorageTimeout, match="does not answer"):
            await storage.run(1, release.wait, timeout_s=30)
        assert asyncio.get_running_loop().time() - begin < 5, "refused at once"
        assert await storage.run(2, lambda: "fine") == "fine"
        release.set()
        await storage.settle(10)
        assert await storage.run(1, lambda: "again") == "again"

    asyncio.run(ask())


def test_calls_beyond_the_places_wait_for_one_and_their_time_begins_with_it() -> None:
    """72 programs that end at once, on storage that takes one write after the other."""
    turn = threading.Lock()

    def write() -> str:
        with turn:
            time.sleep(0.01)
        return "fine"

    async def ask() -> list[str]:
        storage = Storage(limit=4)
        return await asyncio.gather(*(storage.run(1, write, timeout_s=0.4) for _ in range(72)))

    begin = time.monotonic()
    assert asyncio.run(ask()) == ["fine"] * 72
    assert time.monotonic() - begin > 0.7, "no call's wait was as long as the limit"


def test_who_waits_for_a_place_is_refused_when_the_last_call_has_run_out_of_time() -> None:
    release = threading.Event()

    async def ask() -> None:
        storage = Storage(limit=1)
        hanging = asyncio.ensure_future(storage.run(1, release.wait, timeout_s=0.05))
        await asyncio.sleep(0)
        begin = asyncio.get_running_loop().time()
        with pytest.raises(StorageTimeout, match="does not answer"):
            await storage.run(1, lambda: None, timeout_s=30)
        assert asyncio.get_running_loop().time() - begin < 10
        await asyncio.gather(hanging, return_exceptions=True)
        release.set()

    asyncio.run(ask())


def no_thread(*_: object) -> int:
    raise RuntimeError("can't start new thread")


def test_threads_that_cannot_be_started_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        storage = Storage(limit=2)
        with monkeypatch.context() as full:
            full.setattr("_thread.start_new_thread", no_thread)
            for _ in range(5):
                with pytest.raises(OSError, match="could start no thread for it"):
                    await storage.run(1, lambda: None)
        await storage.settle(0)
        assert await storage.run(1, lambda: "fine") == "fine"

    asyncio.run(ask())


def test_a_caller_that_is_cancelled_leaves_no_place_taken() -> None:
    release = threading.Event()

    async def ask() -> None:
        storage = Storage(limit=1)
        asking = asyncio.ensure_future(storage.run(1, release.wait, timeout_s=30))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        with pytest.raises(StorageTimeout, match="does not answer"):
            await storage.run(1, lambda: None)
        release.set()
        await storage.settle(10)
        assert await storage.run(1, lambda: "fine") == "fine"

    asyncio.run(ask())


def test_who_settles_waits_for_calls_that_nobody_waits_for() -> None:
    release, done = threading.Event(), threading.Event()

    def work() -> None:
        release.wait()
        done.set()

    async def ask() -> None:
        storage = Storage()
        with pytest.raises(StorageTimeout):
            await storage.run(1, work, timeout_s=0.01)
        await storage.settle(0.05)
        assert not done.is_set()  # it is bounded
        release.set()
        await storage.settle(10)
        assert done.is_set()

    asyncio.run(ask())


def test_what_a_call_raises_reaches_its_caller() -> None:
    async def ask() -> None:
        await Storage().run(1, Path("/no/such/file").read_text)

    with pytest.raises(FileNotFoundError):
        asyncio.run(ask())


def test_a_reader_sees_the_old_or_the_new_file_never_a_part(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = {bytes([letter]) * 200_000 for letter in b"ab"}
    write_atomic(path, b"a" * 200_000, 0o600)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for content in contents:
                write_atomic(path, content, 0o600)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert {path.read_bytes() for _ in range(200)} <= contents
    finally:
        stop.set()
        writer.join()
    assert list(tmp_path.iterdir()) == [path]
