"""A thread that never begins, for want of memory: fikitd's event loop does not wait for it, and its place comes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fikitd.base import threads
from fikitd.base.threads import Thread
from fikitd.jobs.ledger import Ledger
from fikitd.store.storage import Storage, StorageTimeout


def never_begins(_work: Callable[[], object], _arguments: tuple[()]) -> int:
    """As the system does it: there is a thread, and it dies before it runs a line of ours."""
    return 1


def test_nobody_waits_for_it_and_its_place_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        storage = Storage(limit=2)
        with monkeypatch.context() as starved:
            starved.setattr("_thread.start_new_thread", never_begins)
            for _ in range(2):
                with pytest.raises(StorageTimeout):
                    await storage.run(1, lambda: None, timeout_s=0.01)
        with pytest.raises(StorageTimeout, match="does not answer"):
            await storage.run(1, lambda: None)
        with monkeypatch.context() as later:
            later.setattr(threads, "BEGIN_S", 0)
            await storage.settle(0.01)
        assert await storage.run(1, lambda: "fine") == "fine"

    asyncio.run(asyncio.wait_for(ask(), 20))


def test_one_that_was_given_up_does_nothing_when_it_begins_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Callable[[], object]] = []
    monkeypatch.setattr("_thread.start_new_thread", lambda run, _: begun.append(run))
    monkeypatch.setattr(threads, "BEGIN_S", 0)
    did: list[int] = []
    thread = Thread(lambda: did.append(1))
    thread.start()
    assert not thread.is_alive()
    begun[0]()
    assert did == []


def test_one_that_has_begun_lives_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "BEGIN_S", 0)
    runs, goes_on = threading.Event(), threading.Event()

    def work() -> None:
        runs.set()
        goes_on.wait(10)

    thread = Thread(work)
    thread.start()
    assert runs.wait(10)
    assert thread.is_alive()
    goes_on.set()
    while thread.is_alive():
        pass


def test_the_ledger_goes_on_after_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path)
    with monkeypatch.context() as starved:
        starved.setattr("_thread.start_new_thread", never_begins)
        ledger.remove("12")
        starved.setattr(threads, "BEGIN_S", 0)
        assert not ledger._working()
    ledger.remove("13")
    asyncio.run(ledger.settle(10))
    assert ledger._due == {}
