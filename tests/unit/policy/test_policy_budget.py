"""The policy `budget` in manual time: slack is free, delays are paid from what was earned, and nobody starves."""

from __future__ import annotations

import math
from typing import Any

import pytest
from decisions import grants, wake
from fikitd._core import Policy, mean_before
from fikitd.simulation.simulator import TUNING
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW, LOWER = 1, 2, 3
IDLE = [200 * US] * 4 + [50 * MS] * 4  # every other request comes at once


FULL = {"saved_ns": TUNING["advance_ns"] / TUNING["reserve"]}
"""What a client begins with is all that it can save: nothing of it need be kept, and what is not known yet is no reason to wait."""


def policy(*, mps: tuple[int, ...] = (), **options: Any) -> Policy:
    """A high client with a full budget and a low one, from time 0, on a device that changes between them for nothing. mps: MPS clients."""
    made = Policy("budget", **{"tuning": FULL} | options)
    for client, priority in ((HIGH, 1), (LOW, 8)):
        made.event("client_added", client, 0, priority=priority, overlaps=client in mps)
    return made


def test_without_anybody_above_gates_are_open() -> None:
    assert Policy("budget").event("client_added", LOW, 0, priority=8) == []


def test_a_kernel_within_the_slack_runs_while_the_high_job_is_at_work() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=100 * US, slack_ns=[2 * MS])
    assert grants(made.event("waiting", LOW, 1 * MS, request=1, duration_ns=1 * MS)) == [LOW]


def test_a_kernel_beyond_the_slack_waits_for_budget() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=100 * US, slack_ns=[2 * MS])
    assert grants(made.event("waiting", LOW, 1 * MS, request=1, duration_ns=4 * MS)) == []


def test_a_long_kernel_is_asked_about_as_long_as_it_well_may_be_and_a_short_one_as_it_mostly_is() -> None:
    asked = {
        (duration_us, high_us): policy(run_ahead_ns=500 * US)
        for duration_us, high_us in ((1000, 1500), (1000, 4000), (400, 4000))
    }
    went = {}
    for (duration_us, high_us), made in asked.items():
        made.event("launched", HIGH, 1 * MS, duration_ns=100 * US, slack_ns=[2 * MS])
        lengths = {"duration_ns": duration_us * US, "high_ns": high_us * US}
        went[duration_us, high_us] = grants(made.event("waiting", LOW, 1 * MS, request=1, **lengths))
    assert went == {(1000, 1500): [LOW], (1000, 4000): [], (400, 4000): [LOW]}


def test_equals_share_by_what_they_took_and_not_by_what_they_might_have() -> None:
    made = policy(run_ahead_ns=20 * US, max_slowdown=1.0)  # one at a time
    made.event("client_added", LOWER, 0, priority=8)
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[10 * S])  # nothing costs it anything
    lengths = {LOW: {"duration_ns": 1 * MS, "high_ns": 4 * MS}, LOWER: {"duration_ns": 1 * MS}}
    took = {LOW: 0, LOWER: 0}
    now = 1 * MS
    ready: list[int] = []
    for client in (LOW, LOWER):
        ready += grants(made.event("waiting", client, now, request=1, **lengths[client]))
    while sum(took.values()) < 40:
        client = ready.pop(0)
        took[client] += 1
        made.event("launched", client, now, granted=True, request=took[client], duration_ns=1 * MS)
        ready += grants(made.event("waiting", client, now, request=took[client] + 1, **lengths[client]))
        now += 1 * MS
        ready += grants(made.event("grant_done", client, now, request=took[client]))
    assert abs(took[LOW] - took[LOWER]) <= 2


def test_slack_shrinks_by_what_was_granted() -> None:
    made = policy(run_ahead_ns=10 * MS)
    made.event("launched", HIGH, 1 * MS, duration_ns=100 * US, slack_ns=[2 * MS])
    assert grants(made.event("waiting", LOW, 1 * MS, request=1, duration_ns=1500 * US)) == [LOW]
    made.event("launched", LOW, 1 * MS, granted=True, request=1, duration_ns=1500 * US)
    assert grants(made.event("waiting", LOW, 1 * MS, request=2, duration_ns=1500 * US)) == []


