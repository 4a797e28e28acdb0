"""What holds for `budget` after any history: nothing beyond the budget, nobody forgotten, equal shares, one answer.

Rules of all policies are in test_policy_invariants.py, whose World plays histories and checks each decision.
"""

from __future__ import annotations

from typing import Any

import pytest
from fikitd._core import Policy
from hypothesis import given, settings
from hypothesis import strategies as st
from test_policy_gates import LEASE, MS, US, grants, wake
from test_policy_invariants import HISTORY, Seen, World, checked, play

from examples import examples

S = 1_000_000_000
HIGH = 1
NEVER_AGED = 1_000_000 * S


LESS_FEARED = 60 * S
"""Of what all of lower work once cost: 0.22 s / 0.005 = 44 s after the client came to rest hardly anything is feared."""
PATIENT = {"starvation_timeout_ns": NEVER_AGED}
"""Nobody goes because of its age: what is forgotten stays forgotten."""


def at_rest(world: World, number: int) -> None:
    """What this client has on the device is over, and it is known to need nothing for a long time."""
    seen = world.clients[number]
    if not seen.closed:
        world.event("launched", number, duration_ns=0, slack_ns=[1000 * S])
    seen.runs_until, seen.unknown_since = world.now, None
    world.event("drained", number, duration_ns=0, slack_ns=[1000 * S], idle_ns=[1000 * S], span_ns=0)


@pytest.mark.takes_seconds
@checked
@given(HISTORY, st.randoms(use_true_random=False))
def test_whoever_waits_goes_once_nobody_above_objects_whatever_happened_before(
    history: tuple[list[int], list[Any]], source: Any
) -> None:
    """In any order the highest clients come to rest, and those between them and the lowest, of whom nobody can say that they
    will, leave. The lowest say nothing any more: it is driven by wake_at alone, for as long as the work takes that is
    known, and a lease for each kernel of unknown length."""
    world = World("budget", history[0], options=PATIENT)
    play(world, history[1])
    order = list(world.clients)
    source.shuffle(order)
    lowest = max((seen.priority for seen in world.clients.values()), default=0)
    for number in order:
        if not world.clients[number].closed:
            at_rest(world, number)
        elif world.clients[number].priority < lowest:
            del world.clients[number]
            world.event("client_removed", number)
    work = sum(seen.known_work + (seen.waiting[1] or 0) for seen in world.clients.values() if seen.waiting)
    work += sum(seen.known_work for seen in world.clients.values())
    # What lower work has cost is feared for a while after all those above came to rest, the longer the less.
    deadline = world.now + 2 * work + (2 * len(world.clients) + 1) * LEASE + LESS_FEARED
    while any(seen.waiting for seen in world.clients.values()):
        assert world.wake_at is not None, "somebody waits, and nobody will ask again"
        assert world.wake_at <= deadline, "somebody waits for nothing"
        world.now = world.wake_at
        world.event("tick")


LENGTHS = st.lists(st.lists(st.integers(1 * US, 3 * MS), min_size=3, max_size=3), min_size=5, max_size=40)


@settings(max_examples=examples(80))
@given(LENGTHS, st.sampled_from([0.01, 0.05, 0.2]), st.sampled_from([0, 500 * US, 50 * MS]))
def test_grants_of_one_decision_are_together_within_the_budget(
    rounds: list[list[int]], share: float, run_ahead: int
) -> None:
    """Three low clients wait, a high one without slack: each granted kernel is a delay, whoever it belongs to."""
    made = Policy("budget", max_slowdown=share, starvation_timeout_ns=NEVER_AGED, run_ahead_ns=run_ahead)
    made.event("client_added", HIGH, 0, priority=1)
    for low in (2, 3, 4):
        made.event("client_added", low, 0, priority=8)
    now, progress, delayed = 10 * MS, 0, 0
    for request, lengths in enumerate(rounds, start=1):
        for _ in range(80 if request == 1 else 4):  # more than can be saved up
            made.event("launched", HIGH, now, duration_ns=10 * MS, slack_ns=[1])
            now, progress = now + 10 * MS, progress + 10 * MS
            made.event("drained", HIGH, now, began_ns=now, duration_ns=0, slack_ns=[1], idle_ns=[1])
        made.event("launched", HIGH, now, duration_ns=10 * MS, slack_ns=[1])
        granted = []
        for low, length in zip((2, 3, 4), lengths, strict=True):
            granted += grants(made.event("waiting", low, now, request=request, duration_ns=length))
        assert delayed + sum(lengths[low - 2] for low in granted) <= share * progress
        now, progress = now + 10 * MS, progress + 10 * MS
        granted += grants(made.event("drained", HIGH, now, began_ns=now, duration_ns=0, slack_ns=[1], idle_ns=[1]))
        took = sum(lengths[low - 2] for low in granted)
        delayed += took
        assert delayed <= share * progress
        made.event("launched", HIGH, now + 1, duration_ns=0, slack_ns=[1])
        now += took + 2
        for low in (2, 3, 4):
            if low in granted:
                made.event("launched", low, now, granted=True, request=request, duration_ns=lengths[low - 2])
                made.event("grant_done", low, now, request=request)
            else:
                made.event("waiting_ended", low, now, request=request)
        made.event("drained", HIGH, now, began_ns=now - took, duration_ns=0, slack_ns=[1], idle_ns=[1])
        now += 1


