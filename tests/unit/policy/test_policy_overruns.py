"""The policy `budget` in manual time: what lower work costs beyond what was reckoned is charged too, and paid before more ages."""

from __future__ import annotations

from typing import Any

import pytest
from decisions import grants
from fikitd._core import Policy

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW, OTHER = 1, 2, 3
LEASE = 100 * MS


def policy(**options: Any) -> Policy:
    """A high client and a low one, from time 0."""
    made = Policy("budget", lease_ns=LEASE, **options)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    return made


def works_alone(made: Policy, now: int, until: int) -> int:
    """The high job works in segments of 10 ms without slack, and earns; when the last one ended."""
    while now < until:
        made.event("launched", HIGH, now, duration_ns=9 * MS, slack_ns=[1])
        now += 9 * MS
        made.event("drained", HIGH, now, began_ns=now, duration_ns=0, span_ns=9 * MS, slack_ns=[1], idle_ns=[MS])
        now += MS
    return now


def buys(made: Policy, now: int, length: int) -> bool:
    """Would the high job's budget pay a kernel of this length, which delays it by all of that?"""
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[1])
    bought = grants(made.event("waiting", LOW, now + 20 * US, request=99, duration_ns=length)) == [LOW]
    made.event("waiting_ended", LOW, now + 30 * US, request=99)
    return bought


GRANTED = 100 * US


def takes(made: Policy, now: int, took: int, request: int, *, drained: bool = False) -> int:
    """A low kernel of 0.1 ms goes before the high job's next work, and takes so long: all of that is a delay."""
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[S])
    assert grants(made.event("waiting", LOW, now + 20 * US, request=request, duration_ns=GRANTED)) == [LOW]
    made.event("launched", LOW, now + 20 * US, granted=True, request=request, duration_ns=GRANTED)
    end = now + 20 * US + took
    if drained:
        made.event("drained", LOW, end, duration_ns=0)
    else:
        made.event("tick", 0, end - 1)
    made.event("grant_done", LOW, end, request=request)
    late = end + 10 * US
    made.event(
        "drained", HIGH, late, began_ns=now + 10 * US, duration_ns=0, span_ns=10 * US, slack_ns=[1], idle_ns=[MS]
    )
    return late + MS


@pytest.mark.parametrize("drained", [False, True])
@pytest.mark.parametrize(("took", "pays"), [(GRANTED, False), (30 * MS, True)])
def test_a_kernel_that_takes_longer_than_reckoned_is_charged_for_all_of_it(
    took: int, *, pays: bool, drained: bool
) -> None:
    """Also where the policy did not wait for its word, or its host said before that all was done."""
    made = policy()
    now = works_alone(made, 0, 800 * MS)
    now = takes(made, now, took, 1, drained=drained)
    assert buys(made, now, 12 * MS) is not pays


@pytest.mark.parametrize(("usually", "pays"), [(32 * MS, False), (10 * US, True)])
def test_a_host_that_came_late_to_its_wait_has_waited_before_if_no_segment_took_so_long(
    usually: int, *, pays: bool
) -> None:
    """For a copy, or for room in its queue, and has not said so: its wait ends as soon as it came."""
    made = policy()
    now = works_alone(made, 0, 800 * MS)
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[S])
    assert grants(made.event("waiting", LOW, now + 20 * US, request=1, duration_ns=30 * MS)) == [LOW]
    made.event("launched", LOW, now + 20 * US, granted=True, request=1, duration_ns=30 * MS)
    now += 31 * MS
    made.event("grant_done", LOW, now, request=1)
    made.event("drained", HIGH, now, began_ns=now, duration_ns=0, span_ns=usually, slack_ns=[1], idle_ns=[MS])
    assert buys(made, now + MS, 12 * MS) is not pays