def test_lower_work_in_flight_is_bounded_where_it_would_cost_something_if_it_were_late() -> None:
    made = policy(run_ahead_ns=1 * MS)
    made.event("launched", HIGH, 1 * MS, duration_ns=0, slack_ns=[2 * MS])
    granted = 0
    for request in range(1, 10):
        now = 1 * MS + request
        if grants(made.event("waiting", LOW, now, request=request, duration_ns=400 * US)):
            granted += 1
            made.event("launched", LOW, now, granted=True, request=request, duration_ns=400 * US)
    assert granted == 3


def alone(made: Policy, until_ns: int, step_ns: int = 10 * MS) -> int:
    """The high job works alone in segments without slack, and earns; the time at which the last one ended."""
    now = step_ns
    while now < until_ns:
        made.event("launched", HIGH, now, duration_ns=step_ns - MS, slack_ns=[1])
        now += step_ns - MS
        made.event("drained", HIGH, now, duration_ns=0, span_ns=step_ns - MS, slack_ns=[1], idle_ns=[MS])
        now += MS
    return now


def test_a_delay_is_paid_from_what_the_high_job_has_earned() -> None:
    for earns_ns, expected in ((20 * MS, []), (800 * MS, [LOW])):
        made = policy(tuning={})
        now = alone(made, earns_ns)
        made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[1])
        assert grants(made.event("waiting", LOW, now + 20 * US, request=1, duration_ns=1 * MS)) == expected


def test_what_came_unforeseen_keeps_lower_work_from_where_it_came() -> None:
    """Requests were expected in 50 ms and come in 1 ms, while a kernel of 10 ms runs: nothing was expected to be spent."""
    made = policy(tuning={})
    now = alone(made, 800 * MS)
    went = []
    for request in range(1, 5):
        made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[1])
        made.event("drained", HIGH, now + MS, duration_ns=0, span_ns=MS, slack_ns=[1], idle_ns=[50 * MS])
        now += MS
        went += grants(made.event("waiting", LOW, now, request=request, duration_ns=10 * MS))
        if not went[request - 1 :]:
            break
        made.event("launched", LOW, now, granted=True, request=request, duration_ns=10 * MS)
        made.event("launched", HIGH, now + MS, duration_ns=10 * US, slack_ns=[1])
        now += 10 * MS
        made.event("grant_done", LOW, now, request=request)
        made.event("drained", HIGH, now, duration_ns=0, span_ns=MS, slack_ns=[1], idle_ns=[50 * MS])
    assert 1 <= len(went) <= 3
    assert made.held(LOW)[1] == HIGH


def test_a_client_begins_with_what_a_fifth_of_a_second_earns_and_no_more() -> None:
    """Each kernel of 10 ms is certain to delay by 1 ms, and does."""
    made = policy()
    now, granted = 0, 0
    for request in range(1, 40):
        made.event("launched", HIGH, now, duration_ns=1 * US, slack_ns=[9 * MS - 20 * US])
        if not grants(made.event("waiting", LOW, now + 2 * US, request=request, duration_ns=10 * MS)):
            break
        granted += 1
        made.event("launched", LOW, now + 2 * US, granted=True, request=request, duration_ns=10 * MS)
        made.event("grant_done", LOW, now + 10 * MS, request=request)
        now += 10 * MS
        made.event("drained", HIGH, now, began_ns=now - 1 * MS, duration_ns=0, slack_ns=[1], idle_ns=[1])
    earned = 0.05 / TUNING["reserve"] * (TUNING["advance_ns"] + now)
    assert 2 <= granted <= earned / MS + 1


def test_cheap_delays_end_with_the_budget() -> None:
    made = policy(max_slowdown=0.002)
    now = alone(made, 20 * MS)  # with what it began with, less than 0.5 ms
    granted = 0
    for request in range(1, 20):  # each is expected to delay by a little more than 1 % of its length, and does
        made.event("launched", HIGH, now, duration_ns=0, slack_ns=[9900 * US])
        if not grants(made.event("waiting", LOW, now + 1, request=request, duration_ns=10 * MS)):
            break
        granted += 1
        made.event("launched", LOW, now + 1, granted=True, request=request, duration_ns=10 * MS)
        now += 10 * MS
        made.event("grant_done", LOW, now, request=request)
        made.event("drained", HIGH, now, began_ns=now - 110 * US, duration_ns=0, slack_ns=[9900 * US], idle_ns=[1])
    assert 1 < granted < 10


