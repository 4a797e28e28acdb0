"""The policy `budget` in manual time: below a job whose forecasts were no good more is feared, and late work is waited for."""

from __future__ import annotations

import pytest
from decisions import grants
from fikitd._core import Policy

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW, OTHER, NEXT = 1, 2, 3, 4
KERNEL = 100 * US


def policy() -> Policy:
    made = Policy("budget", lease_ns=100 * MS)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    return made


def one_kernel(made: Policy, now: int, client: int, request: int, took: int) -> int:
    """It is expected to cost the high job nothing; when it was complete."""
    assert grants(made.event("waiting", client, now, request=request, duration_ns=KERNEL)) == [client]
    made.event("launched", client, now, granted=True, request=request, duration_ns=KERNEL)
    made.event("grant_done", client, now + took, request=request)
    return now + took


def after_one_that_took(took: int) -> tuple[Policy, int]:
    """The high job has waited for a low kernel that took so long, and goes on, with a second of slack."""
    made = policy()
    now = MS
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[S])
    now = one_kernel(made, now + 20 * US, LOW, 1, took)
    made.event("drained", HIGH, now, began_ns=MS + 10 * US, duration_ns=0, span_ns=10 * US, slack_ns=[1], idle_ns=[MS])
    return made, now + MS


def stands_behind_a_late_one(made: Policy, now: int, client: int) -> bool:
    """A kernel is granted and not reported complete: does the next one wait for that, long after its reckoned end?"""
    assert grants(made.event("waiting", client, now, request=7, duration_ns=KERNEL)) == [client]
    made.event("launched", client, now, granted=True, request=7, duration_ns=KERNEL)
    went = grants(made.event("waiting", client, now + MS, request=8, duration_ns=KERNEL))
    went += grants(made.event("tick", 0, now + 5 * MS))
    # It is the first one that holds the second: nothing else would have kept that from going.
    assert went or grants(made.event("grant_done", client, now + 5 * MS, request=7)) == [client]
    return went == []


TOOK = pytest.mark.parametrize(("took", "doubtful"), [(KERNEL, False), (30 * MS, True)])


@TOOK
def test_work_that_is_late_holds_what_follows_only_where_forecasts_were_no_good(took: int, *, doubtful: bool) -> None:
    made, now = after_one_that_took(took)
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[S])
    assert stands_behind_a_late_one(made, now + 20 * US, LOW) is doubtful


def test_who_comes_later_waits_for_late_work_too() -> None:
    made, now = after_one_that_took(30 * MS)
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[S])
    made.event("client_removed", LOW, now)
    made.event("client_added", OTHER, now, priority=8)
    now = one_kernel(made, now + 20 * US, OTHER, 1, KERNEL)
    assert stands_behind_a_late_one(made, now, OTHER)


def test_when_that_job_is_gone_nobody_waits_for_late_work() -> None:
    made, now = after_one_that_took(30 * MS)
    made.event("client_added", NEXT, now, priority=1)
    made.event("client_removed", HIGH, now)
    made.event("launched", NEXT, now, duration_ns=10 * US, slack_ns=[S])
    assert not stands_behind_a_late_one(made, now + 20 * US, LOW)


@TOOK
@pytest.mark.parametrize(("length", "late"), [(200 * US, False), (500 * US, True)])
def test_three_times_the_length_must_fit_the_slack_where_forecasts_were_no_good(
    took: int, length: int, *, doubtful: bool, late: bool
) -> None:
    made, now = after_one_that_took(took)
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[MS])
    went = grants(made.event("waiting", LOW, now + 20 * US, request=2, duration_ns=length))
    assert went == ([] if doubtful and late else [LOW])
