"""A client's priority changes while it runs, in every policy. In manual time, on the policies' own interface."""

from __future__ import annotations

from typing import Any

import pytest
from decisions import grants, wake
from fikitd._core import Policy
from fikitd.simulation.simulator import POLICIES

US, MS, S = 1_000, 1_000_000, 1_000_000_000
LEASE = 100 * MS
HIGH, LOW = 1, 2
GATES = sorted(set(POLICIES) - {"oracle", "weighted", "mps-priority", "fifo"})


def pair(name: str) -> Policy:
    policy = Policy(name, lease_ns=LEASE)
    policy.event("client_added", HIGH, 0, priority=1)
    assert ("close", LOW) in policy.event("client_added", LOW, 0, priority=8)
    return policy


def granted_at(policy: Policy, client: int, asked_at: int, **request: Any) -> int:
    """When its request, which nothing follows, is granted."""
    now = asked_at
    decisions = policy.event("waiting", client, now, request=7, **request)
    while client not in grants(decisions):
        woken = wake(decisions)
        assert woken is not None, "nothing would ever change"
        assert woken < asked_at + 10 * S
        now = max(now, woken)
        decisions = policy.event("tick", 0, now)
    return now


@pytest.mark.parametrize("name", GATES)
def test_the_gates_are_those_of_the_new_order(name: str) -> None:
    policy = pair(name)
    decisions = policy.change_priority(LOW, 0, MS)
    assert ("close", HIGH) in decisions
    assert not [d for d in decisions if d[:2] == ("close", LOW)]
    assert policy.index_agrees()
    back = policy.change_priority(LOW, 9, 2 * MS)
    assert ("open", HIGH) in back
    assert ("close", LOW) in back


@pytest.mark.parametrize("name", [name for name in GATES if name != "exclusive"])  # that never grants anything
def test_who_is_lowered_waits_and_goes_as_one_that_came_so(name: str) -> None:
    changed, fresh = pair(name), Policy(name, lease_ns=LEASE)
    changed.change_priority(LOW, 0, MS)
    fresh.event("client_added", HIGH, 0, priority=1)
    fresh.event("client_added", LOW, MS, priority=0)
    at = [granted_at(policy, HIGH, 10 * MS, duration_ns=100 * US) for policy in (changed, fresh)]
    assert abs(at[0] - at[1]) <= MS  # `tgs` looks in steps from when the first came


@pytest.mark.parametrize("name", GATES)
def test_equal_priorities_hold_nobody(name: str) -> None:
    policy = pair(name)
    decisions = policy.change_priority(LOW, 1, MS)
    assert not [d for d in decisions if d[0] == "close"]
    # What was at its gate went when that was opened: nobody is told again.
    assert not [d for d in decisions if d[0] == "open"]


@pytest.mark.parametrize("name", GATES)
def test_its_own_work_under_way_counts_at_its_new_level(name: str) -> None:
    """A client that is raised with work on the device keeps a lower one from it as long as that lasts."""
    policy = Policy(name, lease_ns=LEASE)
    policy.event("client_added", HIGH, 0, priority=1)
    policy.event("client_added", LOW, 0, priority=1)  # its gate is open
    policy.event("launched", LOW, MS, duration_ns=20 * MS, gap_ns=MS, slack_ns=[MS], idle_ns=[MS])
    assert ("close", HIGH) in policy.change_priority(LOW, 0, 2 * MS)
    assert policy.queue_free_ns > 15 * MS


def test_what_cannot_be_is_refused() -> None:
    policy = pair("budget")
    with pytest.raises(ValueError, match="has that priority"):
        policy.change_priority(LOW, 8, 1)
    with pytest.raises(ValueError, match="unknown client"):
        policy.change_priority(77, 3, 1)
    policy.event("client_added", 3, 1, priority=5, measuring=True)
    with pytest.raises(ValueError, match="measures"):
        policy.change_priority(3, 3, 1)
