"""Which priority each job of --fikit-priority=auto has on a GPU, within its range: pure."""

from __future__ import annotations

import math

import pytest
from fikitd.base.priorities import Range
from fikitd.gpus.placement import PATIENCE_S, Device, Precedence, Slowdowns
from fikitd.jobs.auto_levels import MOST, Candidate, decide, equal, ordered
from hypothesis import given
from hypothesis import strategies as st

SLICES = Slowdowns(0, Device.SLICES)
USUAL = Range(5, 8)


def job(rest_s: float = math.inf, allowed: Range = USUAL, **facts: float) -> Candidate:
    return Candidate(allowed, rest_s, busy=0.8, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("jobs", "levels", "state"),
    [
        ((), [], "equal"),
        ((job(100),), [5], "alone"),
        ((job(),), [5], "alone"),
        ((job(1000), job(100)), [6, 5], "ordered"),
        ((job(500), job(1000), job(100)), [6, 7, 5], "ordered"),
        ((job(1000), job()), [5, 5], "unknown"),
        ((job(1000, waited_s=PATIENCE_S), job(100)), [5, 5], "turn"),
        ((job(100, Range(1, 8)), job(1000)), [1, 5], "ordered"),
        ((job(1000, Range(1, 8)), job(100)), [6, 5], "ordered"),
        ((job(1000, Range(1, 2)), job(100, Range(5, 5))), [2, 5], "ordered"),
        ((job(5), job(4), job(3), job(2), job(1), job(6)), [8, 8, 7, 6, 5, 8], "ordered"),
        (tuple(job(100 + i) for i in range(MOST + 1)), [5] * (MOST + 1), "equal"),
    ],
)
def test_situation(jobs: tuple[Candidate, ...], levels: list[int], state: str) -> None:
    decision = decide(SLICES, jobs, Precedence())
    assert decision.levels == levels
    if jobs:
        assert decision.state == state


ranges = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda two: Range(min(two), max(two)))
candidates = st.lists(
    st.builds(Candidate, ranges, st.one_of(st.floats(1, 1e6), st.just(math.inf)), st.floats(0, 1), st.floats(0, 1e4), st.booleans()),
    max_size=20,
)  # fmt: skip


@given(candidates)
def test_nobody_leaves_the_range_that_was_approved(jobs: list[Candidate]) -> None:
    decision = decide(SLICES, jobs, Precedence())
    assert sorted(decision.order) == list(range(len(jobs)))
    for level, each in zip(decision.levels, jobs, strict=True):
        assert each.allowed.highest <= level <= each.allowed.lowest


@given(st.lists(st.just(USUAL), max_size=10))
def test_of_one_range_each_is_below_the_one_before_until_it_ends(same: list[Range]) -> None:
    assert ordered(same) == [min(5 + at, 8) for at in range(len(same))]
    assert equal(same) == [5] * len(same)