def test_a_kernel_of_unknown_length_is_charged_for_what_it_took() -> None:
    made = policy()
    now = works_alone(made, 0, 800 * MS)
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[S])
    assert grants(made.event("waiting", LOW, now + 20 * US, request=1)) == [LOW]
    made.event("launched", LOW, now + 20 * US, granted=True, request=1)
    end = now + 30 * MS
    made.event("grant_done", LOW, end, request=1)
    made.event("drained", HIGH, end, began_ns=now + 10 * US, duration_ns=0, span_ns=10 * US, slack_ns=[1], idle_ns=[MS])
    assert not buys(made, end + MS, 12 * MS)


def test_what_stands_behind_a_kernel_that_took_longer_did_not_take_longer_itself() -> None:
    """The first of two kernels of 0.1 ms takes 5 ms, and both end late; the high job is 30 ms late, by itself for the rest."""
    made = policy(run_ahead_ns=MS)
    now = works_alone(made, 0, 800 * MS)
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[S])
    for request in (1, 2):
        assert grants(made.event("waiting", LOW, now + request, request=request, duration_ns=GRANTED)) == [LOW]
        made.event("launched", LOW, now + request, granted=True, request=request, duration_ns=GRANTED)
    made.event("grant_done", LOW, now + 5 * MS, request=1)
    made.event("grant_done", LOW, now + 5 * MS + GRANTED, request=2)
    end = now + 30 * MS
    made.event("drained", HIGH, end, began_ns=now + 10 * US, duration_ns=0, span_ns=10 * US, slack_ns=[1], idle_ns=[MS])
    assert buys(made, end + MS, 12 * MS)  # as with 25 of 30 ms, and not as with 20


def test_a_high_job_that_is_late_by_itself_is_not_charged_more_than_was_granted() -> None:
    made = policy()
    now = works_alone(made, 0, 800 * MS)
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[S])
    assert grants(made.event("waiting", LOW, now + 20 * US, request=1, duration_ns=GRANTED)) == [LOW]
    made.event("launched", LOW, now + 20 * US, granted=True, request=1, duration_ns=GRANTED)
    made.event("grant_done", LOW, now + 20 * US + GRANTED, request=1)
    end = now + 30 * MS
    made.event("drained", HIGH, end, began_ns=now + 10 * US, duration_ns=0, span_ns=10 * US, slack_ns=[1], idle_ns=[MS])
    assert buys(made, end + MS, 12 * MS)


def overdrawn(made: Policy, now: int) -> int:
    """A copy of 20 ms was expected to cost nothing, and the high job's stood behind it: two of these, and it is overdrawn."""
    for request in (1, 2):
        now = copies(made, now, request)
    return now


def copies(
    made: Policy,
    now: int,
    request: int = 1,
    *,
    high_at: int = MS,
    took: int = 20 * MS,
    goes_on: int = 21 * MS,
    done: bool = True,
) -> int:
    """A low copy of 20 ms; the high job, which usually goes on 0.2 ms after its wait, copies at high_at and goes on later."""
    idle = [200 * US]
    made.event("copied", HIGH, now, engine="to_device", idle_ns=[S])
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[1])
    decided = made.event("waiting", LOW, now, request=request, duration_ns=20 * MS, engine="to_device")
    assert grants(decided) == [LOW]
    made.event("drained", HIGH, now + 10 * US, began_ns=now, duration_ns=0, span_ns=10 * US, slack_ns=[1], idle_ns=idle)
    made.event("copied", HIGH, now + high_at, engine="to_device", idle_ns=[S])
    if done:
        made.event("grant_done", LOW, now + took, request=request)
    now += goes_on
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[1])
    made.event("drained", HIGH, now + 10 * US, began_ns=now, duration_ns=0, span_ns=10 * US, slack_ns=[1], idle_ns=idle)
    made.event("grant_done", LOW, now + 20 * US, request=request)
    return now + MS


@pytest.mark.parametrize(
    ("what", "pays"),
    [
        ({}, True),  # it went on when the low copy was over
        ({"high_at": 20 * MS}, False),  # its own copy stood behind the low one for no time
        ({"took": MS, "high_at": 2 * MS}, False),  # or came after it
        ({"goes_on": 15 * MS}, False),  # it went on while the low copy was under way: it had not waited for its own
    ],
)
def test_a_copy_behind_a_long_lower_one_is_charged_as_long_as_it_stood_there(
    what: dict[str, Any], *, pays: bool
) -> None:
    made = policy()
    now = works_alone(made, 0, 800 * MS)
    now = copies(made, now, **what)
    assert buys(made, now, 12 * MS) is not pays


