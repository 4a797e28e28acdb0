"""The policy `budget` in manual time: what is earned while the budget is full is lost, and is spent before."""

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
LONGEST = int(TUNING["rest_run_ns"])
SAVED = round(0.05 * TUNING["saved_ns"])
"""What may be saved."""
KEPT = round(TUNING["surplus_kept"] * SAVED)
SHARE = TUNING["surplus_share"]


def policy(**options: Any) -> Policy:
    """A high client and a low one, from time 0."""
    made = Policy("budget", run_ahead_ns=500 * US, ageing_ns=1000 * S, **options)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    return made


def saves(made: Policy, now: int, until: int, *, held: int | None = None, idle: int = MS, **wait: Any) -> int:
    """Segments of the high job in which lower work that it has no slack for is held; less, as if it gained, from the moment on from
    which the budget may be nearly full. When the last is over."""
    while now < until:
        held_ns = held if held is not None else SEGMENT if now < S // 4 else SEGMENT * 9 // 10
        made.event("launched", HIGH, now, duration_ns=SEGMENT, slack_ns=[1])
        assert grants(made.event("waiting", LOW, now, request=1, duration_ns=S)) == []
        made.event("waiting_ended", LOW, now + held_ns, request=1)
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


def let_go(made: Policy, now: int, length: int, most: int = 10 * SAVED) -> int:
    """Lower work that goes before the high job's first launch is over, in kernels of this length."""
    granted, request = 0, 100
    while granted < most and grants(made.event("waiting", LOW, now, request=request, duration_ns=length)):
        made.event("launched", LOW, now, granted=True, request=request, duration_ns=length)
        granted, request = granted + length, request + 1
    made.event("waiting_ended", LOW, now, request=request)
    return granted


def late_by_one(made: Policy, now: int, length: int = LONGEST) -> int:
    """A segment that is late by a kernel that was let go. When it is over."""
    made.event("launched", LOW, now, granted=True, request=99, duration_ns=length)
    made.event("grant_done", LOW, now + length, request=99)
    end = now + SEGMENT + length
    made.event("drained", HIGH, end, began_ns=now, duration_ns=0, span_ns=SEGMENT, slack_ns=[1], idle_ns=[MS])
    return end + MS


def test_the_longest_kernel_is_a_tenth_of_what_may_be_spent() -> None:
    """Which is all that can be saved but what is kept."""
    longest = round(SHARE * (SAVED - KEPT))
    for length, goes_so in ((longest, True), (longest + US, False)):
        made = policy()
        assert goes(made, saves(made, 0, 2 * S), length) is goes_so


