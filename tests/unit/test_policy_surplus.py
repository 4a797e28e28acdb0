"""The policy `budget` in manual time: what is earned while the budget is full is lost, and is spent before."""

from __future__ import annotations

from typing import Any

import pytest
from fikitd._core import Policy
from fikitd.simulator import TUNING

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW = 1, 2
KERNEL = 500 * US
SEGMENT = 10 * MS
LONGEST = int(TUNING["rest_run_ns"])
SAVED = round(0.05 * TUNING["saved_ns"])
"""What may be saved."""
KEPT = round(TUNING["surplus_kept"] * SAVED)


def grants(decisions: list[tuple[Any, ...]]) -> list[int]:
    return [decision[1] for decision in decisions if decision[0] == "grant"]


def policy(**options: Any) -> Policy:
    """A high client and a low one, from time 0."""
    made = Policy("budget", run_ahead_ns=500 * US, ageing_ns=1000 * S, **options)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    return made


def saves(made: Policy, now: int, until: int, *, held: int = SEGMENT, idle: int = MS, **wait: Any) -> int:
    """Segments of the high job in which lower work that it has no slack for is held for so long. When the last is over."""
    while now < until:
        made.event("launched", HIGH, now, duration_ns=SEGMENT, slack_ns=[1])
        assert grants(made.event("waiting", LOW, now, request=1, duration_ns=S)) == []
        made.event("waiting_ended", LOW, now + held, request=1)
        now += SEGMENT
        made.event(
            "drained", HIGH, now, began_ns=now, duration_ns=0, span_ns=SEGMENT, slack_ns=[1], idle_ns=[idle], **wait
        )
        now += idle
    return now


def goes(made: Policy, now: int, length: int = KERNEL, request: int = 99) -> bool:
    """Does a low kernel go that delays the high job by all that it takes?"""
    made.event("launched", HIGH, now, duration_ns=SEGMENT, slack_ns=[1])
    return grants(made.event("waiting", LOW, now, request=request, duration_ns=length)) == [LOW]


def test_a_full_budget_lets_lower_work_go_whatever_is_forecast() -> None:
    made = policy()
    assert goes(made, saves(made, 0, S))


