"""The policy `budget` in manual time: a kernel is granted behind lower work only where nobody is expected back before it begins."""

from __future__ import annotations

import bisect
from typing import Any

import pytest
from decisions import grants, wake
from fikitd._core import Policy
from fikitd.simulator import TUNING

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW = 1, 2
KERNEL = 400 * US
SOON = [200 * US, *(n * MS for n in range(1, 8))]
"""The high job is back after any of these times."""
LATER = [n * S for n in range(1, 9)]


def at_rest(idle: list[int], *, worked: int = 0, slack: int = 1, **options: Any) -> tuple[Policy, int]:
    """The high job has worked alone for so long, and waits for its next request; what time it is."""
    made = Policy("budget", run_ahead_ns=500 * US, **options)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    now = 0
    while now <= worked:
        made.event("launched", HIGH, now, duration_ns=9 * MS, slack_ns=[1])
        now += 9 * MS
        made.event("drained", HIGH, now, began_ns=now, duration_ns=0, span_ns=9 * MS, slack_ns=[slack], idle_ns=idle)
        now += MS
    return made, now - MS


def second(made: Policy, now: int, length: int = KERNEL, **event: Any) -> list[tuple[Any, ...]]:
    """The first kernel is granted and launched; what is said when the next one is asked for."""
    assert grants(made.event("waiting", LOW, now, request=1, duration_ns=KERNEL)) == [LOW]
    made.event("launched", LOW, now, granted=True, request=1, duration_ns=KERNEL)
    return made.event("waiting", LOW, now, request=2, duration_ns=length, **event)


def test_before_its_first_launch_the_slack_of_any_segment_counts() -> None:
    made = Policy("budget", run_ahead_ns=500 * US)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    assert grants(made.event("waiting", LOW, 0, request=1, duration_ns=5 * MS)) == []
    assert grants(made.event("profiled", HIGH, 0, slack_ns=[6 * MS])) == [LOW]


def test_what_came_before_its_profile_says_more() -> None:
    made = Policy("budget", run_ahead_ns=500 * US)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    made.event("launched", HIGH, 0, duration_ns=US, slack_ns=[1])
    made.event("profiled", HIGH, 0, slack_ns=[6 * MS])
    assert grants(made.event("waiting", LOW, 0, request=1, duration_ns=5 * MS)) == []


def test_while_the_high_job_may_be_back_any_moment_the_next_kernel_waits_until_the_device_is_nearly_free() -> None:
    made, now = at_rest(SOON)
    held = second(made, now)
    assert grants(held) == []
    assert made.held(LOW) == ("run_ahead", LOW)
    end = now + KERNEL
    nearly = end - int(TUNING["near_ns"])
    while (due := wake(held)) is not None and due < nearly:
        held = made.event("tick", 0, due)
        assert grants(held) == []
    assert due == nearly
    assert grants(made.event("tick", 0, due)) == [LOW]


@pytest.mark.parametrize(("idle", "worked"), [(LATER, 0), (SOON, 2 * S)])
def test_it_goes_at_once_where_the_high_job_will_not_be_back_or_has_more_budget_than_it_needs(
    idle: list[int], worked: int
) -> None:
    made, now = at_rest(idle, worked=worked)
    assert grants(second(made, now)) == [LOW]


def test_a_short_kernel_goes_at_once_though_the_high_job_may_be_back_for_it_would_cost_little() -> None:
    made, now = at_rest(SOON)
    assert grants(second(made, now, 1 * US)) == [LOW]


def test_who_is_back_before_the_kernel_begins_feels_what_lasts_longer_than_its_slack() -> None:
    """Back in the middle of the first 0.4 ms it has 0.8 ms left of its slack when the second kernel begins."""
    made, now = at_rest(SOON, slack=1 * MS)
    assert grants(second(made, now, 700 * US)) == [LOW]
    made, now = at_rest(SOON, slack=1 * MS)
    assert grants(second(made, now, 1200 * US)) == []
    assert made.held(LOW) == ("run_ahead", LOW)


@pytest.mark.parametrize("slack", [1, 1 * MS])
def test_in_a_crowd_the_same_lengths_may_stand_in_line_as_alone(slack: int) -> None:
    def goes(length: int, others: int) -> bool:
        made, now = at_rest(SOON, slack=slack)
        for low in (*range(10, 10 + others), 30):  # of equals the first is asked alone
            made.event("client_added", low, now, priority=8)
        assert grants(second(made, now, 3 * MS)) == []
        for low in range(10, 10 + others):
            assert grants(made.event("waiting", low, now, request=1, duration_ns=2 * MS)) == []
        return bool(grants(made.event("waiting", 30, now, request=1, duration_ns=length)))

    longest = bisect.bisect(range(2 * MS), False, key=lambda length: not goes(length, 0)) - 1
    assert goes(longest, 9)
    assert not goes(longest + 1, 9)


