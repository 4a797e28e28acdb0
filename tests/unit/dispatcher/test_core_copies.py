"""Copies in the dispatcher: what a client reports of its copies decides which long copies of those below it ask, and when they go."""

from __future__ import annotations

import time
from collections.abc import Iterator

import core_fake_client as fake
import pytest
from core_fake_client import COPY, DONE, IN, LONG_LEASE, MS, OUT, FakeClient, eventually, now
from fikitd._core import Dispatcher

MIB = 1 << 20
LONG = 12 * MIB  # about a millisecond as long as nobody knows better


@pytest.fixture
def running() -> Iterator[Dispatcher]:
    with fake.dispatcher("budget", LONG_LEASE, max_slowdown=0.0, starvation_timeout_ns=None) as running:
        yield running


def copied(high: FakeClient, every_ns: int = 0, way: int = IN) -> None:
    """The high program copied a little just now; with every_ns, four times, so long after each other."""
    if every_ns:
        time.sleep(4e-9 * every_ns)  # nothing is believed to have been before it came
    last = now()
    for n in range(3 if every_ns else 0, -1, -1):
        high.put(COPY, way, 64, last - n * every_ns)
    high.ring()
    assert eventually(lambda: high.read)


def held(running: Dispatcher, low: FakeClient) -> bool:
    """Its request stands at the gate, for the higher job's sake."""
    return eventually(lambda: any(entry["by"] == 1 for entry in running.stats(low.number)["held"]))


def test_long_copies_ask_once_somebody_above_copies_that_way(running: Dispatcher) -> None:
    high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
    assert list(low.page.copies_ask_from) == [0, 0]
    copied(high, way=OUT)
    assert eventually(lambda: list(low.page.copies_ask_from) == [0, MIB])
    copied(high)
    assert eventually(lambda: list(low.page.copies_ask_from) == [MIB, MIB])
    assert list(high.page.copies_ask_from) == [0, 0]
    running.remove_client(1)
    assert list(low.page.copies_ask_from) == [0, 0]


def test_a_shim_of_before_is_asked_nothing(running: Dispatcher) -> None:
    high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8, version=3)
    copied(high, 10 * MS)
    request = low.ask(copy=IN, size=1 << 40)  # where it has padding: a launch
    assert eventually(lambda: low.granted(request))
    assert list(low.page.copies_ask_from) == [0, 0]


def test_a_copy_goes_when_the_higher_job_is_not_expected_to_copy(running: Dispatcher) -> None:
    high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
    copied(high, 100 * MS)
    request = low.ask(copy=IN, size=LONG)
    assert eventually(lambda: low.granted(request))


def test_a_copy_waits_while_the_higher_job_is_about_to_copy(running: Dispatcher) -> None:
    high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
    copied(high, 10 * MS)
    request = low.ask(copy=IN, size=1 << 40)
    assert held(running, low)
    assert not low.granted(request)
    low.page.waiting = 0  # it gives up
    assert low.ask(copy=OUT, size=LONG)
    assert eventually(lambda: low.granted(low.page.request_seq))  # nobody copies that way


def with_granted_copy(running: Dispatcher) -> tuple[FakeClient, FakeClient, int]:
    """A high client, and a low one that has handed the copy of this request to the device."""
    high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
    copied(high, 100 * MS)
    request = low.ask(copy=IN, size=LONG)
    assert eventually(lambda: low.granted(request))
    low.page.waiting = 0
    low.put(COPY, IN, LONG)
    return high, low, request


def test_a_granted_copy_is_no_launch(running: Dispatcher) -> None:
    _high, low, request = with_granted_copy(running)
    low.put(DONE, 0, request)
    low.ring()
    assert eventually(lambda: low.read)
    assert running.stats(2)["kernels"] == 0
    assert running.stats(1)["others_kernels"] == 0


def test_how_long_copies_take_is_learnt_from_those_that_were_granted(running: Dispatcher) -> None:
    high, low, request = with_granted_copy(running)
    time.sleep(0.1)  # a hundred times as long as a copy takes on a GPU of which nothing is known
    low.put(DONE, 0, request)
    low.ring()
    assert eventually(lambda: low.read)
    copied(high, 10 * MS)
    low.ask(copy=IN, size=LONG)
    assert held(running, low)
