"""Where many wait below `budget`: what is refused to many at once is what each of them would be told alone."""

from __future__ import annotations

from typing import Any

import pytest
from fikitd._core import Policy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_policy_budget import outside, policy
from test_policy_gates import MS, US, grants
from test_policy_invariants import SOME_TIME, World, play

STRANGER = 99
ACTIONS = {"tick": 2, "wait": 20, "launch": 6, "done": 5, "drain": 5, "give up": 1, "add": 1, "remove": 1}
LENGTH = st.one_of(
    st.none(), st.sampled_from([40 * US, 41 * US, 45 * US]), st.integers(0, 200 * US), st.integers(0, 20 * MS)
)
STEP = st.tuples(
    st.sampled_from([action for action, weight in ACTIONS.items() for _ in range(weight)]),
    st.integers(1, 16),
    st.sampled_from([1, 5, 8, 8]),
    LENGTH,
    LENGTH,
    SOME_TIME,
)
CROWD = st.tuples(
    st.lists(st.sampled_from([1, 5, 8, 8, 8, 8]), min_size=12, max_size=16),
    st.lists(STEP, min_size=40, max_size=90),
    st.sampled_from([{}, {"ageing_ns": 5 * MS}, {"run_ahead_ns": 0}, {"run_ahead_ns": 2 * MS}]),
)


class Watched(World):
    """Keeps every decision and every reason."""

    def __post_init__(self) -> None:
        self.said: list[Any] = []
        super().__post_init__()

    def event(self, kind: str, client: int = 0, **fields: Any) -> None:
        super().event(kind, client, **fields)
        if client == STRANGER:
            return
        held = {number: self.policy.held(number) for number in self.clients}
        waiting = {number: seen.waiting for number, seen in self.clients.items()}
        self.said.append((self.now, self.wake_at, held, waiting))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(CROWD)
def test_each_of_a_crowd_knows_why_it_waits_whoever_else_comes_and_goes(
    crowd: tuple[list[int], list[Any], dict[str, Any]],
) -> None:
    """Somebody of no account comes and leaves: everybody's row moves, and all is asked and said anew."""
    priorities, steps, options = crowd
    alone, disturbed = (Watched("budget", priorities, options=options) for _ in range(2))
    for number, step in enumerate(steps):
        for world in (alone, disturbed):
            play(world, [step])
            if number % 3 == 0:
                world.event("tick")
        if number % 3 == 0:
            disturbed.event("client_added", STRANGER, priority=0, measuring=True)
            disturbed.event("client_removed", STRANGER)
        assert disturbed.said == alone.said


class Repeated(World):
    """Asks again at once what was decided a moment before."""

    def event(self, kind: str, client: int = 0, **fields: Any) -> None:
        super().event(kind, client, **fields)
        before = (self.wake_at, {number: self.policy.held(number) for number in self.clients}, self.passed)
        super().event("tick")
        assert (self.wake_at, {number: self.policy.held(number) for number in self.clients}, self.passed) == before


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(CROWD)
def test_after_several_grants_in_one_decision_those_left_are_told_what_the_next_one_would_tell_them(
    crowd: tuple[list[int], list[Any], dict[str, Any]],
) -> None:
    priorities, steps, options = crowd
    world = Repeated("budget", priorities, options=options)
    for step in steps:
        play(world, [step])


@pytest.mark.parametrize("options", [{}, {"max_delay_ns": 12 * MS}, {"max_slowdown": 0}])
@pytest.mark.parametrize("at_work", [True, False])
def test_of_a_crowd_each_is_told_what_it_would_be_told_alone(options: dict[str, Any], at_work: bool) -> None:
    """Kernels that do not fit, that there is not enough budget for, and that a max_delay forbids."""
    lows = {10 + number: number * MS for number in (1, 2, 3, 5, 7, 11, 14, 18, 25, 40)}

    def told(waiting: set[int]) -> list[Any]:
        made = Policy("budget", **options)
        made.event("client_added", 1, 0, priority=1)
        for low in lows:
            made.event("client_added", low, 0, priority=8)
        made.event("launched", 1, 0, slack_ns=[1] * 8)  # for how long is not known, so everybody waits
        for low in waiting:
            assert grants(made.event("waiting", low, 0, request=1, duration_ns=lows[low])) == []
        made.event("drained", 1, 0, began_ns=0, duration_ns=0, slack_ns=[1] * 8, idle_ns=[1] * 8)
        if at_work:
            made.event("launched", 1, 0, duration_ns=3 * MS, slack_ns=[1] * 8)
        return [made.held(low) for low in sorted(waiting)]

    together = told(set(lows))
    assert together == [held for low in sorted(lows) for held in told({low})]
    assert len({held[0] for held in together}) == (
        1 if options.get("max_slowdown") == 0 or (at_work and not options) else 2
    )


def test_of_a_crowd_each_is_told_alone_what_is_no_fair_price() -> None:
    """Below a high job whose requests wait for each other, with a full budget: 4 ms or more would cost them more than that."""
    lows = {10 + number: number * MS for number in (4, 5, 6, 7, 8, 10, 12, 16, 20, 35, 40, 50)}

    def told(waiting: set[int]) -> list[Any]:
        made = policy()
        now = outside(made, 0.5)
        for low in waiting:
            made.event("client_added", low, now, priority=8)
            assert grants(made.event("waiting", low, now + 1, request=1, duration_ns=lows[low])) == []
        return [made.held(low) for low in sorted(waiting)]

    together = told(set(lows))
    assert together == [held for low in sorted(lows) for held in told({low})]
    assert [held[0] for held in together] == ["does_not_fit"] * 9 + ["budget_spent"] * 3
