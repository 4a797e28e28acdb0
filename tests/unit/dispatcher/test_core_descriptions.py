"""Requests for and launches of a kernel that the dispatcher has not been told of yet: it waits a moment for the description."""

from __future__ import annotations

from collections.abc import Iterator

import core_fake_client as fake
import pytest
from core_fake_client import LONG_LEASE, MS, FakeClient, eventually, now, profile_entry
from fikitd._core import Dispatcher
from fikitd.api.traces import Event, events_of

LONG, NEW = 1, 2
WAIT_NS = 20 * MS  # kDescriptionNs


@pytest.fixture
def running() -> Iterator[Dispatcher]:
    with fake.dispatcher("paper", LONG_LEASE, trace_events=256) as running:
        yield running


def waits(running: Dispatcher) -> list[Event]:
    events = events_of(running.journal(2)["events"])
    return [event for event in events if event.kind == "wait" and event.slot == NEW]


def go(low: FakeClient, request: int, slot: int) -> None:
    """Wait for the grant, and launch."""
    assert eventually(lambda: low.granted(request), 20.0)
    low.take(request, slot)
    low.ring()


def read(client: FakeClient) -> None:
    assert eventually(lambda: client.read, 20.0)


def low_under_way(running: Dispatcher) -> FakeClient:
    """A low client one of whose kernels is on the device: the next one is held for that, or because its length is not known."""
    low = FakeClient(running, 2, 8)
    low.describe(LONG, "long")
    running.set_profile(2, [profile_entry("long", 60 * MS, 0), profile_entry("new", MS // 100, 0)])
    go(low, low.ask(LONG), LONG)
    return low


def test_a_kernel_that_nobody_describes_is_unknown_after_a_moment(running: Dispatcher) -> None:
    FakeClient(running, 1, 1)
    low = low_under_way(running)
    go(low, low.ask(NEW), NEW)
    assert eventually(lambda: len(waits(running)) >= 2)
    seen, held, *_ = waits(running)
    assert seen.reason == "reaction"
    assert seen.length_ns >= WAIT_NS
    assert held.reason == "unknown"


def test_a_kernel_that_is_described_in_time_is_known(running: Dispatcher) -> None:
    FakeClient(running, 1, 1)
    for _ in range(20):
        low = low_under_way(running)
        request = low.ask(NEW)
        low.describe(NEW, "new")
        in_time = now() < low.page.request_ns + WAIT_NS
        go(low, request, NEW)
        assert eventually(lambda: bool(waits(running)))
        if in_time:
            assert "unknown" not in {wait.reason for wait in waits(running)}
            return
        running.remove_client(2)
    pytest.fail("this machine never let the description through in 20 ms")


def launched(running: Dispatcher) -> Event:
    """How the high client's only launch was put down. Who asks does not wait for a description."""
    (event,) = [event for event in events_of(running.journal(1)["events"]) if event.kind == "launch"]
    return event


def test_a_launch_of_a_kernel_that_nobody_describes_is_unknown_after_a_moment(running: Dispatcher) -> None:
    high = FakeClient(running, 1, 1)
    high.launch(NEW)
    launched_ns = high.page.ring[0].t_ns
    high.ring()
    read(high)
    assert now() >= launched_ns + WAIT_NS
    assert launched(running).length_ns < 0


def test_a_launch_of_a_kernel_that_is_described_in_time_is_known(running: Dispatcher) -> None:
    for _ in range(20):
        high = FakeClient(running, 1, 1)
        running.set_profile(1, [profile_entry("new", MS // 100, 0)])
        high.launch(NEW)
        high.ring()
        high.describe(NEW, "new")
        in_time = now() < high.page.ring[0].t_ns + WAIT_NS
        read(high)
        if in_time:
            assert launched(running).length_ns > 0
            return
        running.remove_client(1)
    pytest.fail("this machine never let the description through in 20 ms")