def test_a_lower_copy_that_began_later_is_not_what_the_high_one_stood_behind() -> None:
    made = policy()
    made.event("client_added", OTHER, 0, priority=8)
    now = works_alone(made, 0, 800 * MS)
    idle = [200 * US]
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[1])
    made.event("copied", HIGH, now, engine="to_device", idle_ns=[S])
    assert grants(made.event("waiting", LOW, now, request=1, duration_ns=MS, engine="to_device")) == [LOW]
    made.event("drained", HIGH, now + 10 * US, began_ns=now, duration_ns=0, span_ns=10 * US, slack_ns=[1], idle_ns=idle)
    made.event("copied", HIGH, now + 20 * US, engine="to_device", idle_ns=[S])
    made.event("grant_done", LOW, now + MS, request=1)
    asked = made.event("waiting", OTHER, now + 2 * MS, request=1, duration_ns=60 * MS, engine="to_device")
    assert grants(asked) == [OTHER]
    made.event("grant_done", OTHER, now + 62 * MS, request=1)
    now += 63 * MS
    made.event("launched", HIGH, now, duration_ns=10 * US, slack_ns=[1])
    made.event("drained", HIGH, now + 10 * US, began_ns=now, duration_ns=0, span_ns=10 * US, slack_ns=[1], idle_ns=idle)
    assert buys(made, now + MS, 12 * MS)


def overdrawn_at_work(length: int) -> tuple[Policy, int]:
    """A policy whose requests age in 0.5 s, with an overdrawn high job that begins so long a kernel; a moment later."""
    made = policy(starvation_timeout_ns=500 * MS)
    now = overdrawn(made, works_alone(made, 0, 100 * MS))
    made.event("launched", HIGH, now, duration_ns=length, slack_ns=[1])
    return made, now + 20 * US


def test_who_has_been_cost_more_than_there_was_is_paid_back_before_requests_age() -> None:
    """An aged request goes after 0.5 s; below an overdrawn budget once that is paid, and after 5 s at the latest."""
    made, asked = overdrawn_at_work(60 * S)
    assert grants(made.event("waiting", LOW, asked, request=9, duration_ns=200 * MS)) == []
    assert grants(made.event("tick", 0, asked + 600 * MS)) == []
    assert grants(made.event("tick", 0, asked + 5 * S - 1)) == []
    assert grants(made.event("tick", 0, asked + 5 * S)) == [LOW]


def test_an_aged_request_goes_as_soon_as_what_was_cost_is_paid() -> None:
    made, asked = overdrawn_at_work(9 * MS)
    now = asked - 20 * US
    assert grants(made.event("waiting", LOW, asked, request=9, duration_ns=200 * MS)) == []
    granted_at = 0
    while not granted_at:
        now += 9 * MS
        span = {"span_ns": 9 * MS, "slack_ns": [1], "idle_ns": [MS]}
        decided = grants(made.event("drained", HIGH, now, began_ns=now, duration_ns=0, **span))
        now += MS
        decided += grants(made.event("launched", HIGH, now, duration_ns=9 * MS, slack_ns=[1]))
        granted_at = now - asked if decided else 0
        assert now - asked < 5 * S
    assert granted_at > 550 * MS


def test_the_policy_wants_to_be_asked_again_when_a_request_that_was_not_paid_for_is_due() -> None:
    made, asked = overdrawn_at_work(60 * S)
    decided, now = made.event("waiting", LOW, asked, request=9, duration_ns=200 * MS), asked
    while not grants(decided):
        (now,) = (decision[1] for decision in decided if decision[0] == "wake_at")
        assert now <= asked + 5400 * MS
        decided = made.event("tick", 0, now)
    assert now >= asked + 5 * S