@pytest.mark.takes_seconds
@checked
@given(HISTORY, st.lists(st.integers(0, 9), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_clients_that_came_and_went_leave_nothing_behind(
    history: tuple[list[int], list[Any]], others: list[int], source: Any
) -> None:
    """The same history among other slots, in another order of the table: the same decisions, to the nanosecond."""
    fresh, used = Recorded("budget", history[0]), Recorded("budget", [])
    strangers = list(range(100, 100 + len(others)))
    for number, priority in zip(strangers, others, strict=True):
        used.policy.event("client_added", number, 0, priority=priority)
    source.shuffle(strangers)
    half = len(strangers) // 2
    for number in strangers[:half]:
        used.policy.event("client_removed", number, 0)
    numbers = list(fresh.clients)
    source.shuffle(numbers)
    for number in numbers:
        used.policy.event("client_added", number, 0, priority=fresh.clients[number].priority)
    for number in strangers[half:]:
        used.policy.event("client_removed", number, 0)
    used.clients = {number: Seen(seen.priority, seen.measuring, seen.closed) for number, seen in fresh.clients.items()}
    for world in (fresh, used):
        world.said = []
        play(world, history[1])
        for number in sorted(world.clients, key=lambda number: world.clients[number].closed):
            at_rest(world, number)  # so that those who wait go, one after the other
    assert used.said == fresh.said


class Recorded(World):
    """Keeps every decision."""

    def __post_init__(self) -> None:
        self.said: list[Any] = []
        super().__post_init__()

    def event(self, kind: str, client: int = 0, **fields: Any) -> None:
        super().event(kind, client, **fields)
        self.said.append((self.now, self.wake_at, {n: (c.closed, c.waiting) for n, c in sorted(self.clients.items())}))


@settings(max_examples=examples(80))
@given(
    st.lists(st.tuples(st.integers(10 * US, 10 * MS), st.integers(10 * US, 10 * MS)), min_size=2, max_size=4),
    st.sampled_from([0, 500 * US, 3 * MS]),
    st.randoms(use_true_random=False),
)
def test_equals_that_always_want_more_get_equal_device_time(
    kinds: list[tuple[int, int]], run_ahead: int, source: Any
) -> None:
    """Each has kernels of two lengths, and asks for the next as soon as one is launched: some grants later, it may be."""
    made = Policy("budget", run_ahead_ns=run_ahead, **PATIENT)
    made.event("client_added", HIGH, 0, priority=1)
    made.event("launched", HIGH, 0, duration_ns=1 * US, slack_ns=[1])  # nothing goes before all of them ask
    lows = range(2, 2 + len(kinds))
    for low in lows:
        made.event("client_added", low, 0, priority=8)
    served, asked, lengths = dict.fromkeys(lows, 0), dict.fromkeys(lows, 0), dict.fromkeys(lows, 0)
    running: list[tuple[int, int, int]] = []  # end on the device, client, request
    granted: list[int] = []  # not launched yet
    now, wake_at = 0, None

    def tell(kind: str, client: int, **fields: Any) -> None:
        nonlocal wake_at
        decisions = made.event(kind, client, now, **fields)
        wake_at = wake(decisions)
        for low in grants(decisions):
            end = max(now, running[-1][0] if running else 0) + lengths[low]
            running.append((end, low, asked[low]))
            served[low] += lengths[low]
            granted.append(low)

    def ask(low: int) -> None:
        asked[low] += 1
        lengths[low] = source.choice(kinds[low - 2])
        tell("waiting", low, request=asked[low], duration_ns=lengths[low])

    for low in lows:
        ask(low)
    assert not granted
    tell("launched", HIGH, duration_ns=0, slack_ns=[100_000 * S])
    longest = max(max(kind) for kind in kinds)
    for _ in range(400):
        if granted:
            low = granted.pop(0)
            tell("launched", low, granted=True, request=asked[low], duration_ns=lengths[low])
            ask(low)
            continue
        assert wake_at is not None, "all of them wait"
        assert max(served.values()) - min(served.values()) <= 2 * longest + max(run_ahead, 1 * MS)
        now = min(wake_at, running[0][0]) if running else wake_at
        if running and running[0][0] <= now:
            _, low, request = running.pop(0)
            tell("grant_done", low, request=request)
        else:
            tell("tick", 0)


@pytest.mark.takes_seconds
@checked
@given(HISTORY, st.integers(1, 4))
def test_who_holds_what_a_kernel_on_a_device_waits_for_goes_at_once(
    history: tuple[list[int], list[Any]], number: int
) -> None:
    """Priority inheritance: a kernel of its job runs and waits for it, on whatever GPU."""
    world = World("budget", history[0], options=PATIENT)
    play(world, history[1])
    seen = world.clients.get(number)
    if seen is None or seen.waiting is None:
        return
    assert ("grant", number, seen.waiting[0], 1) in world.policy.event(
        "exclusive_runs", number, world.now, exclusive=True
    )


EIGHT_TIMES = st.lists(st.integers(0, 30 * MS), min_size=8, max_size=8).map(sorted)


@pytest.mark.takes_seconds
@settings(max_examples=examples(150))
@given(
    EIGHT_TIMES,
    EIGHT_TIMES,
    st.lists(st.tuples(st.integers(1, 20 * MS), st.sampled_from([5, 8])), min_size=9, max_size=14),
    st.integers(0, 80),
    st.sampled_from([0, 100 * US, 5 * MS]),
)
def test_of_a_crowd_goes_the_first_of_those_who_could_go_alone(
    slack: list[int], idle: list[int], lows: list[tuple[int, int]], segments: int, late: int
) -> None:
    """Where many wait, kernels of about the same length are refused together: for none that could go, and never wrongly."""

    def decide(waiting: set[int]) -> list[int]:
        made = Policy("budget", run_ahead_ns=0, **PATIENT)
        made.event("client_added", HIGH, 0, priority=1)
        for number, (_, priority) in enumerate(lows, start=2):
            made.event("client_added", number, 0, priority=priority)
        now = 10 * MS
        for _ in range(segments):
            made.event("launched", HIGH, now, duration_ns=10 * MS, slack_ns=[1])
            now += 10 * MS
            made.event("drained", HIGH, now, began_ns=now, duration_ns=0, slack_ns=[1], idle_ns=[1])
        made.event("launched", HIGH, now, slack_ns=slack)  # for how long is not known, so everybody waits
        for number, (length, _) in enumerate(lows, start=2):
            if number in waiting:
                assert grants(made.event("waiting", number, now, request=1, duration_ns=length)) == []
        now += 50 * MS + late
        return grants(made.event("drained", HIGH, now, began_ns=now, duration_ns=0, slack_ns=slack, idle_ns=idle))

    numbers = range(2, 2 + len(lows))
    alone = {number for number in numbers if decide({number})}
    # Those of level 8 also answer to those of level 5, of whom nobody knows when they will want the device.
    first = min(alone, key=lambda number: (lows[number - 2][1], number), default=None)
    together = decide(set(numbers))
    assert together[:1] == ([] if first is None else [first])


@settings(max_examples=examples(200))
@given(
    EIGHT_TIMES,
    st.lists(st.integers(1, 20 * MS), min_size=1, max_size=12),
    st.integers(10 * US, 20 * MS),
    st.integers(0, 80),
    st.lists(st.floats(0, 1), min_size=1, max_size=6).map(sorted),
)
def test_who_stands_behind_work_cannot_go_before_the_moment_that_was_said(
    slack: list[int], lengths: list[int], work: int, segments: int, moments: list[float]
) -> None:
    """Nobody looks before that moment, and as time goes by forecasts change: not in a way that would have let somebody go."""
    made = Policy("budget", **PATIENT)
    made.event("client_added", HIGH, 0, priority=1)
    lows = range(2, 2 + len(lengths))
    for low in lows:
        made.event("client_added", low, 0, priority=8)
    now = 10 * MS
    for _ in range(segments):
        made.event("launched", HIGH, now, duration_ns=10 * MS, slack_ns=[1])
        now += 10 * MS
        made.event("drained", HIGH, now, began_ns=now, duration_ns=0, slack_ns=[1], idle_ns=[1])
    made.event("launched", HIGH, now, duration_ns=work, slack_ns=slack)
    for low, length in zip(lows, lengths, strict=True):
        said = made.event("waiting", low, now, request=1, duration_ns=length)
    held = [made.held(low) for low in lows]
    if any(hold is not None and hold[0] != "behind" for hold in held) or not any(held):
        return
    again = wake(said)
    assert again is not None
    for share in moments:
        moment = now + int(share * (again - 1 - now))
        assert grants(made.event("tick", 0, moment)) == []
