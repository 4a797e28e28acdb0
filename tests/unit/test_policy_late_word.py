"""The policy `budget` in manual time: that a wait is over is known a moment later. Until then silence says nothing."""

from __future__ import annotations

import pytest
from decisions import grants
from fikitd._core import Policy

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW = 1, 2
# A segment of the high job: two kernels, when the second one is launched, and for how long its host goes on before it waits.
WORK, SECOND, SLACK = 10 * US, 40 * US, 60 * US
SEGMENT = SECOND + WORK + SLACK
LONG, KERNEL, SHORT = 7 * MS, 400 * US, 20 * US


def launch(made: Policy, at: int, slack: int) -> None:
    made.event("launched", HIGH, at, duration_ns=WORK, slack_ns=[slack])


def wait(made: Policy, began: int, end: int) -> None:
    made.event(
        "drained", HIGH, end, began_ns=began, duration_ns=0, span_ns=SEGMENT, slack_ns=[SLACK], idle_ns=[100 * MS]
    )


def grant(made: Policy, now: int, request: int, length: int) -> None:
    assert grants(made.event("waiting", LOW, now, request=request, duration_ns=length)) == [LOW]
    made.event("launched", LOW, now, granted=True, request=request, duration_ns=length)


def with_full_budget() -> tuple[Policy, int]:
    # It may be full, and nothing comes of it.
    made = Policy("budget", run_ahead_ns=500 * US, tuning={"surplus_from": 3.0})
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    made.event("launched", HIGH, 0, duration_ns=2 * S, slack_ns=[SLACK])
    wait(made, 0, 2 * S)
    now = 2 * S + 100 * MS
    return made, now


def behind_a_long_kernel() -> tuple[Policy, int, int]:
    """One was bought while the high job's host was about to wait, and its own work is complete behind it; when the segment
    began, and when that was."""
    made, now = with_full_budget()
    launch(made, now, SEGMENT - WORK)
    begun = now + WORK + US
    grant(made, begun, 1, LONG)
    launch(made, now + SECOND, SLACK)
    free = begun + LONG + WORK
    made.event("grant_done", LOW, free, request=1)
    return made, now, free


@pytest.mark.parametrize(("later", "granted"), [(WORK, []), (90 * US, []), (110 * US, [LOW])])
def test_that_the_wait_has_not_ended_says_something_when_its_end_would_be_known(later: int, granted: list[int]) -> None:
    made, _, free = behind_a_long_kernel()
    assert grants(made.event("waiting", LOW, free + later, request=2, duration_ns=SHORT)) == granted


@pytest.mark.parametrize("later", [WORK, 5 * WORK])
def test_what_was_paid_for_is_no_surprise_if_more_is_granted_before_the_wait_is_known_to_be_over(later: int) -> None:
    """Below a job whose forecasts are no good no more than run_ahead_ns would be in flight afterwards."""
    made, began, free = behind_a_long_kernel()
    grant(made, free + later, 2, KERNEL)
    wait(made, began + SEGMENT, free + later + KERNEL)
    made.event("grant_done", LOW, free + later + KERNEL, request=2)
    now = free + 100 * MS
    launch(made, now, S)
    for request in range(3, 7):
        grant(made, now + 2 * WORK, request, KERNEL)
