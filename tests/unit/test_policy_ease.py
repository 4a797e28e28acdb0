"""The policy `budget` in manual time: where two jobs get on with each other as it is, nothing is refused."""

from __future__ import annotations

from typing import Any

import pytest
from decisions import grants
from fikitd._core import Policy
from fikitd.simulator import TUNING

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW = 1, 2
KERNEL = 500 * US
SEGMENT = 10 * MS
ENOUGH = 3
"""So many segments are long enough to say it."""
LONGEST = int(TUNING["rest_run_ns"])
NO_SURPLUS = {"surplus_from": 3.0}
"""What is earned while the budget is full is lost."""


def policy(**options: Any) -> Policy:
    """A high client and a low one, from time 0."""
    made = Policy("budget", run_ahead_ns=500 * US, **options)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    return made


def beside(made: Policy, now: int, segments: int, *, late: int = 0, refused: int = 0, longest: int = SEGMENT) -> int:
    """So many segments of the high job, each beside a low kernel that costs nothing, but ends so much later than alone, where
    the longest takes so long; in each a request is refused for so long. When the last wait is over."""
    for segment in range(segments):
        request = 10 * segment
        made.event("launched", HIGH, now, duration_ns=9 * MS, slack_ns=[S])
        assert grants(made.event("waiting", LOW, now, request=request + 1, duration_ns=KERNEL)) == [LOW]
        made.event("launched", LOW, now, granted=True, request=request + 1, duration_ns=KERNEL)
        made.event("grant_done", LOW, now + KERNEL, request=request + 1)
        if refused:
            made.event("launched", HIGH, now + MS, duration_ns=0, slack_ns=[1])
            assert grants(made.event("waiting", LOW, now + MS, request=request + 2, duration_ns=5 * MS)) == []
            made.event("tick", 0, now + MS + refused)
            made.event("waiting_ended", LOW, now + MS + refused, request=request + 2)
        end = now + SEGMENT + late
        made.event(
            "drained", HIGH, end, began_ns=end - late, duration_ns=0, span_ns=longest, slack_ns=[1], idle_ns=[MS]
        )
        now = end + MS
    return now


def goes(made: Policy, now: int, length: int = KERNEL) -> bool:
    """Does a low kernel go that delays the high job, as forecasts say, by all that it takes?"""
    made.event("launched", HIGH, now, duration_ns=MS, slack_ns=[1])
    return grants(made.event("waiting", LOW, now, request=99, duration_ns=length)) == [LOW]


def after_one_that_cost() -> tuple[Policy, int]:
    """At ease a kernel went that delayed the high job by all that it took, as was forecast; when that one's wait is over."""
    made = policy()
    now = beside(made, 0, ENOUGH)
    assert goes(made, now)
    made.event("launched", LOW, now, granted=True, request=99, duration_ns=KERNEL)
    made.event("grant_done", LOW, now + KERNEL, request=99)
    now += MS + KERNEL
    made.event("drained", HIGH, now, began_ns=now - KERNEL, duration_ns=0, span_ns=MS, slack_ns=[1], idle_ns=[MS])
    return made, now


def test_what_forecasts_refuse_goes_once_nothing_was_refused_and_nothing_was_late() -> None:
    assert not goes(policy(), 0)
    made = policy()
    assert goes(made, beside(made, 0, ENOUGH))


def test_one_segment_is_not_enough_to_say_so() -> None:
    made = policy()
    assert not goes(made, beside(made, 0, 1))


def test_segments_in_which_nobody_else_was_there_say_nothing() -> None:
    made, now = policy(), 0
    for _ in range(10 * ENOUGH):
        made.event("launched", HIGH, now, duration_ns=9 * MS, slack_ns=[S])
        now += SEGMENT
        made.event("drained", HIGH, now, began_ns=now, duration_ns=0, span_ns=SEGMENT, slack_ns=[1], idle_ns=[MS])
    assert not goes(made, now)


@pytest.mark.parametrize(("lost", "as_it_is"), [(50 * US, True), (200 * US, False)])
@pytest.mark.parametrize("how", ["late", "refused"])
def test_not_where_one_waits_for_the_other_for_more_than_a_hundredth(how: str, lost: int, *, as_it_is: bool) -> None:
    """A fifth of the 5 % that may be lost; whether lower work waits, or delays."""
    made = policy()
    assert goes(made, beside(made, 0, ENOUGH, **{how: lost})) is as_it_is


def test_a_host_that_was_late_because_of_copies_has_waited_too() -> None:
    made = policy()
    now = beside(made, 0, ENOUGH)
    assert not goes(made, now + 500 * US)  # it goes on after 1 ms otherwise


