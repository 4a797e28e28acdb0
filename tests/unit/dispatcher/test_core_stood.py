"""For how long a high client's work stood on the device while a low one's ran: counted when the low work is complete."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from core_fake_client import (
    DONE,
    EXPIRED,
    GRANTED,
    LONG_LEASE,
    MARK_GRANT,
    MS,
    FakeClient,
    dispatcher,
    eventually,
    now,
    profile_entry,
)
from fikitd._core import Dispatcher
from fikitd.simulation.simulator import TUNING

LENGTH = 20 * MS  # of every kernel
WIDTH = 0.13  # of a bucket in which a length is remembered
SHORT_LEASE = 2 * LENGTH
RUN = (1, 2, 3)  # slots of the low client, one after the other
FULL = {"saved_ns": TUNING["advance_ns"] / TUNING["reserve"]}
"""A client begins with all that it can save: what nobody knows yet of it is no reason to wait."""
LONG_RUNS = {"longest_run_ns": 10 * LENGTH, "rest_run_ns": 10 * LENGTH}


@pytest.fixture
def running(request: pytest.FixtureRequest) -> Iterator[Dispatcher]:
    """Under `budget` a client whose kernels leave long gaps has slack: lower kernels go although it has work there."""
    asked = getattr(request, "param", "budget")
    policy, terms = ("budget", {"starvation_timeout_ns": None}) if isinstance(asked, dict) else (asked, {})
    tuning = FULL | asked if isinstance(asked, dict) else FULL
    with dispatcher(policy, LONG_LEASE, max_slowdown=1.0, tuning=tuning, **terms) as running:
        yield running


@pytest.fixture
def high(running: Dispatcher) -> FakeClient:
    client = FakeClient(running, 1, 1)
    client.describe(1, "step")
    running.set_profile(1, [profile_entry("step", LENGTH, 4000 * MS)])
    return client


@pytest.fixture
def low(running: Dispatcher, high: FakeClient) -> FakeClient:
    return filling(running, 2)


def filling(running: Dispatcher, number: int) -> FakeClient:
    """A low client. It has reported a kernel complete: from now on the dispatcher counts on that."""
    client = FakeClient(running, number, 8)
    for slot in RUN:
        client.describe(slot, f"filler{slot}")
    running.set_profile(number, [profile_entry(f"filler{slot}", LENGTH, 0) for slot in RUN])
    client.pass_gate(1)
    assert eventually(lambda: client.read)
    return client


def stood_ns(high: FakeClient) -> int:
    high.dispatcher.journal(high.number)  # everything that it has said is read
    return sum(h["total_ns"] for h in high.dispatcher.stats(high.number)["held"] if h["reason"] == "lower_work")


def begin(low: FakeClient) -> int:
    """It asks, and launches. The request."""
    request = low.ask(1)
    assert eventually(lambda: low.granted(request))
    low.take(request, 1)
    return request


def end(low: FakeClient, request: int) -> int:
    """Its kernel is complete, at the moment that is returned."""
    t_ns = now()
    low.put(DONE, 1, request, t_ns=t_ns)
    low.ring()
    assert eventually(lambda: low.read)
    return t_ns


def launch_much(high: FakeClient) -> None:
    """More than the device does in the whole test."""
    for _ in range(100):
        high.launch(1)


def test_what_came_between_the_works_of_a_host_that_waits_counts(high: FakeClient, low: FakeClient) -> None:
    launch_much(high)
    request = begin(low)
    time.sleep(1.5 * LENGTH / 1e9)
    assert stood_ns(high) == 0
    end(low, request)
    assert eventually(lambda: stood_ns(high) > 0)
    assert stood_ns(high) == pytest.approx(LENGTH, rel=WIDTH)
    launch_much(high)
    assert stood_ns(high) == pytest.approx(LENGTH, rel=WIDTH), "the same kernel delays them all, but once"


@pytest.mark.parametrize("running", ["prio"], indirect=True)
def test_only_the_time_counts_in_which_there_was_something_to_delay(high: FakeClient, low: FakeClient) -> None:
    request = begin(low)
    time.sleep(0.5 * LENGTH / 1e9)
    came_ns = now()
    high.launch(1, t_ns=came_ns)
    time.sleep(0.25 * LENGTH / 1e9)
    together_ns = end(low, request) - came_ns
    assert eventually(lambda: stood_ns(high) > 0)
    longest_ns = (1 + WIDTH) * LENGTH  # on a slow machine it had all that time something to delay
    assert stood_ns(high) == together_ns or (1 - WIDTH) * LENGTH <= stood_ns(high) <= min(together_ns, longest_ns)


@pytest.mark.parametrize("running", ["prio"], indirect=True)
def test_lower_work_beside_a_client_without_any_delays_nothing(high: FakeClient, low: FakeClient) -> None:
    for _ in range(3):
        request = begin(low)
        time.sleep(0.5 * LENGTH / 1e9)
        end(low, request)
    high.launch(1)
    assert stood_ns(high) == 0


def test_work_that_is_complete_because_the_host_has_waited_for_it_counts_too(high: FakeClient, low: FakeClient) -> None:
    launch_much(high)
    begin(low)
    time.sleep(1.5 * LENGTH / 1e9)
    low.drained()
    low.ring()
    assert eventually(lambda: stood_ns(high) > 0)
    assert stood_ns(high) == pytest.approx(LENGTH, rel=WIDTH)


def test_what_takes_so_long_that_nobody_reckons_with_it_any_more_counts(high: FakeClient, low: FakeClient) -> None:
    launch_much(high)
    request = begin(low)
    time.sleep(5 * LENGTH / 1e9)
    end(low, request)
    assert eventually(lambda: stood_ns(high) > 0)
    assert stood_ns(high) == pytest.approx(LENGTH, rel=WIDTH)


def test_time_in_which_two_are_said_to_have_run_counts_once(
    running: Dispatcher, high: FakeClient, low: FakeClient
) -> None:
    other = filling(running, 3)
    launch_much(high)
    request = begin(low)
    time.sleep(1.5 * LENGTH / 1e9)
    first_ns = end(low, request)
    second_ns = end(other, begin(other))  # much sooner than was reckoned
    assert eventually(lambda: len({h["by"] for h in running.stats(1)["held"]}) == 2)
    expected_ns = LENGTH + min(second_ns - first_ns, LENGTH)
    assert stood_ns(high) == pytest.approx(expected_ns, abs=WIDTH * LENGTH)


def test_work_that_a_mark_says_is_there_counts_however_long_lower_work_takes() -> None:
    with dispatcher("budget", SHORT_LEASE, max_slowdown=1.0) as running:
        high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
        high.describe(1, "step")
        low.describe(1, "filler")
        running.set_profile(1, [profile_entry("step", LENGTH, 4000 * MS)])
        running.set_profile(2, [profile_entry("filler", 20 * LENGTH, 0)])
        high.launch(1)
        high.mark(1, 1)
        request = begin(low)
        time.sleep(20 * LENGTH / 1e9)  # the lower kernel came first
        end(low, request)
        assert eventually(lambda: stood_ns(high) > 0)
        assert stood_ns(high) == pytest.approx(20 * LENGTH, rel=WIDTH)
        high.reach(1)
        high.drained()
        last = begin(low)
        time.sleep(2 * LENGTH / 1e9)
        end(low, last)
        assert stood_ns(high) == pytest.approx(20 * LENGTH, rel=WIDTH), "nothing of it is there any more"


def test_lower_work_delays_nobody_for_longer_than_it_takes(high: FakeClient, low: FakeClient) -> None:
    launch_much(high)
    low.launch(1, EXPIRED)  # reckoned behind all that, and nobody says when it is complete
    low.ring()
    assert eventually(lambda: low.read)
    high.drained()  # it took much less than was reckoned
    high.launch(1)
    assert eventually(lambda: stood_ns(high) > 0)
    assert stood_ns(high) == pytest.approx(LENGTH, rel=WIDTH)


def test_a_mark_alone_says_that_lower_work_ran(high: FakeClient, low: FakeClient) -> None:
    launch_much(high)
    request = begin(low)
    low.mark(1, request, MARK_GRANT)
    low.ring()
    time.sleep(1.5 * LENGTH / 1e9)
    low.reach(1)  # and has nothing else to say
    assert eventually(lambda: stood_ns(high) > 0)
    assert stood_ns(high) == pytest.approx(LENGTH, rel=WIDTH)


def test_works_that_are_found_complete_together_ran_one_after_the_other(running: Dispatcher, high: FakeClient) -> None:
    short = MS // 5  # so that both may be in flight
    low = FakeClient(running, 2, 8)
    low.describe(1, "filler")
    running.set_profile(2, [profile_entry("filler", short, 0)])
    attempts = 20
    for last in range(2, 2 * attempts + 1, 2):
        launch_much(high)
        begun_ns = []
        for number in (last - 1, last):
            low.mark(number, begin(low), MARK_GRANT)
            low.ring()
            begun_ns.append(now())
        if (
            begun_ns[1] - begun_ns[0] < LENGTH // 4
        ):  # on a slow machine the second is granted when the first counts as over
            break
        for client in (low, high):
            client.drained()
            client.ring()
            assert eventually(lambda: client.read)  # noqa: B023
    else:
        pytest.fail(f"the second was granted late in each of {attempts} attempts")
    before_ns = stood_ns(high)
    time.sleep(5 * short / 1e9)
    low.page.marks[last - 1 : last + 1] = [last - 1, last]
    assert eventually(lambda: stood_ns(high) > before_ns)
    assert stood_ns(high) - before_ns == pytest.approx(2 * short, rel=WIDTH)


def test_what_a_mark_says_is_left_stands_until_lower_work_is_over(running: Dispatcher, high: FakeClient) -> None:
    low = FakeClient(running, 2, 8)
    low.describe(1, "filler")
    running.set_profile(2, [profile_entry("filler", 5 * LENGTH, 0)])
    high.launch(1)
    high.mark(1, 1)
    high.launch(1)
    time.sleep(0.5 * LENGTH / 1e9)
    high.reach(1)
    request = begin(low)
    time.sleep(5 * LENGTH / 1e9)  # the device serves it before the rest of the other's
    end(low, request)
    assert eventually(lambda: stood_ns(high) > 0)
    assert stood_ns(high) == pytest.approx(5 * LENGTH, rel=WIDTH)


@pytest.mark.parametrize("running", [LONG_RUNS], indirect=True)
def test_kernels_of_a_run_delay_only_what_was_launched_before_they_were_over(high: FakeClient, low: FakeClient) -> None:
    time.sleep(10.5 * LENGTH / 1e9)  # for so long the high one has worked, and may be delayed
    high.launch(1, t_ns=now() - 10 * LENGTH)
    high.drained()
    high.ring()
    assert eventually(lambda: high.read)
    for _ in range(3):  # what follows what; nobody is asked
        for slot in RUN:
            low.launch(slot, EXPIRED)
        low.drained()
    low.ring()
    assert eventually(lambda: low.read)
    time.sleep(0.01)  # the high one has been silent for so long that it is not expected within a run
    request = begin(low)
    assert low.page.run_until == low.page.launch_seq + len(RUN) - 1
    begun_ns = now()
    time.sleep(5 * LENGTH / 1e9)
    for half in (1, 4):  # while the first runs, and while the second does
        high.launch(1, t_ns=begun_ns + half * LENGTH // 2)
    high.ring()
    assert eventually(lambda: high.read)
    for slot, half in zip(RUN[1:], (3, 7), strict=True):
        low.launch(slot, GRANTED, request, t_ns=begun_ns + half * LENGTH // 2)
    low.put(DONE, 1, request, t_ns=begun_ns + 5 * LENGTH)
    low.ring()
    assert eventually(lambda: stood_ns(high) > 0)
    assert stood_ns(high) == pytest.approx(1.5 * LENGTH, rel=WIDTH)