def test_not_before_it_is_nearly_full() -> None:
    """A second of work fills it, less what counting delays 1.2 times holds back."""
    made = policy()
    assert not goes(made, saves(made, 0, S // 4))


@pytest.mark.parametrize(("length", "let_go"), [(LONGEST, True), (LONGEST + 1, False)])
def test_a_kernel_that_is_longer_than_any_run_is_asked_about(length: int, *, let_go: bool) -> None:
    made = policy()
    assert goes(made, saves(made, 0, S), length) is let_go


def test_what_is_let_go_in_a_segment_is_what_may_be_spent() -> None:
    """All of it might be a delay; what is kept is for what is dear at rest."""
    made = policy()
    now = saves(made, 0, S)
    made.event("launched", HIGH, now, duration_ns=SEGMENT, slack_ns=[1])
    granted, request = 0, 100
    while grants(made.event("waiting", LOW, now, request=request, duration_ns=LONGEST)):
        made.event("launched", LOW, now, granted=True, request=request, duration_ns=LONGEST)
        granted, request = granted + LONGEST, request + 1
        assert granted <= SAVED
    assert SAVED - KEPT - 2 * LONGEST <= granted <= SAVED - KEPT


def test_what_the_high_job_would_not_notice_counts_for_nothing() -> None:
    made = policy()
    now = saves(made, 0, S)
    slack = 2 * SAVED
    made.event("launched", HIGH, now, duration_ns=SEGMENT, slack_ns=[slack])
    granted, request = 0, 100
    while granted < slack and grants(made.event("waiting", LOW, now, request=request, duration_ns=LONGEST)):
        made.event("launched", LOW, now, granted=True, request=request, duration_ns=LONGEST)
        granted, request = granted + LONGEST, request + 1
    assert granted > SAVED - KEPT  # as far as 32 ms in flight, with its own


def test_delays_are_charged_when_they_are_known_and_end_it() -> None:
    made = policy()
    now, spent = saves(made, 0, S), 0
    while goes(made, now, LONGEST):
        made.event("launched", LOW, now, granted=True, request=99, duration_ns=LONGEST)
        made.event("grant_done", LOW, now + LONGEST, request=99)
        end = now + SEGMENT + LONGEST
        made.event("drained", HIGH, end, began_ns=now, duration_ns=0, span_ns=SEGMENT, slack_ns=[1], idle_ns=[MS])
        now, spent = end + MS, spent + LONGEST
        assert spent <= 2 * SAVED
    assert spent >= SAVED - KEPT - 2 * LONGEST  # and what was earned meanwhile
    made.event("waiting_ended", LOW, now, request=99)


def test_it_goes_on_only_where_lower_work_gains_by_it() -> None:
    """Each time that it is let go the high job is late by 1 ms of 10, and lower work that may not go is held as long as ever."""
    made = policy()
    now, cycles = 0, 0
    for _ in range(20):
        now = saves(made, now, now + S)
        if not goes(made, now, LONGEST):
            made.event("waiting_ended", LOW, now, request=99)
            break
        cycles += 1
        for _ in range(25):
            made.event("launched", LOW, now, granted=True, request=99, duration_ns=LONGEST)
            made.event("grant_done", LOW, now + LONGEST, request=99)
            made.event("waiting", LOW, now, request=1, duration_ns=S)
            end = now + SEGMENT + LONGEST
            made.event("waiting_ended", LOW, end, request=1)
            made.event("drained", HIGH, end, began_ns=now, duration_ns=0, span_ns=SEGMENT, slack_ns=[1], idle_ns=[MS])
            now = end + MS
            if not goes(made, now, LONGEST):
                made.event("waiting_ended", LOW, now, request=99)
                break
    assert 1 <= cycles <= 2


def test_it_is_over_at_once_where_it_cannot_pay() -> None:
    """Lower work was held for a hundredth of the time until the budget was nearly full: it cannot gain more than 2 ms in the
    0.2 s that it takes to tell."""
    made = policy()
    now, late = saves(made, 0, 430 * MS, held=SEGMENT // 100), 0
    while goes(made, now, LONGEST):
        made.event("launched", LOW, now, granted=True, request=99, duration_ns=LONGEST)
        made.event("grant_done", LOW, now + LONGEST, request=99)
        end = now + SEGMENT + LONGEST
        made.event("drained", HIGH, end, began_ns=now, duration_ns=0, span_ns=SEGMENT, slack_ns=[1], idle_ns=[MS])
        now, late = end + MS, late + LONGEST
    assert 2 * MS < late <= 3 * MS


@pytest.mark.parametrize("promise", [{"max_slowdown": 0.0}, {"max_delay_ns": 200 * US}])
def test_not_above_a_job_that_nothing_may_cost_or_only_little_at_a_time(promise: dict[str, Any]) -> None:
    made = policy(**promise)
    assert not goes(made, saves(made, 0, S))


def test_not_above_a_job_whose_requests_come_from_outside() -> None:
    made = policy()
    assert not goes(made, saves(made, 0, S, open=True))


@pytest.mark.parametrize(("pause", "let_go"), [(13 * MS, True), (15 * MS, False)])
def test_nor_after_an_idle_time_that_is_much_longer_than_any_before(pause: int, *, let_go: bool) -> None:
    """Four times as long, and 10 ms: requests may come from outside."""
    made = policy()
    assert goes(made, saves(made, 0, S) - MS + pause) is let_go


def test_an_idle_time_of_which_nothing_is_known_says_nothing() -> None:
    made = policy()
    now = saves(made, 0, S)
    made.event("launched", HIGH, now, duration_ns=SEGMENT, slack_ns=[1])
    now += SEGMENT
    made.event("drained", HIGH, now, began_ns=now, duration_ns=0, span_ns=SEGMENT, slack_ns=[1])
    assert goes(made, now + S)


def test_half_a_minute_later_that_is_forgotten() -> None:
    made = policy()
    now = saves(made, 0, S) + S
    assert goes(made, saves(made, now, now + 31 * S))
