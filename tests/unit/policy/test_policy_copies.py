"""Copies of low jobs: held only where a higher job copies that way, and would before their end."""

from __future__ import annotations

from typing import Any

import pytest
from fikitd._core import Policy

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW, OTHER = 1, 2, 3
REACTION = 15 * US  # a grant reaches its client so much later


def policy(name: str = "budget", **options: Any) -> Policy:
    """A high client and a low one, from time 0."""
    made = Policy(name, **options)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("client_added", LOW, 0, priority=8)
    return made


def high_copies(made: Policy, now: int, next_ns: int, engine: str = "to_device") -> list[tuple[Any, ...]]:
    """The high job's next copy that way follows after next_ns, for sure."""
    return made.event("copied", HIGH, now, engine=engine, idle_ns=[next_ns])


def low_asks(made: Policy, now: int, length_ns: int, request: int = 1, client: int = LOW) -> bool:
    decided = made.event("waiting", client, now, request=request, duration_ns=length_ns, engine="to_device")
    return granted(decided, client)


def granted(decided: list[tuple[Any, ...]], client: int = LOW) -> bool:
    return any(decision[:2] == ("grant", client) for decision in decided)


@pytest.mark.parametrize(("engine", "asks"), [("to_device", (True, False)), ("to_host", (False, True))])
def test_low_copies_ask_once_a_higher_job_copies_that_way(engine: str, asks: tuple[bool, bool]) -> None:
    made = policy()
    assert high_copies(made, MS, 5 * MS, engine) == [("ask_copies", LOW, *asks)]
    assert high_copies(made, 2 * MS, 5 * MS, engine) == []


def test_nobody_asks_for_the_sake_of_those_below_or_beside() -> None:
    made = policy()
    made.event("client_added", OTHER, 0, priority=8)
    assert made.event("copied", OTHER, MS, engine="to_device", idle_ns=[5 * MS]) == []


def test_when_the_higher_job_has_gone_nobody_asks_any_more() -> None:
    made = policy()
    made.event("client_added", OTHER, 0, priority=4)
    high_copies(made, MS, 5 * MS)
    assert ("ask_copies", LOW, False, False) in made.event("client_removed", HIGH, 2 * MS)


def test_other_policies_let_copies_pass() -> None:
    assert high_copies(policy("prio"), MS, 5 * MS) == []


def test_a_copy_that_ends_before_the_next_one_of_the_higher_job_goes_at_once() -> None:
    made = policy(max_slowdown=0.0, max_delay_ns=0)
    high_copies(made, MS, 5 * MS)
    assert low_asks(made, MS, 5 * MS - REACTION)


def test_a_copy_that_ends_too_late_waits_for_the_next_gap() -> None:
    made = policy(max_slowdown=0.0)
    high_copies(made, MS, 2 * MS)
    assert not low_asks(made, MS, 5 * MS)
    assert made.held(LOW) == ("budget_spent", HIGH)
    assert not granted(made.event("tick", 0, 2 * MS))
    assert granted(high_copies(made, 3 * MS, 20 * MS))
    assert made.held(LOW) is None


def test_a_delay_within_max_delay_is_allowed_and_no_longer_one() -> None:
    for length_ns, goes in ((5 * MS + 190 * US - REACTION, True), (5 * MS + 210 * US - REACTION, False)):
        made = policy(max_slowdown=1.0, max_delay_ns=200 * US)
        made.event("launched", HIGH, 0, duration_ns=0, slack_ns=[MS])
        made.event("launched", HIGH, 90 * MS, duration_ns=0, slack_ns=[MS])  # 90 ms of budget earned
        high_copies(made, 90 * MS, 5 * MS)
        assert low_asks(made, 90 * MS, length_ns) is goes