def harvested(made: Policy, now: int, length: int, until_ns: int) -> float:
    """The share of the time from now on that lower work gets, which always wants more, while the high job does nothing."""
    begin, request, had = now, 1000, 0
    decided = made.event("waiting", LOW, now, request=request, duration_ns=length)
    while now < until_ns:
        if grants(decided):
            made.event("launched", LOW, now, granted=True, request=request, duration_ns=length)
            now, had = now + length, had + length
            made.event("grant_done", LOW, now, request=request)
            request += 1
            decided = made.event("waiting", LOW, now, request=request, duration_ns=length)
        else:
            at = wake(decided)
            assert at is not None
            now = at
            decided = made.event("tick", 0, now)
    return had / (now - begin)


@pytest.mark.parametrize("length", [1 * MS, 10 * MS, 30 * MS])
@pytest.mark.parametrize("idle_ns", [[1 * MS] * 8, IDLE], ids=["closed", "from outside"])
@pytest.mark.parametrize("surprises", [0, 5, 50])
def test_who_stays_away_for_a_minute_keeps_lower_work_from_the_device_for_no_more_than_some_seconds(
    surprises: int, idle_ns: list[int], length: int
) -> None:
    """A notebook whose user thinks. Whatever lower work has cost before: a minute is worth more than the delay at its end."""
    made = Policy("budget")
    for client, priority in ((HIGH, 1), (LOW, 8)):
        made.event("client_added", client, 0, priority=priority)
    now = alone(made, 2 * S)
    for request in range(1, 1 + surprises):
        went = grants(made.event("waiting", LOW, now, request=request, duration_ns=200 * US))
        made.event(
            "launched" if went else "waiting_ended", LOW, now, request=request, granted=bool(went), duration_ns=200 * US
        )
        made.event("launched", HIGH, now, duration_ns=1 * MS, slack_ns=[1])
        if went:
            made.event("grant_done", LOW, now + 2 * MS, request=request)  # ten times as long
        now += 3 * MS
        made.event(
            "drained", HIGH, now, began_ns=now - 2 * MS, duration_ns=0, span_ns=1 * MS, slack_ns=[1], idle_ns=idle_ns,
            open=idle_ns == IDLE,
        )  # fmt: skip
        now += 1 * MS
    assert harvested(made, now, length, now + 60 * S) > 0.9


@pytest.mark.parametrize(("away_s", "goes"), [(2, False), (12, True)])
def test_a_client_that_has_not_launched_yet_holds_long_kernels_for_some_seconds(away_s: int, *, goes: bool) -> None:
    """It begins with 8.3 ms; so soon it may be about to launch. The kernel takes 30 ms."""
    made = policy(tuning={})
    now = away_s * S
    assert grants(made.event("waiting", LOW, now, request=1, duration_ns=30 * MS)) == ([LOW] if goes else [])


@pytest.mark.parametrize(("away_s", "goes"), [(2, False), (30, True)])
def test_whose_requests_come_from_outside_is_waited_for_as_long_as_he_was_at_work_lately(
    away_s: int, *, goes: bool
) -> None:
    """At work for 3.2 s, half of the time: the full budget covers 6 ms, while two requests would feel a delay. Of such a client a pause of
    2 s says nothing yet; after 30 s nobody is there who would feel one."""
    made = policy(max_slowdown=0.01, tuning={})
    now = outside(made, 0.5) + away_s * S
    assert grants(made.event("waiting", LOW, now, request=1, duration_ns=7 * MS)) == ([LOW] if goes else [])


def test_a_delay_after_a_long_absence_is_paid_by_what_was_earned_meanwhile() -> None:
    """The kernel of a second that ran when its host came back is 1/60 of the minute in which it did not. Afterwards as before."""
    made = policy(tuning={})
    now = alone(made, 2 * S) + 60 * S
    assert grants(made.event("waiting", LOW, now, request=1, duration_ns=1 * S)) == [LOW]
    made.event("launched", LOW, now, granted=True, request=1, duration_ns=1 * S)
    made.event("launched", HIGH, now, duration_ns=1 * MS, slack_ns=[1])
    made.event("grant_done", LOW, now + 1 * S, request=1)
    now += 1 * S + 1 * MS
    made.event("drained", HIGH, now, began_ns=now - S, duration_ns=0, span_ns=1 * MS, slack_ns=[1], idle_ns=[1 * MS])
    assert bought(made, now + MS, 1 * MS)


