"""Runs in the dispatcher: a grant says on the page how many launches go without asking, and may take the rest back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

import core_fake_client as fake
import pytest
from core_fake_client import CLOSED, DONE, EXPIRED, GRANTED, LONG_LEASE, MS, FakeClient, eventually, now, profile_entry
from fikitd._core import Dispatcher

KERNELS = (1, 2, 3, 4, 5, 6)  # slots, in the order in which the low program launches them
LENGTH_NS = 10_000


@pytest.fixture
def running() -> Iterator[Dispatcher]:
    with fake.dispatcher("budget", LONG_LEASE, max_slowdown=1.0, starvation_timeout_ns=None) as running:
        yield running


def meet(running: Dispatcher, version: int = fake.VERSION, work_ms: int = 100) -> tuple[FakeClient, FakeClient]:
    """A high client that has worked for so long, and may be delayed by as much, and a low one, whose kernels are known."""
    high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8, version=version)
    for client in (high, low):
        for slot in KERNELS:
            client.describe(slot, f"k{slot}")
        running.set_profile(client.number, [profile_entry(f"k{slot}", LENGTH_NS, 0) for slot in KERNELS])
    time.sleep(work_ms / 1000 + 0.01)
    high.launch(KERNELS[0], t_ns=now() - work_ms * MS)
    high.drained()
    high.ring()
    assert eventually(lambda: high.read)
    return high, low


def teach(low: FakeClient, times: int = 3, slots: Sequence[int] = KERNELS) -> None:
    """The low program does its round, and waits, several times; nobody is asked."""
    for _ in range(times):
        for slot in slots:
            low.launch(slot, EXPIRED)
        low.drained()
    low.ring()
    assert eventually(lambda: low.read)


def granted_run(low: FakeClient) -> int:
    """The low program comes to its gate, is granted its launch, and makes it; the request."""
    time.sleep(0.01)  # the high one has been silent for so long that it is not expected within a run
    request = low.ask(KERNELS[0])
    assert eventually(lambda: low.granted(request), 20.0)
    low.take(request, KERNELS[0])
    return request


def test_launches_that_follow_go_without_asking(running: Dispatcher) -> None:
    high, low = meet(running)
    teach(low)
    request = granted_run(low)
    assert low.page.run_until == low.page.launch_seq + len(KERNELS) - 1
    for slot in KERNELS[1:]:
        assert low.passes_without_asking()
        low.launch(slot, GRANTED, request)
    assert not low.passes_without_asking()
    low.ring()
    assert eventually(lambda: low.read)
    assert running.stats(2)["kernels"] == 4 * len(KERNELS)
    assert running.stats(1)["others_kernels"] == len(KERNELS)
    assert low.page.gate == CLOSED
    assert not high.closed


def test_a_constant_that_the_policy_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown constant of the policy"):
        Dispatcher("budget", LONG_LEASE, 0, 0, 1, 0, tuning={"longest_runs": 1})


def test_how_much_work_a_run_may_be_is_a_constant_too() -> None:
    for most_ns, rest_ns, launches in ((25_000, 25_000, 2), (200_000, 0, len(KERNELS)), (25_000, 45_000, 4)):
        tuning = {"longest_run_ns": most_ns, "rest_run_ns": rest_ns}  # the high one is at rest
        with fake.dispatcher(
            "budget", LONG_LEASE, max_slowdown=1.0, starvation_timeout_ns=None, tuning=tuning
        ) as running:
            _, low = meet(running, work_ms=1000)
            teach(low)
            before = low.page.launch_seq
            granted_run(low)
            assert low.page.run_until == before + launches


MANY = range(1, 61)  # slots: more than one grant covers
MANY_NS = 5 * MS  # of each: a run is not over when the dispatcher hears of it some 10 ms late


@pytest.fixture
def no_long_runs() -> Iterator[Dispatcher]:
    longest_ns = 20 * MANY_NS  # and becomes longer long before it is over
    tuning = {"longest_run_ns": longest_ns, "near_ns": longest_ns, "rest_run_ns": 0}
    terms = {"max_slowdown": 1.0, "starvation_timeout_ns": None, "run_ahead_ns": 4 * longest_ns, "tuning": tuning}
    with fake.dispatcher("budget", LONG_LEASE, **terms) as running:
        yield running


def take_in_time(low: FakeClient, request: int, slots: range) -> bool:
    """Launch these on a grant; False: perhaps the dispatcher heard of one so late that it took the run for over."""
    until = low.page.run_until
    low.page.waiting = 0
    end_ns = low.page.request_ns + (until - low.page.launch_seq - 1) * MANY_NS  # one less: times are rounded
    in_time = True
    for slot in slots:
        assert low.passes_without_asking()
        launched = now()
        low.launch(slot, GRANTED, request, t_ns=launched)
        in_time &= now() < end_ns
        end_ns = launched + (until - low.page.launch_seq) * MANY_NS
    low.ring()
    assert eventually(lambda: low.read)
    return in_time and now() < end_ns


def test_a_run_that_is_under_way_becomes_longer(no_long_runs: Dispatcher) -> None:
    running = no_long_runs
    _, low = meet(running, work_ms=1000)  # its budget is full: that it may be back before a run's end does not matter
    for slot in MANY[len(KERNELS) :]:
        low.describe(slot, f"k{slot}")
    running.set_profile(low.number, [profile_entry(f"k{slot}", MANY_NS, 0) for slot in MANY])
    teach(low, slots=MANY)
    attempts = 10
    for _ in range(attempts):
        time.sleep(0.01)
        request = low.ask(MANY[0])
        assert eventually(partial(low.granted, request), 20.0)
        until = low.page.run_until
        assert low.page.launch_seq + 1 < until < low.page.launch_seq + 31
        if take_in_time(low, request, MANY[:14]):
            assert eventually(lambda until=until: low.page.run_until > until)
            assert low.page.waiting == 0
            return
        teach(low, times=1, slots=MANY[14:])  # and so to the end of the round
    pytest.fail(f"the dispatcher heard late of a launch in each of {attempts} attempts")


def test_a_new_request_after_a_run_is_granted_again(running: Dispatcher) -> None:
    _, low = meet(running)
    teach(low)
    for _ in range(3):
        request = granted_run(low)
        for slot in KERNELS[1:]:
            low.launch(slot, GRANTED, request)
        low.drained()


def test_the_high_client_takes_the_rest_back(running: Dispatcher) -> None:
    high, low = meet(running)
    teach(low)
    granted_run(low)
    assert low.passes_without_asking()
    high.launch(KERNELS[1])  # of which it is not known that it can wait
    high.ring()
    assert eventually(lambda: not low.passes_without_asking())
    assert low.page.run_until == 0


def test_what_goes_on_after_that_is_still_counted_and_asks_again(running: Dispatcher) -> None:
    """A thread that had looked at the page before."""
    high, low = meet(running)
    teach(low)
    request = granted_run(low)
    high.launch(KERNELS[1])
    high.ring()
    assert eventually(lambda: not low.passes_without_asking())
    low.launch(KERNELS[1], GRANTED, request)
    high.drained()
    low.put(DONE, KERNELS[1], request)  # who asks again says when the last launch before that is complete
    again = low.ask(KERNELS[2])
    assert eventually(lambda: low.granted(again), LONG_LEASE / 1e9 / 2)
    assert running.stats(2)["kernels"] == 3 * len(KERNELS) + 2


def test_a_run_that_is_not_used_ends_with_its_lease() -> None:
    with fake.dispatcher("budget", 1000 * MS, max_slowdown=1.0, starvation_timeout_ns=None) as running:
        _, low = meet(running)
        teach(low)
        granted_run(low)
        assert low.passes_without_asking()
        assert eventually(lambda: not low.passes_without_asking())


def test_an_open_gate_leaves_no_run_behind(running: Dispatcher) -> None:
    _, low = meet(running)
    teach(low)
    granted_run(low)
    running.remove_client(1)
    assert not low.closed
    assert low.page.run_until == 0


def test_a_shim_of_version_2_is_granted_launch_by_launch(running: Dispatcher) -> None:
    _, low = meet(running, version=2)
    teach(low)
    granted_run(low)
    assert low.page.run_until == 0


def test_what_a_client_says_of_its_version_later_changes_nothing(running: Dispatcher) -> None:
    _, low = meet(running, version=2)
    low.page.version = fake.VERSION
    teach(low)
    granted_run(low)
    assert low.page.run_until == 0


def test_no_run_goes_beyond_a_kernel_that_waits_for_others(running: Dispatcher) -> None:
    _, low = meet(running)
    low.describe(KERNELS[2], "k3", kind=2)
    teach(low)
    granted_run(low)
    assert low.page.run_until == low.page.launch_seq + 1


def test_other_policies_grant_launch_by_launch() -> None:
    with fake.dispatcher("prio", LONG_LEASE) as running:
        _, low = meet(running)
        teach(low)
        granted_run(low)
        assert low.page.run_until == 0


def test_the_next_dispatcher_takes_a_run_back_and_counts_what_it_let_through() -> None:
    with fake.dispatcher("budget", LONG_LEASE, max_slowdown=1.0, starvation_timeout_ns=None) as before:
        _, low = meet(before)
        teach(low)
        request = granted_run(low)
        until = low.page.run_until
    low.page.gate, low.page.run_until = CLOSED, until  # as a killed one leaves it
    low.launch(KERNELS[1], GRANTED, request)
    with fake.dispatcher("budget", LONG_LEASE, max_slowdown=1.0, starvation_timeout_ns=None) as after:
        high = FakeClient(after, 1, 1)
        low.go_on_with(after, 8)
        assert low.closed
        assert low.page.run_until == 0
        assert after.stats(2)["kernels"] == 3 * len(KERNELS) + 2
        request = low.ask(KERNELS[2])
        assert eventually(lambda: low.granted(request), 20.0)
        assert not high.closed


def test_a_liar_that_counts_backwards_holds_nobody(running: Dispatcher) -> None:
    """Its own run never ends by its own count; by its lease, or the high client's launch, it does."""
    high, low = meet(running)
    teach(low)
    granted_run(low)
    low.page.launch_seq = 0
    time.sleep(0.01)  # the dispatcher looks at it
    high.launch(KERNELS[1])
    high.ring()
    assert eventually(lambda: low.page.run_until == 0)
