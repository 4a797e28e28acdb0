"""Kernels that wait for others of their job (cooperative, collective): no filler, and not starved once one has started."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from core_fake_client import DONE, LONG_LEASE, MS, FakeClient, dispatcher, eventually, now, profile_entry
from fikitd._core import Dispatcher, Policy

KERNEL, EXCLUSIVE = 0, 2
HIGH, LOW = 1, 2
US = 1000


def held(policy: str) -> Policy:
    """A high client in a gap of 2 ms that begins at 100 us, and a low one at its closed gate."""
    made = Policy(policy, idle_after_ns=5 * MS)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    made.event("launched", HIGH, 0, duration_ns=100 * US, gap_ns=2 * MS, idle_ns=[2 * MS], slack_ns=[2 * MS])
    made.event("drained", HIGH, 100 * US, duration_ns=0, idle_ns=[2 * MS], span_ns=100 * US, slack_ns=[2 * MS])
    return made


def grants(decisions: list[tuple[object, ...]]) -> list[object]:
    return [decision[1] for decision in decisions if decision[0] == "grant"]


@pytest.mark.parametrize("policy", ["paper", "prio", "budget"])
def test_an_exclusive_kernel_fills_no_gap_but_an_idle_device(policy: str) -> None:
    plain, exclusive = held(policy), held(policy)
    asks = {"request": 1, "duration_ns": 50 * US}
    assert grants(plain.event("waiting", LOW, 110 * US, **asks)) == [LOW]
    decisions = exclusive.event("waiting", LOW, 110 * US, exclusive=True, **asks)
    for at_us in range(120, 5000, 20):
        assert grants(decisions) == []
        decisions = exclusive.event("tick", LOW, at_us * US)
    later = [d[1] for d in decisions if d[0] == "wake_at"]
    assert later, "nobody would look again"
    assert grants(exclusive.event("tick", LOW, 8 * MS)) == [LOW]


@pytest.mark.parametrize("policy", ["paper", "prio", "budget", "exclusive"])
def test_a_client_for_which_an_exclusive_kernel_waits_is_not_held(policy: str) -> None:
    made = held(policy)
    made.event("launched", HIGH, 200 * US, duration_ns=500 * MS)
    assert grants(made.event("waiting", LOW, 210 * US, request=1, duration_ns=50 * US)) == []
    assert grants(made.event("exclusive_runs", LOW, 220 * US, exclusive=True)) == [LOW]
    made.event("exclusive_runs", LOW, 230 * US, exclusive=False)
    assert grants(made.event("waiting", LOW, 240 * US, request=2, duration_ns=50 * US)) == []


def ranks(a: Dispatcher, b: Dispatcher, gangs: tuple[int, int] = (7, 7)) -> tuple[FakeClient, FakeClient, FakeClient]:
    """A high client that keeps GPU b busy, and a low job's two ranks, held on b only."""
    high = FakeClient(b, 1, 1)
    first, second = FakeClient(a, 2, 8, gang=gangs[0]), FakeClient(b, 3, 8, gang=gangs[1])
    for client in (first, second):
        client.describe(1, "compute")
        client.describe(2, "ncclDevKernel_AllReduce", EXCLUSIVE)
    high.describe(1, "k")
    b.set_profile(1, [profile_entry("k", 9000 * MS, 0)])
    high.launch(1)
    return high, first, second


def test_the_other_ranks_of_a_collective_that_has_started_are_not_held_until_they_are_there() -> None:
    with dispatcher("paper", LONG_LEASE) as a, dispatcher("paper", LONG_LEASE) as b:
        _, first, second = ranks(a, b)
        request = second.ask(1)
        assert not eventually(lambda: second.granted(request), 0.1)
        first.launch(2)  # waits for the second rank from now on
        assert eventually(lambda: second.granted(request))
        second.take(request, 1)
        request = second.ask(2)
        assert eventually(lambda: second.granted(request))
        second.take(request, 2)
        request = second.ask(1)  # it has done its part
        assert not eventually(lambda: second.granted(request), 0.1)


def test_a_collective_that_is_over_or_another_jobs_frees_nobody() -> None:
    with dispatcher("paper", LONG_LEASE) as a, dispatcher("paper", LONG_LEASE) as b:
        _, first, second = ranks(a, b)
        first.launch(2)
        first.drained()
        assert eventually(lambda: first.page.ring_tail == first.page.ring_head)
        request = second.ask(1)
        assert not eventually(lambda: second.granted(request), 0.1)
    with dispatcher("paper", LONG_LEASE) as a, dispatcher("paper", LONG_LEASE) as b:
        _, first, second = ranks(a, b, (7, 8))
        first.launch(2)
        request = second.ask(1)
        assert not eventually(lambda: second.granted(request), 0.1)


def test_a_rank_that_died_is_waited_for_by_nobody() -> None:
    with dispatcher("paper", LONG_LEASE) as a, dispatcher("paper", LONG_LEASE) as b:
        _, first, second = ranks(a, b)
        first.launch(2)
        a.remove_client(2)
        request = second.ask(1)
        assert not eventually(lambda: second.granted(request), 0.1)


def granted_at(client: FakeClient, claim: Callable[[], None], seconds: float) -> list[float]:
    """When the client's launches went through its closed gate, while another process of its job claims again and again."""
    begun, moments = now(), list[float]()
    request = client.ask(1)
    while (passed := (now() - begun) / 1e9) < seconds:
        claim()
        if client.granted(request):
            moments.append(passed)
            client.take(request, 1)
            client.put(DONE, 1, request)
            request = client.ask(1)
        time.sleep(0.001)
    return moments


def test_claims_that_nobody_confirms_free_a_job_for_a_lease_and_then_not_for_twenty() -> None:
    with dispatcher("paper") as a, dispatcher("paper") as b:
        _, first, second = ranks(a, b)

        def claim() -> None:
            first.launch(2)
            first.drained()
            first.launch(2)

        moments = granted_at(second, claim, 1.2)
        assert moments, "the first claim counts"
        assert not [moment for moment in moments if moment > 0.7]


def test_more_collectives_under_way_than_a_stream_takes_are_not_believed() -> None:
    with dispatcher("paper", LONG_LEASE) as a, dispatcher("paper", LONG_LEASE) as b:
        _, first, second = ranks(a, b)
        for _ in range(4000):
            first.launch(2)
        assert eventually(lambda: first.read)
        request = second.ask(1)
        assert not eventually(lambda: second.granted(request), 0.1)


def test_who_comes_again_has_spent_what_it_had_spent() -> None:
    with dispatcher("paper") as a, dispatcher("paper") as b:
        _, first, second = ranks(a, b)
        assert granted_at(second, lambda: first.launch(2), 0.7)
        a.remove_client(2)
        b.remove_client(3)
        first, second = FakeClient(a, 4, 8, gang=7), FakeClient(b, 5, 8, gang=7)
        for client in (first, second):
            client.describe(2, "ncclDevKernel_AllReduce", EXCLUSIVE)
        assert not granted_at(second, lambda: first.launch(2), 0.3)