def test_what_a_lower_kernel_needs_in_line_is_of_its_length() -> None:
    made = policy()
    made.event("launched", HIGH, 1 * MS, duration_ns=100 * US, slack_ns=[2 * MS])
    assert grants(made.event("waiting", LOW, 1 * MS, request=1, duration_ns=1950 * US, in_line_ns=100 * US)) == []
    assert grants(made.event("waiting", LOW, 1 * MS, request=2, duration_ns=1950 * US)) == [LOW]


def test_between_requests_a_kernel_costs_what_it_is_expected_to_delay_the_next_one() -> None:
    short, long = policy(), policy()
    for made in (short, long):
        made.event("launched", HIGH, 1 * MS, duration_ns=10 * US)
        made.event("drained", HIGH, 2 * MS, duration_ns=0, slack_ns=[3 * MS], idle_ns=[50 * MS], span_ns=MS)
    assert grants(short.event("waiting", LOW, 2 * MS, request=1, duration_ns=10 * MS)) == [LOW]
    assert grants(long.event("waiting", LOW, 2 * MS, request=1, duration_ns=80 * MS)) == []


def test_max_delay_holds_back_what_the_budget_would_allow() -> None:
    bounded, free = policy(max_delay_ns=200 * US), policy()
    for made, expected in ((bounded, []), (free, [LOW])):
        now = alone(made, 800 * MS)
        made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[1])
        assert grants(made.event("waiting", LOW, now + 20 * US, request=1, duration_ns=1 * MS)) == expected


@pytest.mark.parametrize(("length", "goes"), [(90 * US, True), (100 * US, False)])
def test_max_delay_counts_what_the_high_job_is_late_already(length: int, *, goes: bool) -> None:
    """Its work is done, and its host is about to go on: the first kernel makes it 105 us late, with the time that a grant takes."""
    made = policy(max_slowdown=1.0, max_delay_ns=200 * US)
    made.event("launched", HIGH, 1 * MS, duration_ns=10 * US, slack_ns=[1])
    now = 1020 * US
    assert grants(made.event("waiting", LOW, now, request=1, duration_ns=80 * US)) == [LOW]
    made.event("launched", LOW, now, granted=True, request=1, duration_ns=80 * US)
    assert grants(made.event("waiting", LOW, now, request=2, duration_ns=length)) == ([LOW] if goes else [])


def test_the_policy_wants_to_be_asked_again_while_somebody_waits() -> None:
    made = policy(starvation_timeout_ns=500 * MS, max_slowdown=0.0)
    made.event("launched", HIGH, 0, duration_ns=10 * S, slack_ns=[1])
    decisions, now = made.event("waiting", LOW, 0, request=1, duration_ns=1 * S), 0
    while not grants(decisions):
        at = wake(decisions)
        assert at is not None
        assert now < at
        now = at
        assert now <= 540 * MS
        decisions = made.event("tick", 0, now)


def test_a_higher_level_goes_first_and_a_lower_one_only_where_it_cannot() -> None:
    made = policy(run_ahead_ns=0)
    made.event("client_added", LOWER, 0, priority=9)
    made.event("launched", HIGH, 0, duration_ns=100 * US)
    made.event("waiting", LOWER, 10, request=1, duration_ns=500 * US)
    made.event("waiting", LOW, 10, request=1, duration_ns=500 * US)
    first = made.event("drained", HIGH, 100 * US, duration_ns=0, slack_ns=[1 * MS], idle_ns=[1 * MS], span_ns=MS)
    assert grants(first) == [LOW]


def bought(made: Policy, now: int, length: int = 1 * MS) -> bool:
    """Would the high job's budget pay a kernel of this length, which delays it by all of that?"""
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[1])
    return grants(made.event("waiting", LOW, now + 20 * US, request=99, duration_ns=length)) == [LOW]


@pytest.mark.parametrize(("late", "pays"), [(0, True), (19 * MS, False)])
def test_a_host_that_comes_late_was_not_delayed(late: int, *, pays: bool) -> None:
    """A wait ends 20 ms after the work would have, alone; the host began to wait `late` after that moment, or at once."""
    made = policy(tuning={})
    now = alone(made, 800 * MS)
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[1 * S])
    assert grants(made.event("waiting", LOW, now + 1, request=1, duration_ns=20 * MS)) == [LOW]
    made.event("launched", LOW, now + 1, granted=True, request=1, duration_ns=20 * MS)
    made.event("grant_done", LOW, now + 20 * MS, request=1)
    end = now + 20 * MS + 10 * US
    made.event("drained", HIGH, end, began_ns=now + 10 * US + late, duration_ns=0, slack_ns=[1], idle_ns=[1 * MS])
    assert bought(made, end + MS, 12 * MS) is not pays


