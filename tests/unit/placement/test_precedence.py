"""Who goes first on a GPU (--fikit-priority=auto): the choice that the cluster simulator and fikitd share."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from fikitd.gpus.placement import (
    PATIENCE_S,
    TURN_S,
    Contender,
    Device,
    Precedence,
    Priorities,
    Resident,
    Slowdowns,
    choose,
    replay,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

SLICES = Slowdowns(0, Device.SLICES)
MPS = Slowdowns(0, Device.MPS)
EQUAL, ORDERED = Priorities.EQUAL, Priorities.ORDERED
UNKNOWN = math.inf


@dataclass(frozen=True)
class Situation:
    """Jobs (expected rest, busy share) in the order of the last choice; what becomes of them."""

    name: str
    jobs: tuple[Contender, ...]
    priorities: Priorities
    order: tuple[int, ...]
    last: Precedence = Precedence()  # noqa: RUF009
    slowdowns: Slowdowns = SLICES


def known(*rests_s: float, busy: float = 0.8) -> tuple[Contender, ...]:
    return tuple(Contender(rest_s, busy, is_new=False) for rest_s in rests_s)


def new(*rests_s: float, busy: float = 0.8) -> tuple[Contender, ...]:
    return tuple(Contender(rest_s, busy) for rest_s in rests_s)


AFTER = choose(SLICES, new(900, 1000), Precedence())[0]  # an order of two
TURN = choose(SLICES, (Contender(900, 0.8), Contender(1000, 0.8, PATIENCE_S)), Precedence())[0]

SITUATIONS = (
    Situation("nobody", (), EQUAL, ()),
    Situation("one is alone", new(100), EQUAL, (0,)),
    Situation("the shorter expected rest is first, whoever came first", new(1000, 100), ORDERED, (1, 0)),
    Situation("of three, each before the longer ones", new(500, 1000, 100), ORDERED, (2, 0, 1)),
    Situation("nobody knows anything: equal", new(UNKNOWN, UNKNOWN), EQUAL, (0, 1)),
    Situation("one is not known: equal", new(1000, UNKNOWN, 100), EQUAL, (2, 0, 1)),
    Situation("kernels overlap and two hardly busy: equal priorities are better", new(100, 105, busy=0.1), EQUAL, (0, 1), slowdowns=MPS),
    Situation("hysteresis: a little shorter is not enough to pass", known(1000, 900), ORDERED, (0, 1), AFTER),
    Situation("hysteresis: a fifth shorter is", known(1000, 799), ORDERED, (1, 0), AFTER),
    Situation("a new one passes with any difference", (*known(1000), *new(990)), ORDERED, (1, 0), AFTER),
    Situation("a turn: one has waited for long", (Contender(100, 0.8, 0, False), Contender(1000, 0.8, PATIENCE_S, False)), EQUAL, (0, 1), AFTER),
    Situation("a turn goes on", known(100, 1000), EQUAL, (0, 1), TURN.later(TURN_S / 2)),
    Situation("a turn goes on beside a new job", (*known(100, 1000), *new(10)), EQUAL, (2, 0, 1), TURN.later(TURN_S / 2)),
    Situation("after a turn there is an order again", known(100, 1000), ORDERED, (0, 1), TURN.later(TURN_S)),
)  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_situation(situation: Situation) -> None:
    choice, order = choose(situation.slowdowns, situation.jobs, situation.last)
    assert (choice.priorities, tuple(order)) == (situation.priorities, situation.order)


def test_a_turn_lasts_as_long_as_it_says() -> None:
    assert TURN.turn_s == TURN_S
    assert TURN.later(TURN_S - 1).turn_s == pytest.approx(1)
    assert TURN.later(TURN_S).turn_s == 0


rests = st.floats(1, 1e6)
jobs = st.lists(st.tuples(rests, st.floats(0, 1)), min_size=2, max_size=6)


@settings(max_examples=examples(300), deadline=None)
@given(jobs, st.sampled_from([SLICES, MPS]))
def test_new_jobs_are_ordered_where_the_sum_of_ends_is_smaller_so(
    jobs: list[tuple[float, float]], slowdowns: Slowdowns
) -> None:
    choice, order = choose(slowdowns, [Contender(rest_s, busy) for rest_s, busy in jobs], Precedence())
    residents = [Resident(rest_s, busy) for rest_s, busy in jobs]
    sums = {priorities: sum(replay(slowdowns, priorities, residents)) for priorities in (EQUAL, ORDERED)}
    assert choice.priorities is (EQUAL if sums[EQUAL] < sums[ORDERED] else ORDERED)
    assert [jobs[i][0] for i in order] == sorted(rest_s for rest_s, _ in jobs)


@settings(max_examples=examples(300), deadline=None)
@given(jobs, st.lists(st.floats(0.9, 1.1), min_size=6, max_size=6))
def test_expectations_that_change_by_a_tenth_change_nothing(
    jobs: list[tuple[float, float]], noise: list[float]
) -> None:
    first, order = choose(SLICES, [Contender(rest_s, busy) for rest_s, busy in jobs], Precedence())
    again = [Contender(jobs[at][0] * noise[at] / 1.1, jobs[at][1], is_new=False) for at in order]
    _, then = choose(SLICES, again, first)
    assert then == list(range(len(jobs)))


@settings(max_examples=examples(200), deadline=None)
@given(jobs, st.integers(0, 5))
def test_one_of_whom_nothing_is_known_makes_all_equal(jobs: list[tuple[float, float]], which: int) -> None:
    contenders = [
        Contender(UNKNOWN if i == which % len(jobs) else rest_s, busy) for i, (rest_s, busy) in enumerate(jobs)
    ]
    assert choose(SLICES, contenders, Precedence())[0].priorities is EQUAL


@pytest.mark.parametrize(("rest_s", "busy"), [(-1, 0.5), (math.nan, 0.5), (1, 1.5), (1, math.nan)])
def test_what_cannot_be_is_refused(rest_s: float, busy: float) -> None:
    with pytest.raises(ValueError, match="a rest is seconds"):
        Contender(rest_s, busy)