@pytest.mark.parametrize(("longer", "as_it_is"), [(200 * US, True), (500 * US, False)])
def test_a_host_that_is_a_little_slower_than_it_ever_was_has_not_waited(longer: int, *, as_it_is: bool) -> None:
    """By up to a thirty-second: its wait ends as soon as it came."""
    made = policy()
    assert goes(made, beside(made, 0, ENOUGH, longest=SEGMENT - longer)) is as_it_is


def test_how_much_may_be_lost_is_a_share_of_the_jobs_own_budget() -> None:
    made = policy(max_slowdown=0.2)
    assert goes(made, beside(made, 0, ENOUGH, refused=200 * US))


def test_what_it_costs_after_all_ends_it() -> None:
    made, now = after_one_that_cost()
    assert not goes(made, now + MS)


@pytest.mark.parametrize("promise", [{"max_slowdown": 0.0}, {"max_delay_ns": 200 * US}])
def test_not_above_a_job_that_nothing_may_cost_or_only_little_at_a_time(promise: dict[str, Any]) -> None:
    made, now = policy(**promise), 0
    for _ in range(ENOUGH):
        made.event("launched", HIGH, now, duration_ns=9 * MS, slack_ns=[S])
        made.event("waiting", LOW, now, request=1, duration_ns=KERNEL)
        made.event("launched", LOW, now, granted=True, request=1, duration_ns=KERNEL)
        made.event("grant_done", LOW, now + KERNEL, request=1)
        now += SEGMENT
        made.event("drained", HIGH, now, began_ns=now, duration_ns=0, span_ns=SEGMENT, slack_ns=[1], idle_ns=[MS])
    assert not goes(made, now, 150 * US)


@pytest.mark.parametrize(("length", "as_it_is"), [(LONGEST, True), (LONGEST + 1, False)])
def test_a_kernel_that_is_longer_than_any_run_is_asked_about(length: int, *, as_it_is: bool) -> None:
    made = policy()
    assert goes(made, beside(made, 0, ENOUGH), length) is as_it_is


def test_all_that_goes_may_stand_in_line_as_where_it_costs_nothing() -> None:
    """32 ms together, 64 times what goes in line elsewhere."""
    made = policy()
    now = beside(made, 0, 10 * ENOUGH)
    made.event("launched", HIGH, now, duration_ns=MS, slack_ns=[1])
    ahead = 0
    while grants(made.event("waiting", LOW, now, request=100 + ahead, duration_ns=MS)):
        made.event("launched", LOW, now, granted=True, request=100 + ahead, duration_ns=MS)
        ahead += 1
    assert made.held(LOW) == ("run_ahead", LOW)
    assert ahead in {32, 33}


def test_not_where_the_high_jobs_host_is_about_to_wait_for_room_in_its_queue() -> None:
    made = policy()
    now = beside(made, 0, ENOUGH)
    for launch in range(700):
        made.event("launched", HIGH, now + launch * US, duration_ns=50 * US, slack_ns=[S])
    assert not goes(made, now + 700 * US)