def test_requests_that_wait_behind_a_delayed_one_are_late_by_as_much() -> None:
    """The same delay, and then requests that follow at once, or each after a pause."""
    paid = {}
    idle = [0, 0, 0, 0, 50 * MS, 50 * MS, 50 * MS, 50 * MS]
    outside: dict[str, Any] = {"duration_ns": 0, "slack_ns": [1], "idle_ns": idle, "open": True}
    for pause in (0, 5 * MS):
        made = policy(tuning={})
        now = 0
        for _ in range(300):  # seldom enough that few would wait behind a delay
            now += 36 * MS
            made.event("launched", HIGH, now, duration_ns=4 * MS, slack_ns=[1])
            now += 4 * MS
            made.event("drained", HIGH, now, began_ns=now, **outside)
        now += MS
        assert grants(made.event("waiting", LOW, now, request=1, duration_ns=4 * MS)) == [LOW]
        made.event("launched", LOW, now, granted=True, request=1, duration_ns=4 * MS)
        made.event("launched", HIGH, now + 1, duration_ns=100 * US, slack_ns=[1])
        made.event("grant_done", LOW, now + 4 * MS, request=1)
        now += 4 * MS + 100 * US
        made.event("drained", HIGH, now, began_ns=now - 4 * MS, **outside)
        for _ in range(14):  # more than may be saved
            now += pause
            made.event("launched", HIGH, now, duration_ns=4 * MS, slack_ns=[1])
            now += 4 * MS
            made.event("drained", HIGH, now, began_ns=now, **outside)
        paid[pause] = grants(made.event("waiting", LOW, now + 1, request=99, duration_ns=20 * MS)) == []
    assert paid == {0: True, 5 * MS: False}


def outside(made: Policy, load: float, idle_ns: list[int] = IDLE) -> int:
    """So far has the high job come, with a full budget, whose requests of 4 ms come at this load; idle_ns is said of what follows."""
    now = 0
    pause = round(4 * MS * (1 / load - 1))
    for _ in range(800):
        now += pause
        made.event("launched", HIGH, now, duration_ns=4 * MS, slack_ns=[1])
        now += 4 * MS
        made.event("drained", HIGH, now, began_ns=now, duration_ns=0, slack_ns=[1], idle_ns=idle_ns, open=True)
    return now


def goes_at_once(load: float) -> bool:
    """Right after a request, a kernel of 30 ms that one in two times meets the next one, below a client with all that it saved."""
    made = policy(tuning={})
    now = outside(made, load)
    return grants(made.event("waiting", LOW, now + 1, request=1, duration_ns=30 * MS)) == [LOW]


def test_a_delay_that_many_requests_would_feel_is_not_bought() -> None:
    """At the higher load 2.5 of them would."""
    assert {load: goes_at_once(load) for load in (0.3, 0.5)} == {0.3: True, 0.5: False}


def buys(switch_ns: int | None, length: int, mps: tuple[int, ...] = ()) -> bool:
    """Below a high job that rests and may be back any moment in 20 ms: does the first kernel of the low one go?"""
    made = policy(switch_ns=switch_ns, mps=mps, max_slowdown=0.01, tuning={})
    made.change_priority(LOW, 7, 0)
    made.event("launched", HIGH, 0, duration_ns=MS)
    made.event(
        "drained", HIGH, MS, duration_ns=0, span_ns=MS, slack_ns=[1], idle_ns=[n * 5 * MS // 2 for n in range(1, 9)]
    )
    return grants(made.event("waiting", LOW, MS, request=1, duration_ns=length)) == [LOW]


def test_a_kernel_pays_both_switches_and_one_that_nobody_has_measured_is_a_dear_one() -> None:
    asked = {"none": 0, "dear": 225 * US, "not measured": None}
    longest = {name: longest_us(switch) for name, switch in asked.items()}
    assert longest["none"] > longest["dear"] == longest["not measured"]


def longest_us(switch_ns: int | None, mps: tuple[int, ...] = ()) -> int:
    return max((us for us in range(0, 2000, 10) if buys(switch_ns, us * US, mps)), default=-1)


def test_two_clients_pay_no_switch_only_if_one_mps_server_has_both() -> None:
    none, dear = longest_us(0), longest_us(100 * US)
    found = {mps: longest_us(100 * US, mps) for mps in ((), (HIGH,), (LOW,), (HIGH, LOW))}
    assert found == {(): dear, (HIGH,): dear, (LOW,): dear, (HIGH, LOW): none}


def test_without_any_slowdown_only_what_is_free_runs() -> None:
    made = policy(max_slowdown=0.0)
    now = alone(made, 100 * MS)
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[5 * MS])
    assert grants(made.event("waiting", LOW, now + 1, request=1, duration_ns=10 * MS)) == []
    made.event("waiting_ended", LOW, now + 2, request=1)
    assert grants(made.event("waiting", LOW, now + 3, request=2, duration_ns=1 * MS)) == [LOW]


