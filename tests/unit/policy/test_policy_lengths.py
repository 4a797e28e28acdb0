"""The policy `budget` in manual time: how long a kernel may take counts beside how long it mostly takes."""

from __future__ import annotations

from typing import Any

import pytest
from decisions import grants
from fikitd._core import Policy
from fikitd.simulation.simulator import TUNING

US, MS, S = 1_000, 1_000_000, 1_000_000_000
HIGH, LOW = 1, 2
FULL_NS = TUNING["advance_ns"] / TUNING["reserve"]
COVERED_MS = 8
"""What a high client's budget covers at the beginning, about: progress of 200 ms, of which lower work may take 5 %, less a reserve."""


def policy(**options: Any) -> Policy:
    """A high client with four fifths of a full budget and a low one, from time 0, on a device that changes between them for nothing. What is not known yet is cheap."""
    made = Policy("budget", **{"tuning": {"saved_ns": 1.25 * FULL_NS, "cheap": 0.2}} | options)
    for client, priority in ((HIGH, 1), (LOW, 8)):
        made.event("client_added", client, 0, priority=priority)
    return made


def goes(made: Policy, now: int, request: int, *, slack: int = 500 * US, **length: Any) -> bool:
    """May the low client's kernel go, while the high one computes with so much slack?"""
    made.event("launched", HIGH, now, duration_ns=100 * US, slack_ns=[slack])
    went = grants(made.event("waiting", LOW, now + 1, request=request, **length)) == [LOW]
    if not went:
        made.event("waiting_ended", LOW, now + 2, request=request)
    made.event(
        "drained",
        HIGH,
        now + 600 * US,
        began_ns=now,
        duration_ns=0,
        span_ns=600 * US,
        slack_ns=[500 * US],
        idle_ns=[MS],
    )
    return went


@pytest.mark.parametrize(("rarely_ms", "went"), [(None, True), (1, True), (COVERED_MS // 2, True), (50, False)])
def test_a_kernel_whose_rare_launches_take_most_of_its_time_goes_if_the_budget_covers_such_a_launch(
    rarely_ms: int | None, *, went: bool
) -> None:
    """A rare launch within the budget costs a kernel nothing: so honest kernels of two lengths go as before."""
    feared = {} if rarely_ms is None else {"feared_ns": rarely_ms * MS}
    assert goes(policy(), MS, 1, duration_ns=5 * US, **feared) is went


def test_a_full_budget_pays_for_a_rare_launch_that_is_longer_than_it_covers() -> None:
    """A kernel of a program whose lengths depend on its data is not kept out for good."""
    assert goes(policy(tuning={"saved_ns": FULL_NS}), MS, 1, duration_ns=5 * US, feared_ns=50 * MS)


def test_a_run_that_begins_with_such_a_kernel_does_not_go_either() -> None:
    run = {"run_launches": 8, "run_ns": 40 * US, "long_run_launches": 16, "long_run_ns": 80 * US}
    assert goes(policy(), MS, 1, duration_ns=5 * US, **run)
    assert not goes(policy(), MS, 1, duration_ns=5 * US, feared_ns=50 * MS, **run)


@pytest.mark.parametrize(("longest_ms", "went"), [(0.4, True), (2, False)])
def test_max_delay_goes_by_the_longest_that_was_seen(longest_ms: float, *, went: bool) -> None:
    """However rare: without max_delay the budget pays for it."""
    length = {"duration_ns": 5 * US, "longest_ns": int(longest_ms * MS)}
    assert goes(policy(max_delay_ns=MS), MS, 1, **length) is went
    assert goes(policy(), MS, 1, **length)


@pytest.mark.parametrize(("longer_ms", "launches"), [(0, 8), (2, 1)])
def test_max_delay_holds_against_a_long_kernel_later_in_a_run(longer_ms: int, launches: int) -> None:
    made = policy(max_delay_ns=MS)
    made.event("launched", HIGH, MS, duration_ns=100 * US, slack_ns=[500 * US])
    length = {"duration_ns": 5 * US, "run_launches": 8, "run_ns": 40 * US, "run_longer_ns": longer_ms * MS}
    granted = [
        decision for decision in made.event("waiting", LOW, MS + 1, request=1, **length) if decision[0] == "grant"
    ]
    assert [decision[3] for decision in granted] == [launches]


SLACK = 10 * MS
"""Enough for what is guessed of a kernel, and not for one of 50 ms."""


def unknown(made: Policy, now: int, request: int, took: int, *, end: str = "grant_done") -> int:
    """A kernel of unknown length goes beside an idle high client and takes so long; when it is over."""
    assert grants(made.event("waiting", LOW, now, request=request)) == [LOW]
    made.event("launched", LOW, now + 10 * US, granted=True, request=request)
    if end == "grant_done":
        made.event("grant_done", LOW, now + 10 * US + took, request=request)
    elif end == "drained":
        made.event("drained", LOW, now + 10 * US + took, duration_ns=0)
    return now + 10 * US + took


@pytest.mark.parametrize("end", ["grant_done", "drained"])
@pytest.mark.parametrize(("took", "went"), [(300 * US, True), (50 * MS, False)])
def test_a_kernel_of_unknown_length_is_feared_to_take_what_the_clients_last_one_took(
    took: int, end: str, *, went: bool
) -> None:
    """Each launch of 50 ms may be of a new kernel."""
    made = policy()
    now = unknown(made, MS, 1, took, end=end)
    assert goes(made, now + MS, 2) is went


def test_what_nobody_said_the_end_of_may_have_taken_a_lease() -> None:
    made = policy()
    now = unknown(made, MS, 1, 0, end="never")
    now = unknown(made, now + S, 2, 0, end="never")
    assert not goes(made, now + 200 * MS, 3)


def test_a_single_long_kernel_is_feared_for_two_seconds_and_another_one_for_four() -> None:
    """One mishap, the loading of a module for one, does not hold a client back for long."""
    made = policy()
    now = unknown(made, MS, 1, 50 * MS)
    assert not goes(made, now + S, 2, slack=SLACK)
    assert goes(made, now + 3 * S, 3, slack=SLACK)
    made = policy()
    now = unknown(made, unknown(made, MS, 1, 50 * MS) + 3 * S, 2, 50 * MS)
    assert not goes(made, now + 3 * S, 3, slack=SLACK)
    assert goes(made, now + 5 * S, 4, slack=SLACK)


def test_max_delay_remembers_a_long_kernel_for_a_minute() -> None:
    for max_delay, went in (({}, True), ({"max_delay_ns": MS}, False)):
        made = policy(**max_delay)
        now = unknown(made, MS, 1, 50 * MS)
        assert goes(made, now + 30 * S, 2, slack=SLACK) is went