def test_what_a_copy_is_expected_to_delay_is_paid_from_the_budget() -> None:
    made = policy(max_slowdown=0.05)
    made.event("launched", HIGH, 0, duration_ns=0, slack_ns=[MS])
    made.event("launched", HIGH, 480 * MS, duration_ns=0, slack_ns=[MS])  # 20 ms
    high_copies(made, 480 * MS, 4 * MS)
    assert low_asks(made, 480 * MS, 16 * MS)  # costs 12
    made.event("grant_done", LOW, 480 * MS, request=1)
    high_copies(made, 481 * MS, 4 * MS)
    assert not low_asks(made, 481 * MS, 16 * MS, request=2)


def test_copies_of_two_low_jobs_do_not_add_up_unnoticed() -> None:
    made = policy(max_slowdown=0.0)
    made.event("client_added", OTHER, 0, priority=8)
    high_copies(made, MS, 5 * MS)
    assert low_asks(made, MS, 3 * MS)
    assert not low_asks(made, MS, 3 * MS, client=OTHER)
    assert granted(made.event("grant_done", LOW, MS + 100 * US, request=1), OTHER)  # it was shorter than reckoned


def test_a_copy_that_is_not_known_to_be_complete_is_over_after_a_lease() -> None:
    """Its length is the client's word, and may be a lie."""
    made = policy(max_slowdown=0.0, max_delay_ns=0, lease_ns=100 * MS)
    made.event("client_added", OTHER, 0, priority=8)
    high_copies(made, MS, 5 * S)
    assert low_asks(made, MS, 2 * S)
    assert not low_asks(made, 2 * MS, 4990 * MS, client=OTHER)
    assert not granted(high_copies(made, 90 * MS, 5 * S), OTHER)
    assert granted(high_copies(made, 102 * MS, 5 * S), OTHER)


def test_a_copy_waits_no_longer_than_the_ageing_bound() -> None:
    made = policy(max_slowdown=0.0, starvation_timeout_ns=S)
    high_copies(made, MS, MS)
    assert not low_asks(made, MS, 5 * MS)
    assert not granted(made.event("tick", 0, S))
    assert granted(made.event("tick", 0, S + MS))


def test_a_job_that_has_not_copied_for_long_is_not_waited_for() -> None:
    made = policy(max_slowdown=0.0, max_delay_ns=0)
    high_copies(made, MS, MS)
    assert low_asks(made, 11 * S, 5 * MS)


def test_a_copy_at_the_gate_does_not_keep_kernels_of_others_from_it() -> None:
    made = policy(tuning={"saved_ns": 1e6}, max_delay_ns=US)
    made.event("client_added", OTHER, 0, priority=8)
    made.event("launched", HIGH, MS, duration_ns=0, slack_ns=[10 * MS])
    high_copies(made, MS, MS)
    assert not low_asks(made, MS, 5 * MS)
    decided = made.event("waiting", OTHER, MS, request=1, duration_ns=50 * US)
    assert granted(decided, OTHER)
    assert not granted(decided)


def test_a_copy_that_gives_up_is_forgotten() -> None:
    made = policy(max_slowdown=0.0)
    high_copies(made, MS, MS)
    assert not low_asks(made, MS, 5 * MS)
    made.event("waiting_ended", LOW, 2 * MS, request=1)
    assert not granted(high_copies(made, 3 * MS, S))


def test_ranks_of_a_job_whose_collective_kernel_runs_may_copy() -> None:
    made = policy(max_slowdown=0.0)
    high_copies(made, MS, MS)
    made.event("exclusive_runs", LOW, MS, exclusive=True)
    assert low_asks(made, MS, 5 * MS)


def test_a_copy_ends_its_job_s_run() -> None:
    made = policy()
    made.event("launched", HIGH, MS, duration_ns=0, slack_ns=[2 * MS])
    made.event("waiting", LOW, MS, request=1, duration_ns=5 * US, run_launches=20, run_ns=100 * US)
    made.event("launched", LOW, MS, granted=True, request=1, duration_ns=5 * US)
    high_copies(made, MS, 5 * MS)
    low_asks(made, MS, MS, request=2)
    assert ("end_run", LOW) not in made.event("launched", HIGH, MS + 20 * US, duration_ns=0, slack_ns=[1])