def test_a_kernel_of_unknown_length_runs_alone() -> None:
    made = policy()
    made.event("launched", HIGH, 0, duration_ns=0, slack_ns=[1 * S])
    assert grants(made.event("waiting", LOW, 1 * MS, request=1, duration_ns=50 * US)) == [LOW]
    made.event("launched", LOW, 1 * MS, granted=True, request=1, duration_ns=50 * US)
    assert grants(made.event("waiting", LOW, 1 * MS + 1, request=2)) == []
    assert grants(made.event("grant_done", LOW, 2 * MS, request=1)) == [LOW]


TIMES = st.lists(st.integers(0, 100 * MS), min_size=8, max_size=8).map(sorted)


@given(TIMES, st.integers(0, 120 * MS), st.integers(0, 120 * MS))
def test_mean_before_is_a_mean_of_what_is_left(times: list[int], begin: int, length: int) -> None:
    value = mean_before(times, begin, begin + length)
    assert 0 <= value <= length + 1
    assert value <= mean_before(times, begin, begin + length + MS) + 1
    assert mean_before(times, begin, begin) == 0


@given(st.integers(1, 100 * MS), st.integers(0, 200 * MS))
def test_a_certain_time_is_missed_by_exactly_so_much(time: int, until: int) -> None:
    assert mean_before([time], 0, until) == pytest.approx(max(0, until - time), abs=2)


def test_a_long_silence_is_expected_to_last() -> None:
    """As long again as it is late already."""
    soon, late = (mean_before([1 * MS], after, after + 1 * MS) for after in (2 * MS, 2 * S))
    assert soon == pytest.approx(MS / math.e, rel=0.01)
    assert late == pytest.approx(MS / 2 / 2000, rel=0.01)


LENGTHS = st.lists(st.integers(1 * US, 3 * MS), min_size=5, max_size=60)


@settings(max_examples=examples(80))
@given(LENGTHS, st.sampled_from([0.01, 0.05, 0.2]), st.integers(0, 1))
def test_expected_delays_never_exceed_what_was_earned(lengths: list[int], share: float, lie: int) -> None:
    """No slack at all, so every granted kernel is a delay: their sum stays within the share of the progress, and of what a
    client begins with. With a lie, the second half of the time that kernels take is believed to be progress."""
    made = Policy("budget", max_slowdown=share, starvation_timeout_ns=1_000 * S)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    now, progress, delayed = 10 * MS, 0, 0
    for request, length in enumerate(lengths, start=1):
        for _ in range(5):
            made.event("launched", HIGH, now, duration_ns=10 * MS, slack_ns=[1])
            now, progress = now + 10 * MS, progress + 10 * MS
            made.event("drained", HIGH, now, duration_ns=0, span_ns=10 * MS, slack_ns=[1], idle_ns=[1])
        made.event("launched", HIGH, now, duration_ns=1, slack_ns=[1])
        if grants(made.event("waiting", LOW, now + 1, request=request, duration_ns=length)):
            took = length * (1 + lie)  # a kernel that takes twice as long as it was predicted
            made.event("launched", LOW, now + 1, granted=True, request=request, duration_ns=length)
            made.event("grant_done", LOW, now + took, request=request)
            delayed += length
            now += took
        else:
            made.event("waiting_ended", LOW, now + 2, request=request)
        made.event("drained", HIGH, now + 10, duration_ns=0, span_ns=1, slack_ns=[1], idle_ns=[1])
        now += 20
        earning = TUNING["advance_ns"] + progress + lie * delayed + 1 * MS
        assert delayed <= share / TUNING["reserve"] * earning
