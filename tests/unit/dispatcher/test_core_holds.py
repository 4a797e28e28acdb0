"""What the dispatcher puts a client's waiting down to, and the journal of its events."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import core_fake_client as fake
import pytest
from core_fake_client import LONG_LEASE, MS, FakeClient, eventually, now, profile_entry
from fikitd._core import Dispatcher
from fikitd.api.traces import Event, events_of

THE_DISPATCHERS_OWN = ("reaction", 1)


def held(running: Dispatcher, number: int) -> dict[tuple[str, int | None], int]:
    """Time by reason and blamed client."""
    times: Counter[tuple[str, int | None]] = Counter()
    for entry in running.stats(number)["held"]:
        times[entry["reason"], entry["by"]] += entry["total_ns"]
    return dict(times)


def behind(high: FakeClient, low: FakeClient) -> int:
    return held(low.dispatcher, low.number).get(("uncertain", high.number), 0)


def wait_behind(high: FakeClient, low: FakeClient, waits: int = 3) -> int:
    """The low client asks while the high one works, waits until that is over, launches; how long it waited in all."""
    total = 0
    for _ in range(waits):
        high.launch()
        before = behind(high, low)
        request = low.ask()
        assert eventually(lambda before=before: behind(high, low) > before)
        high.drained()
        assert eventually(lambda request=request: low.granted(request))
        posted = low.page.request_ns
        time.sleep(0.001)  # it sees its grant late
        low.page.waiting = 0
        taken = now()
        low.launch(0, fake.GRANTED, request, t_ns=taken)
        total += taken - posted
        low.put(fake.DONE, 0, request)
    return total


def test_the_sum_over_reasons_is_the_time_waited_to_the_nanosecond() -> None:
    with fake.dispatcher("prio", LONG_LEASE) as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        total = wait_behind(high, low)
        assert eventually(lambda: running.stats(1)["held"] and sum(held(running, 1).values()) == total)
        times = held(running, 1)
        assert set(times) <= {("behind", 2), ("uncertain", 2), ("run_ahead", 1), ("run_ahead", 2), THE_DISPATCHERS_OWN}
        assert times["uncertain", 2] > 0, "nobody knows how long the higher client's work takes"
        assert times[THE_DISPATCHERS_OWN] > 2 * MS, "the wait for a client that sees its grant late"
        assert held(running, 2) == {}


def test_a_wait_that_goes_on_counts_so_far() -> None:
    with fake.dispatcher("prio", LONG_LEASE) as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        high.launch()
        low.ask()
        assert eventually(lambda: held(running, 1).get(("uncertain", 2), 0) > 0)
        before = held(running, 1)["uncertain", 2]
        assert eventually(lambda: held(running, 1)["uncertain", 2] > before)
        assert sum(held(running, 1).values()) <= now() - low.page.request_ns


def test_behind_what_was_granted_and_takes_nobody_knows_how_long_a_gate_is_waited_once_that_is_complete() -> None:
    with fake.dispatcher("prio", LONG_LEASE) as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        high.launch()
        first = low.ask()
        high.drained()
        assert eventually(lambda: low.granted(first))
        low.take(first)
        high.launch()
        second = low.ask()
        assert eventually(lambda: running.spent(1)["unexplained_ns"] > MS), "its own kernel may run as long"
        waited = running.spent(1)["waited_ns"]
        low.put(fake.DONE, 0, first)
        low.ring()
        assert eventually(lambda: running.spent(1)["waited_ns"] > waited + MS)
        high.drained()
        assert eventually(lambda: low.granted(second))


def no_change(of: Callable[[], Any]) -> bool:
    before = of()
    time.sleep(0.005)
    return bool(of() == before)


def test_a_request_that_was_given_up_counts_until_then() -> None:
    with fake.dispatcher("prio", LONG_LEASE) as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        high.launch()
        low.ask()
        assert eventually(lambda: held(running, 1).get(("uncertain", 2), 0) > MS)
        low.page.waiting = 0
        assert eventually(lambda: no_change(lambda: held(running, 1)))
        assert sum(held(running, 1).values()) <= now() - low.page.request_ns


def test_what_does_not_fit_is_counted_by_kernel_with_its_length() -> None:
    with fake.dispatcher("paper", LONG_LEASE) as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        low.describe(1, "long")
        high.describe(1, "step")
        running.set_profile(2, [profile_entry("step", 1000, 4000 * MS)])
        running.set_profile(1, [profile_entry("long", 4500 * MS, 0)])
        high.launch(slot=1)
        low.ask(slot=1)

        def misfit() -> list[dict[str, Any]]:
            return [dict(e) for e in running.stats(1)["held"] if e["reason"] == "does_not_fit"]

        assert eventually(misfit)
        (entry,) = misfit()
        assert (entry["by"], entry["kernel"]) == (2, "long")
        assert entry["p90_ns"] == pytest.approx(4500 * MS, rel=0.13)  # a bucket's width


def test_a_high_launch_behind_a_long_lower_kernel_says_for_how_long_and_whose() -> None:
    with fake.dispatcher("paper", LONG_LEASE) as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        low.describe(1, "filler")
        running.set_profile(1, [profile_entry("filler", 900 * MS, 0)])
        request = low.ask(slot=1)
        assert eventually(lambda: low.granted(request))
        granted = now()
        low.take(request, slot=1)
        high.launch()
        assert eventually(lambda: ("lower_work", 1) in held(running, 2))
        assert 900 * MS * 0.85 - (now() - granted) <= held(running, 2)["lower_work", 1] <= 900 * MS * 1.15
        first = held(running, 2)["lower_work", 1]
        for _ in range(5):
            high.launch()  # of unknown length
        running.journal(2)  # has read them
        assert held(running, 2) == {("lower_work", 1): first}, "the same kernel delays them all, but once"


def test_a_client_with_many_kernels_fills_no_memory_and_loses_no_time() -> None:
    with fake.dispatcher("paper", LONG_LEASE) as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        high.describe(1, "step")
        running.set_profile(2, [profile_entry("step", 1000, 4000 * MS)])
        high.launch(slot=1)
        began = now()

        def decided() -> int:
            return sum(e["count"] for e in running.stats(1)["held"] if e["reason"] != "reaction")

        for slot in range(1, 131):
            low.ask(slot)  # of unknown length: it does not fill a gap
            assert eventually(lambda slot=slot: decided() >= slot)
        entries = running.stats(1)["held"]
        took = now() - began
        assert len(entries) <= 96 + 11 + 1
        assert any(e["by"] is None for e in entries) or took > 3500 * MS, "the rest, summed up"
        assert 0.5 * took < sum(e["total_ns"] for e in entries) <= took


def test_the_journal_tells_launches_waits_grants_gaps_and_waits_of_the_host() -> None:
    running = Dispatcher("prio", LONG_LEASE, 20_000, 500_000, 2_000_000, 20_000, trace_events=100)
    try:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        low.describe(5, "mine")
        running.set_profile(1, [profile_entry("mine", 100_000, 0)])
        high.launch()
        request = low.ask(5)
        assert eventually(lambda: behind(high, low) > 0)
        high.drained()
        assert eventually(lambda: low.granted(request))
        low.take(request, 5)
        low.put(fake.DONE, 5, request)
        low.drained()
        journal = running.journal(1)
        assert (journal["kernels"], journal["by"]) == (b"5 mine\n", [1, 2])
        events = list(events_of(journal["events"]))
        kinds = Counter(event.kind for event in events)
        assert kinds["launch"] == kinds["grant"] == kinds["drain"] == 1
        assert {event.reason for event in events if event.kind == "wait"} >= {"uncertain", "reaction"}
        launch = next(event for event in events if event.kind == "launch")
        assert launch.slot == 5
        assert launch.length_ns == pytest.approx(100_000, rel=0.13)
        waits = [event for event in events if event.kind == "wait"]
        for earlier, later in pairwise(waits):
            assert earlier.t_ns + earlier.length_ns == later.t_ns, "one reason after the other, without a hole"
        time.sleep(0.03)
        high.launch()
        assert eventually(lambda: any(e.kind == "launch" for e in list(events_of(running.journal(2)["events"]))[-1:]))
        (gap,) = [event for event in events_of(running.journal(2)["events"]) if event.kind == "gap"]
        assert gap.length_ns > 25 * MS
    finally:
        running.stop()


def test_the_journal_tells_of_a_wait_that_goes_on_up_to_now() -> None:
    running = Dispatcher("prio", LONG_LEASE, 20_000, 500_000, 2_000_000, 20_000, trace_events=100)
    try:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        low.describe(5, "mine")
        high.launch()
        low.ask(5)
        assert eventually(lambda: behind(high, low) > 0)
        posted = low.page.request_ns

        def waits() -> list[Event]:
            return [event for event in events_of(running.journal(1)["events"]) if event.kind == "wait"]

        first, asked = waits(), now()
        second = waits()
        for seen in (first, second):
            assert (seen[-1].reason, seen[-1].by, seen[-1].slot) == ("uncertain", 2, 5)
            for earlier, later in pairwise(seen):
                assert earlier.t_ns + earlier.length_ns == later.t_ns
        assert [event.t_ns for event in first] == [event.t_ns for event in second], "the same wait, longer"
        until = second[-1].t_ns + second[-1].length_ns
        assert posted < first[-1].t_ns + first[-1].length_ns <= asked <= until <= now()
        low.page.waiting = 0  # it gives up, as a process does that is killed
        assert eventually(lambda: no_change(waits))
        assert waits()[-1].t_ns == second[-1].t_ns
        assert running.journal(1)["lost"] == 0
    finally:
        running.stop()


def test_the_journal_keeps_the_newest_and_counts_the_rest() -> None:
    running = Dispatcher("paper", LONG_LEASE, 20_000, 500_000, 2_000_000, 20_000, trace_events=100)
    try:
        client = FakeClient(running, 1, 5)
        for slot in range(300):
            client.launch(slot)
        assert eventually(lambda: running.stats(1)["kernels"] == 300)
        journal = running.journal(1)
        events = events_of(journal["events"])
        assert [event.slot for event in events] == list(range(172, 300)), "128 is the next power of two"
        assert journal["lost"] == 172
    finally:
        running.stop()


def test_without_trace_events_there_is_no_journal() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 5)
        client.launch()
        assert eventually(lambda: running.stats(1)["kernels"] == 1)
        assert running.journal(1) == {"events": b"", "lost": 0, "kernels": b"", "by": []}
        high = FakeClient(running, 2, 1)
        high.launch()
        client.ask()
        assert eventually(lambda: held(running, 1))
        assert running.journal(1)["events"] == b"", "nor of a wait that goes on"
        with pytest.raises(ValueError, match="at most 1048576"):
            Dispatcher("paper", LONG_LEASE, 0, 0, 1, 0, trace_events=2**20 + 1)
