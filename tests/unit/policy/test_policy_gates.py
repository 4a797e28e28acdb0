"""fifo and prio in manual time, and what all policies share: gates, measuring clients, bookkeeping errors."""

from __future__ import annotations

from typing import Any

import pytest
from fikitd._core import MAX_CLIENTS, Policy

MS = 1_000_000
US = 1_000
LEASE = 100 * MS

Decision = tuple[Any, ...]


def grants(decisions: list[Decision]) -> list[int]:
    return [d[1] for d in decisions if d[0] == "grant"]


def wake(decisions: list[Decision]) -> int | None:
    return next((d[1] for d in decisions if d[0] == "wake_at"), None)


def with_clients(name: str, *priorities: int) -> Policy:
    """A policy with clients 1, 2, ... of these priorities, all added at time 0."""
    policy = Policy(name, lease_ns=LEASE)
    for number, priority in enumerate(priorities, start=1):
        policy.event("client_added", number, 0, priority=priority)
    return policy


def test_fifo_never_closes_a_gate() -> None:
    policy = Policy("fifo")
    assert policy.event("client_added", 1, 0, priority=9) == []
    assert policy.event("client_added", 2, 0, priority=0) == []
    assert policy.event("launched", 2, 10, duration_ns=MS) == []


@pytest.mark.parametrize("name", ["prio", "paper"])
def test_a_higher_client_closes_the_gate_of_a_lower_one_until_it_leaves(name: str) -> None:
    policy = Policy(name)
    assert policy.event("client_added", 1, 0, priority=8) == []
    assert policy.event("client_added", 2, 10, priority=1) == [("close", 1)]
    assert policy.event("client_removed", 2, 20) == [("open", 1)]


@pytest.mark.parametrize("name", ["prio", "paper"])
def test_equals_do_not_gate_each_other(name: str) -> None:
    policy = Policy(name)
    assert policy.event("client_added", 1, 0, priority=5) == []
    assert policy.event("client_added", 2, 0, priority=5) == []


@pytest.mark.parametrize("name", ["prio", "paper"])
def test_a_measuring_client_neither_gates_nor_is_gated(name: str) -> None:
    policy = Policy(name)
    policy.event("client_added", 1, 0, priority=5)
    assert policy.event("client_added", 2, 0, priority=9, measuring=True) == []
    assert policy.event("client_added", 3, 0, priority=0, measuring=True) == []


@pytest.mark.parametrize("name", ["prio", "paper"])
def test_a_middle_client_is_closed_by_the_first_and_closes_the_last(name: str) -> None:
    policy = with_clients(name, 1)
    assert policy.event("client_added", 2, 0, priority=5) == [("close", 2)]
    assert policy.event("client_added", 3, 0, priority=8) == [("close", 3)]
    assert policy.event("client_removed", 1, 10) == [("open", 2)]


def test_prio_grants_one_lower_kernel_at_a_time_while_the_higher_is_drained() -> None:
    policy = with_clients("prio", 1, 8, 8)
    assert grants(policy.event("waiting", 2, 10, request=1, duration_ns=100)) == [2]
    assert grants(policy.event("waiting", 3, 20, request=1, duration_ns=100)) == []
    assert grants(policy.event("grant_done", 2, 60, request=1)) == [3]


def test_prio_grants_nothing_while_the_higher_runs_even_a_kernel_that_would_fit_a_gap() -> None:
    policy = with_clients("prio", 1, 8)
    policy.event("launched", 1, 0, duration_ns=MS, gap_ns=10 * MS)
    decisions = policy.event("waiting", 2, 10, request=1, duration_ns=100)
    assert grants(decisions) == []
    assert wake(decisions) == MS
    assert grants(policy.event("tick", 0, MS)) == [2]