def test_a_kernel_that_is_no_longer_than_a_run_may_be_more_than_that() -> None:
    made = policy()
    now = saves(made, 0, S // 2)
    assert SHARE * may_be_spent(now) < 2 * LONGEST
    assert goes(made, now, LONGEST)
    made.event("waiting_ended", LOW, now, request=99)
    made = policy()
    assert not goes(made, saves(made, 0, S // 2), 2 * LONGEST)


def may_be_spent(now: int) -> float:
    """Of what was earned in segments with 1 ms of rest behind each."""
    progress = TUNING["advance_ns"] + now * SEGMENT / (SEGMENT + MS)
    return min(SAVED, 0.05 * progress / TUNING["reserve"]) - KEPT


@pytest.mark.parametrize(("length", "goes_so"), [(LONGEST, True), (2 * LONGEST, False)])
def test_longer_ones_are_bought_where_more_than_five_percent_is_spent_at_work(length: int, *, goes_so: bool) -> None:
    made = policy(max_slowdown=0.1, tuning={"surplus_share": 0.5})
    now = saves(made, 0, 20 * MS)
    while now < S:  # lower work that goes at rest, and is held mostly
        made.event("waiting", LOW, now, request=1, duration_ns=10 * US)
        made.event("launched", LOW, now, granted=True, request=1, duration_ns=10 * US)
        made.event("grant_done", LOW, now + 30 * US, request=1)
        now = saves(made, now + 50 * US, now + 60 * US)
    while goes(made, now, 10 * LONGEST):  # forecasts buy that until it is too dear
        now = late_by_one(made, now, 10 * LONGEST)
    assert grants(made.event("waiting", LOW, now, request=98, duration_ns=length)) == ([LOW] if goes_so else [])


def test_what_is_let_go_in_a_segment_is_what_may_be_spent() -> None:
    """All of it might be a delay; what is kept is for what is dear at rest."""
    made = policy()
    now = saves(made, 0, S // 2)
    made.event("launched", HIGH, now, duration_ns=SEGMENT, slack_ns=[1])
    assert may_be_spent(now) - 2 * LONGEST <= let_go(made, now, LONGEST) <= may_be_spent(now)


def test_no_more_is_saved_than_a_full_budget() -> None:
    """Half a second of delays later what was saved in 3 s is gone as what was saved in 2 s is."""
    left = []
    for seconds in (2, 3):
        made = policy()
        now, times = saves(made, 0, seconds * S), 0
        while goes(made, now, LONGEST):
            now, times = late_by_one(made, now), times + 1
        left.append(times)
    assert left[0] == left[1] >= (SAVED - KEPT) // LONGEST


def test_what_the_high_job_would_not_notice_counts_for_nothing() -> None:
    made = policy()
    now = saves(made, 0, S // 2)
    slack = 4 * SAVED
    made.event("launched", HIGH, now, duration_ns=SEGMENT, slack_ns=[slack])
    assert let_go(made, now, LONGEST, slack) > may_be_spent(now)  # as far as 32 ms in flight, with its own


def test_not_in_a_segment_that_lasts_longer_than_any_that_is_over() -> None:
    """What it costs will be known when it is over."""
    for lasts, goes_so in ((SEGMENT, True), (SEGMENT + US, False)):
        made = policy()
        now = saves(made, 0, S)
        made.event("launched", HIGH, now, duration_ns=2 * SEGMENT, slack_ns=[1])
        assert bool(grants(made.event("waiting", LOW, now + lasts, request=99, duration_ns=KERNEL))) is goes_so


def test_delays_are_charged_when_they_are_known_and_end_it() -> None:
    made = policy()
    now, spent = saves(made, 0, S), 0
    begun = now
    while goes(made, now, LONGEST):
        now, spent = late_by_one(made, now), spent + LONGEST
        assert spent <= 2 * SAVED
    earned = 0.05 * spent // LONGEST * SEGMENT / TUNING["reserve"]
    assert spent >= may_be_spent(begun) + earned - 2 * LONGEST
    made.event("waiting_ended", LOW, now, request=99)


@pytest.mark.parametrize(("later", "charged"), [(0, False), (SEGMENT // 50, True)])
def test_a_segment_that_is_a_little_longer_than_any_is_late_where_lower_work_was_let_go(
    later: int, *, charged: bool
) -> None:
    """Its host came to wait that late, as if it had been slower by itself. Lower work was held for a hundredth of the time."""
    made = policy()
    now, times = saves(made, 0, 430 * MS, held=SEGMENT // 100), 0
    while times < 100 and goes(made, now, LONGEST):
        made.event("launched", LOW, now, granted=True, request=99, duration_ns=LONGEST)
        made.event("grant_done", LOW, now + LONGEST, request=99)
        now += SEGMENT + later
        made.event("drained", HIGH, now, began_ns=now, duration_ns=0, span_ns=SEGMENT, slack_ns=[1], idle_ns=[MS])
        now, times = now + MS, times + 1
    assert (times < 100) is charged


def test_it_goes_on_only_where_lower_work_gains_by_it() -> None:
    """Each time that it is let go the high job is late by 1 ms of 10, and lower work that may not go is held as long as ever."""
    made = policy()
    now, cycles = 0, 0
    for _ in range(20):
        now = saves(made, now, now + S, held=SEGMENT)
        if not goes(made, now, LONGEST):
            made.event("waiting_ended", LOW, now, request=99)
            break
        cycles += 1
        for _ in range(25):
            made.event("waiting", LOW, now, request=1, duration_ns=S)
            made.event("waiting_ended", LOW, now + SEGMENT + LONGEST, request=1)
            now = late_by_one(made, now)
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
        now, late = late_by_one(made, now), late + LONGEST
    assert 2 * MS < late <= 3 * MS


@pytest.mark.parametrize("promise", [{"max_slowdown": 0.0}, {"max_delay_ns": 200 * US}])
def test_not_above_a_job_that_nothing_may_cost_or_only_little_at_a_time(promise: dict[str, Any]) -> None:
    made = policy(**promise)
    assert not goes(made, saves(made, 0, S), 100 * US)


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
    """An idle time that says that requests may come from outside."""
    made = policy()
    now = saves(made, 0, S) + S
    now = saves(made, now, now + 29 * S)
    assert not goes(made, now)
    made.event("waiting_ended", LOW, now, request=99)
    now += SEGMENT
    made.event("drained", HIGH, now, began_ns=now, duration_ns=0, span_ns=SEGMENT, slack_ns=[1], idle_ns=[MS])
    assert goes(made, saves(made, now + MS, now + 2 * S))


def test_what_has_not_paid_is_tried_again_half_a_minute_later() -> None:
    """Half of what was seen is forgotten, and then less than 0.2 s say so."""
    made = policy()
    now, tries = saves(made, 0, 430 * MS, held=SEGMENT // 100), []
    while now < 70 * S:
        if goes(made, now, LONGEST):
            tries.append(now)
            now = late_by_one(made, now)
            continue
        made.event("waiting_ended", LOW, now + SEGMENT // 100, request=99)
        now += SEGMENT
        made.event("drained", HIGH, now, began_ns=now, duration_ns=0, span_ns=SEGMENT, slack_ns=[1], idle_ns=[MS])
        now += MS
    first = [t for t in tries if t < 20 * S]
    later = [t for t in tries if t > 20 * S]
    assert first
    assert later
    assert first[-1] < S