def test_a_run_that_is_too_long_to_stand_in_line_waits_as_a_whole() -> None:
    """Its first kernel alone is short enough; but then each of the run would ask alone."""
    made, now = at_rest(SOON, slack=1 * MS)
    run = {"run_launches": 16, "run_ns": 1200 * US}
    assert grants(second(made, now, 75 * US, **run)) == []


def test_while_the_high_job_is_at_work_nothing_is_learnt_by_waiting() -> None:
    made, now = at_rest(SOON)
    made.event("launched", HIGH, now, duration_ns=2 * MS, slack_ns=[10 * MS])
    assert grants(second(made, now)) == [LOW]


def test_without_a_budget_nothing_that_may_cost_anything_is_in_line() -> None:
    made, now = at_rest([30 * MS] * 8, max_slowdown=0.0)
    assert grants(second(made, now)) == [LOW]
    made, now = at_rest([*[1 * MS] * 4, *[30 * MS] * 4], max_slowdown=0.0)
    assert grants(second(made, now)) == [LOW]
    made.event("launched", LOW, now, granted=True, request=2, duration_ns=KERNEL)
    assert grants(made.event("waiting", LOW, now, request=3, duration_ns=KERNEL)) == []


def test_a_run_does_not_go_on_while_the_high_job_may_be_back() -> None:
    went_on = {}
    for name, idle in (("soon", SOON), ("later", LATER)):
        made, now = at_rest(idle)
        run = {"duration_ns": 25 * US, "run_launches": 16, "run_ns": 400 * US}
        assert grants(made.event("waiting", LOW, now, request=1, **run)) == [LOW]
        decisions: list[tuple[Any, ...]] = []
        for _ in range(10):
            decisions += made.event("launched", LOW, now, granted=True, request=1, **run)
        went_on[name] = any(decision[0] == "extend_run" for decision in decisions)
    assert went_on == {"soon": False, "later": True}


def test_what_one_decision_grants_may_fill_half_of_the_queue_and_then_keeps_others_out() -> None:
    """What is granted stands between the launches of the high job's that are on the device already: they stay for longer."""
    launch, launches, slack = 10 * US, 1024, [S] * 8
    made = Policy("budget", run_ahead_ns=500 * US)
    for client, priority in ((HIGH, 1), (LOW, 8), (LOW + 1, 8)):
        made.event("client_added", client, 0, priority=priority)
    for _ in range(launches):
        made.event("launched", HIGH, 0, duration_ns=launch, slack_ns=slack)
    for client in (LOW, LOW + 1):
        assert grants(made.event("waiting", client, 0, request=1, duration_ns=100 * US)) == []
    left = launches * launch // 2 - 220 * US  # a little less than half of the queue
    now = launches * launch - left
    assert grants(made.event("drained", HIGH, now, duration_ns=left)) == [LOW]
    assert made.held(LOW + 1) == ("behind", HIGH)


def test_segments_that_fit_into_the_queue_do_not_fill_it() -> None:
    for launches, then in ((600, [LOW]), (1100, [])):
        made = Policy("budget", run_ahead_ns=500 * US)
        made.event("client_added", HIGH, 0, priority=1)
        made.event("client_added", LOW, 0, priority=8)
        answers = []
        for begin in (1 * S, 2 * S):
            for _ in range(launches):
                made.event("launched", HIGH, begin, duration_ns=10 * US, slack_ns=[S] * 8)
            answers.append(grants(made.event("waiting", LOW, begin, request=1, duration_ns=100 * US)))
            made.event("waiting_ended", LOW, begin, request=1)
            made.event("drained", HIGH, begin + launches * 10 * US, duration_ns=0, slack_ns=[S] * 8, idle_ns=[S] * 8)
        assert answers == [[], then]
        for _ in range(launches + 1):  # longer than any before: who knows how long it becomes
            made.event("launched", HIGH, 3 * S, duration_ns=10 * US, slack_ns=[S] * 8)
        assert grants(made.event("waiting", LOW, 3 * S, request=2, duration_ns=100 * US)) == []