def test_prio_serves_the_higher_of_two_waiting_clients_first_and_equals_in_turn() -> None:
    policy = with_clients("prio", 1, 8, 8, 5)
    policy.event("launched", 1, 0, duration_ns=1000)
    policy.event("waiting", 3, 10, request=1, duration_ns=10)
    policy.event("waiting", 2, 20, request=1, duration_ns=10)
    policy.event("waiting", 4, 30, request=1, duration_ns=10)
    assert grants(policy.event("tick", 0, 1000)) == [4]
    assert grants(policy.event("grant_done", 4, 1010, request=1)) == [3]
    assert grants(policy.event("grant_done", 3, 1020, request=1)) == [2]


def test_a_drain_ends_work_of_unknown_length() -> None:
    policy = with_clients("prio", 1, 8)
    policy.event("launched", 1, 0)
    assert grants(policy.event("waiting", 2, 10, request=1)) == []
    assert grants(policy.event("drained", 1, 50, duration_ns=0)) == [2]


def test_a_drain_of_part_of_the_work_leaves_the_rest_running() -> None:
    policy = with_clients("prio", 1, 8)
    policy.event("launched", 1, 0, duration_ns=MS)
    policy.event("waiting", 2, 10, request=1)
    assert grants(policy.event("drained", 1, 50, duration_ns=200)) == []
    assert grants(policy.event("tick", 0, 250)) == [2]


@pytest.mark.parametrize("name", ["prio", "paper"])
def test_a_silent_client_with_unknown_work_holds_others_for_one_lease(name: str) -> None:
    policy = with_clients(name, 1, 8)
    policy.event("launched", 1, 0)
    decisions = policy.event("waiting", 2, 10, request=1, duration_ns=10)
    assert wake(decisions) == LEASE
    assert grants(policy.event("tick", 0, LEASE)) == [2]


def test_a_grant_whose_completion_is_never_reported_blocks_for_one_lease() -> None:
    policy = with_clients("prio", 1, 8, 8)
    assert grants(policy.event("waiting", 2, 0, request=1)) == [2]
    decisions = policy.event("waiting", 3, 10, request=1)
    assert grants(decisions) == []
    assert wake(decisions) == LEASE
    assert grants(policy.event("tick", 0, LEASE)) == [3]


def test_a_reported_completion_is_waited_for_a_little_beyond_the_prediction() -> None:
    policy = with_clients("prio", 1, 8)
    policy.event("waiting", 2, 0, request=1, duration_ns=MS)
    policy.event("grant_done", 2, MS, request=1)  # this client reports completions
    policy.event("waiting", 2, MS, request=2, duration_ns=MS)
    assert grants(policy.event("waiting", 2, 2 * MS, request=3, duration_ns=MS)) == []
    assert grants(policy.event("tick", 0, 2 * MS + MS // 2)) == [2]


def test_a_client_that_gives_up_waiting_is_not_granted() -> None:
    policy = with_clients("prio", 1, 8)
    policy.event("launched", 1, 0, duration_ns=1000)
    policy.event("waiting", 2, 10, request=1, duration_ns=10)
    policy.event("waiting_ended", 2, 20, request=1)
    assert policy.event("tick", 0, 2000) == []


def test_unknown_names_and_clients_are_refused() -> None:
    with pytest.raises(ValueError, match="use one of fifo, exclusive"):
        Policy("lottery")
    policy = with_clients("paper", 5)
    with pytest.raises(ValueError, match="client"):
        policy.event("launched", 7, 0)
    with pytest.raises(ValueError, match="client"):
        policy.event("client_added", 1, 0)
    with pytest.raises(ValueError, match="kind"):
        policy.event("exploded", 1, 0)


def test_the_table_takes_so_many_clients_and_no_more() -> None:
    policy = with_clients("paper", *range(MAX_CLIENTS))
    with pytest.raises(ValueError, match="too many"):
        policy.event("client_added", MAX_CLIENTS + 1, 0)
    policy.event("client_removed", 3, 0)
    policy.event("client_added", MAX_CLIENTS + 1, 0)
