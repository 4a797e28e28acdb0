"""Why a client waits, and for whom: every policy says it of every client that it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from fikitd._core import REASONS, Policy
from hypothesis import example, given
from hypothesis import strategies as st
from test_policy_gates import LEASE, MS, US, with_clients
from test_policy_invariants import HISTORY, World, checked, play

POLICIES = [
    "exclusive", "excl", "prio", "prio2", "prio4", "xsched", "xsched2", "tally", "tgs", "paper", "paper", "budget", "budget",
]  # fmt: skip
OF_A_HIGHER_CLIENT = {"behind", "does_not_fit", "budget_spent", "limit"}


PATIENCE = 10 * MS  # so late the word that a kernel is over may be: kPatienceNs


@dataclass
class Witness(World):
    """After every event, asks the policy about everybody. Leaves the rules of granting to test_policy_invariants.py."""

    ends: dict[int, int] = field(default_factory=dict)  # of what was granted to a client and is not known to be over

    def on_grant(self, client: int, request: int, launches: int) -> None:
        mine = self.clients[client]
        assert mine.waiting is not None
        _, length = mine.waiting
        takes = LEASE if length is None else length + max(length // 2, PATIENCE)
        self.ends[client] = max([self.now, *self.ends.values()]) + takes
        mine.waiting = None

    def event(self, kind: str, client: int = 0, **fields: Any) -> None:
        if kind in ("drained", "grant_done", "client_removed"):
            self.ends.pop(client, None)
        super().event(kind, client, **fields)
        for number, seen in self.clients.items():
            held = self.policy.held(number)
            assert (held is not None) == (seen.waiting is not None)
            if held is not None:
                self.check(number, *held)

    def check(self, number: int, reason: str, by: int) -> None:
        mine, blamed = self.clients[number], self.clients.get(by)
        assert blamed is not None, "the one that is blamed is there"
        assert not blamed.measuring
        if reason in OF_A_HIGHER_CLIENT:
            assert blamed.priority < mine.priority
        elif reason == "turn":
            assert by != number
            assert blamed.priority == mine.priority
            runs = self.ends.get(by, 0) >= self.now
            assert blamed.waiting or runs, "only who waits itself can go first, or whose kernel runs: its next one"
        elif reason == "run_ahead":
            assert blamed.closed, "lower work is that of clients with a closed gate"
        elif reason == "unknown":
            assert mine.waiting is not None
            assert mine.waiting[1] is None, "its length is known"
        else:
            assert reason == "uncertain"


# One is granted in the same decision in which its equal, who has had more, is told to wait for it.
OF_A_KERNEL_THAT_RUNS = [
    ("wait", 3, 0, None, None, 0),
    ("wait", 1, 0, 1_100_005, None, 0),
    ("tick", 1, 0, None, None, 3_628_801),
    ("tick", 1, 0, None, None, 90_341_913),
    ("wait", 1, 0, None, None, 0),
    ("wait", 3, 0, 4, None, 0),
    ("drain", 3, 0, None, None, 0),
]


@pytest.mark.takes_seconds
@checked
@given(st.sampled_from(POLICIES), HISTORY)
@example("budget", ([5, 1, 5], OF_A_KERNEL_THAT_RUNS))
def test_whoever_waits_knows_why_and_for_whom(name: str, history: tuple[list[int], list[Any]]) -> None:
    priorities, steps = history
    play(Witness(name, priorities), steps)


@pytest.mark.takes_seconds
@checked
@given(st.sampled_from(["prio", "paper", "budget"]), HISTORY)
def test_reasons_are_the_same_after_the_same_history(name: str, history: tuple[list[int], list[Any]]) -> None:
    priorities, steps = history
    said = []
    for _ in range(2):
        world = World(name, priorities) if name == "paper" else Witness(name, priorities)
        play(world, steps)
        said.append({number: world.policy.held(number) for number in world.clients})
    assert said[0] == said[1]


@pytest.mark.parametrize("name", ["prio", "paper", "xsched", "tally"])
def test_behind_a_higher_client_that_works(name: str) -> None:
    policy = with_clients(name, 1, 8)
    policy.event("launched", 1, 0, duration_ns=MS, gap_ns=0)
    policy.event("waiting", 2, 10, request=1, duration_ns=5 * US)
    assert policy.held(2) == ("behind", 1)


@pytest.mark.parametrize("name", ["prio", "paper", "xsched", "budget"])
def test_uncertain_is_a_higher_client_whose_work_has_no_known_length(name: str) -> None:
    policy = with_clients(name, 1, 8)
    policy.event("launched", 1, 0)
    policy.event("waiting", 2, 10, request=1, duration_ns=MS)
    assert policy.held(2) == ("uncertain", 1)


def test_a_kernel_that_is_longer_than_the_gap_does_not_fit_and_an_unknown_one_says_so() -> None:
    policy = with_clients("paper", 1, 8, 8)
    policy.event("launched", 1, 0, duration_ns=100 * US, gap_ns=MS)
    policy.event("drained", 1, 100 * US, duration_ns=0)
    policy.event("waiting", 2, 200 * US, request=1, duration_ns=5 * MS)
    policy.event("waiting", 3, 200 * US, request=1)
    assert policy.held(2) == ("does_not_fit", 1)
    assert policy.held(3) == ("unknown", 1)


def test_one_lower_kernel_in_flight_holds_the_next() -> None:
    policy = with_clients("prio", 1, 8, 8)
    policy.event("waiting", 2, 0, request=1, duration_ns=MS)
    policy.event("waiting", 3, 10, request=1, duration_ns=MS)
    assert policy.held(2) is None
    assert policy.held(3) == ("run_ahead", 2)


def test_equals_wait_for_their_turn_and_lower_ones_behind_the_first() -> None:
    policy = with_clients("paper", 1, 5, 5, 8)
    policy.event("waiting", 2, 10 * MS, request=1, duration_ns=MS)  # the first of all: goes, and is in flight
    policy.event("waiting", 2, 10 * MS, request=2, duration_ns=3 * MS)
    policy.event("waiting", 3, 10 * MS + 1, request=1, duration_ns=3 * MS)
    policy.event("waiting", 4, 10 * MS + 2, request=1, duration_ns=10)
    assert [policy.held(number) for number in (2, 3, 4)] == [("run_ahead", 2), ("turn", 2), ("behind", 2)]


def test_budget_tells_a_spent_budget_from_a_kernel_that_is_too_long() -> None:
    """What a client begins with is not enough for a kernel of 20 ms; for one of 5 ms there is a budget, and a price."""
    policy = with_clients("budget", 1, 8)
    idle = {"slack_ns": [0], "idle_ns": [2 * MS], "span_ns": 10 * MS}
    policy.event("launched", 1, 0, duration_ns=10 * US)
    policy.event("drained", 1, 10 * US, duration_ns=0, **idle)
    policy.event("waiting", 2, 20 * US, request=1, duration_ns=20 * MS)
    assert policy.held(2) == ("budget_spent", 1)

    policy = with_clients("budget", 1, 8)
    policy.event("launched", 1, 0, duration_ns=100 * MS)
    policy.event("drained", 1, 100 * MS, duration_ns=0, **idle)
    policy.event("waiting", 2, 101 * MS, request=1, duration_ns=5 * MS)
    assert policy.held(2) == ("does_not_fit", 1)


def test_a_rate_limit_names_the_client_for_whose_sake_it_is() -> None:
    policy = with_clients("tgs", 1, 8)
    policy.event("waiting", 2, 10, request=1, duration_ns=10)
    assert policy.held(2) == ("limit", 1)


def test_nobody_is_held_without_waiting_and_a_client_that_gave_up_is_not_held() -> None:
    policy = with_clients("prio", 1, 8)
    assert policy.held(2) is None
    assert policy.held(77) is None
    policy.event("launched", 1, 0, duration_ns=LEASE)
    policy.event("waiting", 2, 10, request=1, duration_ns=10)
    assert policy.held(2) == ("behind", 1)
    policy.event("waiting_ended", 2, 20, request=1)
    assert policy.held(2) is None


def test_reasons_have_names_of_their_own() -> None:
    assert len(set(REASONS)) == len(REASONS)
    assert Policy("paper").held(1) is None


def test_an_equal_that_neither_waits_nor_runs_keeps_nobody_waiting() -> None:
    high, mine, lower, now = 1, 2, 4, 1 * MS  # 3 is the equal
    made = with_clients("budget", 1, 5, 5, 8)
    rest = [1000 * MS] * 8
    made.event("launched", high, 0, duration_ns=10 * US, slack_ns=rest)
    made.event("drained", high, now, duration_ns=0, slack_ns=rest, idle_ns=rest)

    def asks(client: int, request: int, length: int) -> bool:
        decisions = made.event("waiting", client, now, request=request, duration_ns=length)
        return ("grant", client, request, 1) in decisions

    assert asks(mine, 1, 5 * MS)
    now += 5 * MS
    made.event("grant_done", mine, now, request=1)
    assert asks(lower, 1, 10 * US)
    assert asks(mine, 2, 50 * US), "the equal, which has had nothing, asks for nothing"
