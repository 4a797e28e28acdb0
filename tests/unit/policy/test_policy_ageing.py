"""The policy `budget` in manual time: a request that has waited for too long goes whatever it costs, and when."""

from __future__ import annotations

from typing import Any

import pytest
from decisions import grants, wake
from fikitd._core import Policy

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW = 1, 2
IDLE = [200 * US] * 4 + [50 * MS] * 4  # every other request comes at once
KNOWN_NS = 200 * US + 50 * US + 1  # so long after a request that one that had waited would have begun before


def policy(**options: Any) -> Policy:
    """A high client and a low one, from time 0."""
    made = Policy("budget", **options)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    return made


# Below a max_delay a request ages ten times as slowly.
@pytest.mark.parametrize(("terms", "due_ms"), [({"max_slowdown": 0.0}, 500), ({"max_delay_ns": 1}, 5_000)])
def test_a_request_that_has_waited_too_long_goes_whatever_it_costs(terms: dict[str, Any], due_ms: int) -> None:
    made = policy(starvation_timeout_ns=500 * MS, **terms)
    made.event("launched", HIGH, 0, duration_ns=60 * S, slack_ns=[1])
    assert grants(made.event("waiting", LOW, 1 * MS, request=1, duration_ns=1 * S)) == []
    assert grants(made.event("tick", 0, due_ms * MS)) == []
    assert grants(made.event("tick", 0, (due_ms + 1) * MS)) == [LOW]


def test_nobody_ages_where_the_site_says_so() -> None:
    made = policy(starvation_timeout_ns=2**63 - 1, max_delay_ns=1)
    made.event("launched", HIGH, 0, duration_ns=60 * S, slack_ns=[1])
    made.event("waiting", LOW, 1 * MS, request=1, duration_ns=1 * S)
    assert grants(made.event("tick", 0, 5 * S)) == []


def begins(made: Policy, now: int) -> list[tuple[Any, ...]]:
    """A request of 100 ms of the high client."""
    return made.event("launched", HIGH, now, duration_ns=100 * MS, slack_ns=[1])


def ends(made: Policy, now: int, idle_ns: list[int], *, open: bool) -> list[tuple[Any, ...]]:
    return made.event("drained", HIGH, now, began_ns=now, duration_ns=0, slack_ns=[1], idle_ns=idle_ns, open=open)


def served(idle_ns: list[int], *, open: bool) -> tuple[Policy, int]:
    """A few requests, and one that is under way; the low client has waited beside it since then with a kernel of a minute."""
    made, now = policy(starvation_timeout_ns=500 * MS), 0
    for _ in range(4):
        begins(made, now)
        now += 100 * MS
        ends(made, now, idle_ns, open=open)
        now += 10 * MS
    made.event("launched", HIGH, now, duration_ns=60 * S, slack_ns=[1])  # so long that silence is no wonder
    assert grants(made.event("waiting", LOW, now, request=1, duration_ns=60 * S)) == []
    return made, now


def test_a_request_that_has_aged_waits_until_nobody_waits_behind_the_one_above() -> None:
    """It goes at the end of the queue, at the first moment that is known to be one, and asks to be looked at then."""
    made, since = served(IDLE, open=True)
    now = since
    while now < since + 900 * MS:  # one request after the other
        now += 100 * MS
        assert grants(ends(made, now, IDLE, open=True)) == []
        now += 100 * US
        assert grants(begins(made, now)) == []
    now += 100 * MS
    last = ends(made, now, IDLE, open=True)
    assert grants(last) == []
    at = wake(last)
    assert at == now + KNOWN_NS
    assert grants(made.event("tick", 0, at - 1)) == []
    assert grants(made.event("tick", 0, at)) == [LOW]


def test_a_queue_that_never_ends_holds_nobody_for_longer_than_ten_times_the_age() -> None:
    made, since = served(IDLE, open=True)
    assert grants(made.event("tick", 0, since + 4999 * MS)) == []
    assert grants(made.event("tick", 0, since + 5000 * MS)) == [LOW]


def test_below_requests_that_follow_each_other_it_goes_when_it_is_due() -> None:
    made, since = served([200 * US] * 8, open=False)
    assert grants(made.event("tick", 0, since + 499 * MS)) == []
    assert grants(made.event("tick", 0, since + 500 * MS)) == [LOW]
