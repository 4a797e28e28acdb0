"""What holds after any history of events, checked against a model of the test's own (not against the policy's state)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fikitd._core import Policy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_policy_gates import MS, US

from examples import examples

LEASE = 100 * MS


@dataclass
class Seen:
    """What the world knows of a client."""

    priority: int
    measuring: bool
    closed: bool = False
    waiting: tuple[int, int | None] | None = None  # request, duration
    requests: int = 0
    runs_until: int = 0  # known work cannot be over before, unless a drain said so
    unknown_since: int | None = None  # a granted kernel of unknown length, not reported done
    known_work: int = 0


@dataclass
class World:
    """Feeds a policy, follows its decisions, checks each of them."""

    name: str
    priorities: list[int]  # of clients 1, 2, ...: there from the start
    policy: Policy = field(init=False)
    now: int = 0
    clients: dict[int, Seen] = field(default_factory=dict)
    wake_at: int | None = None
    passed: int = 0  # grants and opened gates
    options: dict[str, Any] = field(default_factory=dict)  # of the policy

    def __post_init__(self) -> None:
        self.policy = Policy(self.name, lease_ns=LEASE, **self.options)
        for number, priority in enumerate(self.priorities, start=1):
            self.clients[number] = Seen(priority, measuring=False)
            self.event("client_added", number, priority=priority)

    def event(self, kind: str, client: int = 0, **fields: Any) -> None:
        decisions = self.policy.event(kind, client, self.now, **fields)
        assert self.policy.index_agrees()
        self.wake_at = None
        for decision in sorted(decisions, key=lambda decision: decision[0] != "open"):  # of one moment
            getattr(self, f"on_{decision[0]}")(*decision[1:])
        for seen in self.clients.values():
            outranked = any(o.priority < seen.priority and not o.measuring for o in self.clients.values())
            expected = self.name != "fifo" and outranked and not seen.measuring
            assert seen.closed == expected, "a gate is closed exactly when a higher client is there"

    def on_open(self, client: int) -> None:
        assert self.clients[client].closed
        self.clients[client].closed = False
        if self.clients[client].waiting:
            self.passed += 1
        self.clients[client].waiting = None

    def on_close(self, client: int) -> None:
        assert not self.clients[client].closed
        self.clients[client].closed = True

    def on_wake_at(self, time: int) -> None:
        assert time > self.now, "a moment in the past would make the dispatcher spin"
        assert any(c.waiting for c in self.clients.values()), "nobody waits: nothing to wake for"
        self.wake_at = time

    def on_grant(self, client: int, request: int, launches: int) -> None:
        mine = self.clients[client]
        assert launches == 1, "nobody said what follows"
        assert mine.waiting is not None
        waited_for, duration = mine.waiting
        assert waited_for == request
        for other in self.clients.values():
            if other.measuring or other.priority >= mine.priority:
                continue
            if self.name == "budget":
                continue  # may run beside a higher client; what it may cost is in test_policy_budget.py
            assert self.now >= other.runs_until, "a higher client's known work is running"
            if other.waiting is None:
                continue
            assert self.name == "paper", "prio: a higher client waits"
            assert duration is not None, "an unknown kernel overtook a higher client"
            assert other.waiting[1] is None or other.waiting[1] > duration, "a higher client's kernel would have fitted"
        ages = (
            self.options.get("starvation_timeout_ns", 1_000 * MS) < LEASE
        )  # who has waited so long goes beside whatever is above
        unknown = [
            c for c in self.clients.values()
            if c.unknown_since is not None and self.now - c.unknown_since < LEASE and (c.closed or not ages)
            and c.priority <= mine.priority  # those above wait only for as long as it was guessed to take
        ]  # fmt: skip
        assert not unknown, (
            "of a level one kernel of unknown length is in flight, and nothing lower is granted beside it"
        )
        mine.waiting = None
        if duration is None:
            mine.unknown_since = self.now
        else:
            mine.runs_until = self.now + duration
            mine.known_work += duration
        self.passed += 1


SOME_TIME = st.one_of(st.integers(0, 50 * US), st.integers(0, 5 * MS), st.integers(0, 2 * LEASE))
LENGTH = st.one_of(st.none(), st.integers(0, 100 * US), st.integers(0, 20 * MS))
ACTIONS = {"tick": 3, "wait": 6, "launch": 3, "done": 2, "drain": 1, "give up": 1, "add": 2, "remove": 1}
STEP = st.tuples(
    st.sampled_from([action for action, weight in ACTIONS.items() for _ in range(weight)]),
    st.integers(1, 4),
    st.integers(0, 9),
    LENGTH,
    LENGTH,
    SOME_TIME,
)
HISTORY = st.tuples(
    st.lists(st.sampled_from([1, 5, 5, 8]), min_size=2, max_size=4),
    st.lists(STEP, min_size=20, max_size=60),
)


def play(world: World, steps: list[tuple[str, int, int, int | None, int | None, int]]) -> None:
    for action, number, priority, length, gap, pause in steps:
        world.now += pause
        seen = world.clients.get(number)
        if action == "add" and seen is None:
            world.clients[number] = Seen(priority, measuring=bool(length and length % 7 == 0))
            world.event("client_added", number, priority=priority, measuring=world.clients[number].measuring)
        elif seen is None or action == "tick":
            world.event("tick")
        elif action == "remove":
            del world.clients[number]
            world.event("client_removed", number)
        elif action == "launch" and not seen.closed:
            if length is not None:
                seen.runs_until = max(seen.runs_until, world.now + length)
                seen.known_work += length
            world.event("launched", number, duration_ns=length, gap_ns=gap)
        elif action == "wait" and seen.closed and seen.waiting is None:
            seen.requests += 1
            seen.waiting = (seen.requests, length)
            world.event("waiting", number, request=seen.requests, duration_ns=length)
        elif action == "drain":
            seen.runs_until, seen.unknown_since = world.now, None
            world.event("drained", number, duration_ns=0)
        elif action == "done" and seen.requests and not seen.waiting:
            seen.runs_until, seen.unknown_since = world.now, None
            world.event("grant_done", number, request=seen.requests)
        elif action == "give up" and seen.waiting:
            request, seen.waiting = seen.waiting[0], None
            world.event("waiting_ended", number, request=request)


def until_somebody_passes(world: World, within: int) -> None:
    """If somebody waits: driven by wake_at alone, one passes within this time beside the known work."""
    if not any(c.waiting for c in world.clients.values()):
        return
    passed = world.passed
    deadline = world.now + sum(c.known_work for c in world.clients.values()) * 3 // 2 + within
    while world.passed == passed:
        assert world.wake_at is not None, "somebody waits, and the policy does not want to be asked again"
        world.now = world.wake_at
        assert world.now <= deadline
        world.event("tick")


def checked(test: Any) -> Any:
    return settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])(test)


@checked
@given(st.sampled_from(["fifo", "prio", "paper", "paper", "budget"]), HISTORY)
def test_no_history_makes_a_policy_break_its_rules(name: str, history: tuple[list[int], list[Any]]) -> None:
    priorities, steps = history
    play(World(name, priorities), steps)


@checked
@given(st.sampled_from(["prio", "paper"]), HISTORY)
def test_silence_holds_a_waiting_client_for_at_most_the_known_work_and_two_leases(
    name: str, history: tuple[list[int], list[Any]]
) -> None:
    """One lease for work of unknown length, one for a gap that was predicted too long; driven by wake_at alone."""
    priorities, steps = history
    world = World(name, priorities)
    play(world, steps)
    until_somebody_passes(world, 2 * LEASE + MS)


@checked
@given(st.sampled_from(["paper", "budget"]), HISTORY)
def test_a_client_that_left_is_never_named_again(name: str, history: tuple[list[int], list[Any]]) -> None:
    priorities, steps = history
    world = World(name, priorities)
    play(world, steps)
    for number in list(world.clients):
        del world.clients[number]
        world.event("client_removed", number)  # on_* would fail on an unknown number
    world.now += LEASE
    assert world.policy.event("tick", 0, world.now) == []


@checked
@given(st.sampled_from(["budget"]), HISTORY)
def test_nobody_waits_for_longer_than_ageing_and_the_work_in_flight(
    name: str, history: tuple[list[int], list[Any]]
) -> None:
    """Driven by wake_at alone: one that waits goes after starvation_timeout_ns (1 s), as soon as the lower work in flight allows; below a
    client that has paid more than it had, ten times that."""
    priorities, steps = history
    world = World(name, priorities)
    play(world, steps)
    until_somebody_passes(world, 10_100 * MS + 2 * LEASE)


@checked
@given(st.sampled_from(["budget"]), HISTORY)
def test_after_the_same_history_decisions_are_the_same(name: str, history: tuple[list[int], list[Any]]) -> None:
    priorities, steps = history
    worlds = World(name, priorities), World(name, priorities)
    for world in worlds:
        play(world, steps)
    assert worlds[0].clients == worlds[1].clients
    assert worlds[0].wake_at == worlds[1].wake_at