@pytest.mark.parametrize(("segments", "ends"), [(1, True), (ENOUGH, False)])
def test_its_launches_end_no_run(segments: int, *, ends: bool) -> None:
    made = policy()
    now = beside(made, 0, segments)
    made.event("launched", HIGH, now, duration_ns=US, slack_ns=[S])
    run = {"duration_ns": KERNEL // 2, "run_launches": 4, "run_ns": 2 * KERNEL}
    assert ("grant", LOW, 99, 4) in made.event("waiting", LOW, now, request=99, **run)
    made.event("launched", LOW, now, granted=True, request=99, **run)
    said = made.event("launched", HIGH, now + 10 * US, duration_ns=US, slack_ns=[1])
    assert (("end_run", LOW) in said) is ends


def test_long_runs_go_while_it_is_at_work_too() -> None:
    made = policy()
    now = beside(made, 0, ENOUGH)
    made.event("launched", HIGH, now, duration_ns=MS, slack_ns=[1])
    said = made.event(
        "waiting", LOW, now, request=99, duration_ns=KERNEL // 5, long_run_launches=8, long_run_ns=8 * KERNEL // 5
    )
    assert ("grant", LOW, 99, 8) in said


@pytest.mark.parametrize(("segments", "asks_after"), [(1, 2 * MS), (ENOUGH, 8 * MS)])
def test_runs_go_on_for_longer_before_it_asks(segments: int, asks_after: int) -> None:
    """Before H is known well enough they go on as far where it has slack for all of them."""
    made = policy()
    now = beside(made, 0, segments)
    made.event("launched", HIGH, now, duration_ns=US, slack_ns=[S])
    piece = {"duration_ns": 50 * US, "run_launches": 4, "run_ns": 200 * US}
    said = made.event("waiting", LOW, now, request=99, **piece)
    granted, launched = next(decision[3] for decision in said if decision[0] == "grant"), 0
    while launched < granted:
        launched += 1
        now += 50 * US
        said = made.event("launched", LOW, now, granted=True, request=99, **piece)
        granted += sum(decision[2] for decision in said if decision[0] == "extend_run")
    assert abs(launched * 50 * US - asks_after) <= 200 * US


def test_what_was_forecast_is_no_surprise_when_it_comes() -> None:
    """So lower work may still stand in line behind more than 0.5 ms where that costs nothing."""
    made, now = after_one_that_cost()
    made.event("launched", HIGH, now, duration_ns=US, slack_ns=[S])
    for request in range(100, 104):
        assert grants(made.event("waiting", LOW, now, request=request, duration_ns=KERNEL)) == [LOW]
        made.event("launched", LOW, now, granted=True, request=request, duration_ns=KERNEL)


@pytest.mark.parametrize("lows", [7, 9])
def test_of_a_crowd_nobody_is_refused(lows: int) -> None:
    """One by one they are asked where few wait, else together."""
    made = policy()
    now = beside(made, 0, ENOUGH)
    made.event("launched", HIGH, now, duration_ns=MS, slack_ns=[1])
    for low in range(10, 10 + lows):
        made.event("client_added", low, now, priority=9)
        assert grants(made.event("waiting", low, now, request=1, duration_ns=KERNEL + low)) == [low]
    for low in range(10, 10 + lows):
        made.event("waiting", low, now, request=2, duration_ns=2 * LONGEST + low)
    assert {made.held(low) for low in range(10, 10 + lows)} == {("behind", HIGH)}
    for low in reversed(range(10, 10 + lows)):  # who has had least last: that one is asked alone
        assert grants(made.event("waiting", low, now, request=3, duration_ns=KERNEL + low)) == [low]


def holds(made: Policy, now: int, until: int) -> int:
    """Segments of 10 ms beside a low kernel that costs nothing; another is asked for and held for most of each. When the
    last one ended."""
    while now < until:
        made.event("launched", HIGH, now, duration_ns=9 * MS, slack_ns=[S])
        assert grants(made.event("waiting", LOW, now, request=1, duration_ns=US)) == [LOW]
        made.event("launched", LOW, now, granted=True, request=1, duration_ns=US)
        made.event("grant_done", LOW, now + US, request=1)
        made.event("launched", HIGH, now + MS, duration_ns=0, slack_ns=[1])
        assert grants(made.event("waiting", LOW, now + MS, request=2, duration_ns=S)) == []
        now += SEGMENT
        made.event("waiting_ended", LOW, now, request=2)
        made.event("drained", HIGH, now, began_ns=now, duration_ns=0, span_ns=SEGMENT, slack_ns=[1], idle_ns=[MS])
    return now


@pytest.mark.parametrize(("max_slowdown", "bought"), [(0.05, False), (0.2, True)])
def test_what_is_allowed_beyond_5_percent_is_spent_at_work_where_lower_work_is_held_most_of_the_time(
    max_slowdown: float, *, bought: bool
) -> None:
    made = policy(max_slowdown=max_slowdown, ageing_ns=100 * S, tuning=NO_SURPLUS)
    assert goes(made, holds(made, 0, S)) is bought


def test_it_is_kept_for_time_between_requests_where_they_come_from_outside() -> None:
    """However seldom they come, and however full the budget is: a delay meets hardly more than one of them."""
    made = policy(max_slowdown=0.2, ageing_ns=100 * S, tuning=NO_SURPLUS)
    now = holds(made, 0, S)
    for length in (US, S, S):  # in the first one something may be left of lower work
        made.event("launched", HIGH, now, duration_ns=length, slack_ns=[1])
        now += length
        made.event("drained", HIGH, now, began_ns=now, duration_ns=0, span_ns=S, slack_ns=[1], idle_ns=[S], open=True)
        now += 10 * S
    assert not goes(made, now)


def test_it_is_kept_where_lower_work_is_seldom_held() -> None:
    made = policy(max_slowdown=0.2, ageing_ns=100 * S, tuning=NO_SURPLUS)
    now = 0
    while now < S:
        now = beside(made, now, 1, refused=MS)
    assert not goes(made, now)
