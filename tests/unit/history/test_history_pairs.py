"""How much two jobs slowed each other, from when they ran and how much longer than alone each took."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fikitd.api.outcomes import UNKNOWN, Outcome, name_key
from fikitd.history.pairs import FEWEST, Pair, learn
from hypothesis import given
from hypothesis import strategies as st

A, B, C = ((uid, name_key(name)) for uid, name in ((1, "serve"), (2, "train"), (3, "eval")))
START_S = 1_790_000_000
GPU = name_key("GPU-0")


def run(who: tuple[int, int], begin_s: float, end_s: float, slowdown: float, **facts: Any) -> Outcome:
    return Outcome(
        **{
            "job": 1, "uid": who[0], "name": who[1], "ended_s": START_S + int(end_s), "elapsed_s": end_s - begin_s, "busy": UNKNOWN, "peak_mib": 0,
            "slowdown": slowdown, "given_s": UNKNOWN, "emulated": 0, "gpu": GPU, "priority": 5, **facts,
        }
    )  # fmt: skip


def side_by_side(times: int, of_a: float = 1.1, of_b: float = 3.0, **b: Any) -> list[Outcome]:
    """A and B begin and end together, so many times."""
    found = []
    for number in range(times):
        begin_s = 10_000.0 * number
        found += [run(A, begin_s, begin_s + 600, of_a, priority=1), run(B, begin_s, begin_s + 600, of_b, **b)]
    return found


def test_two_that_were_side_by_side_are_a_pair() -> None:
    assert learn(side_by_side(2)) == {Pair(A, B, "above"): pytest.approx(1.1), Pair(B, A, "below"): pytest.approx(3.0)}
    assert set(learn(side_by_side(2, priority=1))) == {Pair(A, B, "equal"), Pair(B, A, "equal")}


def test_one_time_is_none_and_the_median_counts() -> None:
    assert learn(side_by_side(FEWEST - 1)) == {}
    odd = [*side_by_side(4), run(A, 90_000, 90_600, 50.0, priority=1), run(B, 90_000, 90_600, 1.0)]
    assert learn(odd)[Pair(A, B, "above")] == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("of_a", "of_b", "later_s"),
    [({}, {"gpu": name_key("GPU-1")}, 0), ({"gpu": 0}, {"gpu": 0}, 0), ({}, {}, 5000), ({}, {"elapsed_s": 0.0}, 0)],
    ids=["other-gpu", "unknown-gpu", "later", "no-time"],
)
def test_who_was_elsewhere_or_at_another_time_is_no_pair(
    of_a: dict[str, Any], of_b: dict[str, Any], later_s: int
) -> None:
    runs = side_by_side(3)
    made = [replace(each, **of_a) for each in runs[::2]]
    made += [replace(each, **{"ended_s": each.ended_s + later_s, **of_b}) for each in runs[1::2]]
    assert learn(made) == {}
    assert learn(runs), "as they were"


def test_beside_a_third_nothing_is_learnt_of_two() -> None:
    runs = [run(C, 0, 30_000, 1.5), *side_by_side(3)]
    assert not [pair for pair in learn(runs) if pair.own in (A, B)]


def test_a_run_that_was_alone_for_most_of_its_time_says_nothing() -> None:
    runs = [
        each
        for n in range(3)
        for each in (run(A, 10_000 * n, 10_000 * n + 1000, 1.5), run(B, 10_000 * n, 10_000 * n + 300, 2.0))
    ]
    assert set(learn(runs)) == {Pair(B, A, "equal")}


@given(st.floats(1, 20), st.floats(1, 20), st.floats(0, 0.45), st.floats(60, 1e5))
def test_what_is_learnt_is_what_was(of_a: float, of_b: float, alone_before: float, work_s: float) -> None:
    """A runs alone for a while, then beside B, which goes on until after A has ended."""
    runs = []
    before_s = alone_before * work_s
    together_s = (work_s - before_s) * of_a
    for n in range(2):
        begin_s = 1e7 * n
        end_s = begin_s + before_s + together_s
        runs += [run(A, begin_s, end_s, (before_s + together_s) / work_s, priority=1)]
        runs += [run(B, begin_s + before_s, end_s, of_b)]
    found = learn(runs)
    if together_s >= 0.5 * (before_s + together_s) and together_s >= 31:
        assert found[Pair(A, B, "above")] == pytest.approx(of_a, rel=0.06), "ends are whole seconds"
    if together_s >= 31:
        assert found[Pair(B, A, "below")] == pytest.approx(of_b, rel=0.06)


outcomes_ = st.lists(
    st.builds(
        Outcome, job=st.integers(0, 99), uid=st.integers(0, 3), name=st.integers(0, 2), ended_s=st.integers(0, 10**15), elapsed_s=st.floats(0, 1e15),
        busy=st.just(UNKNOWN), peak_mib=st.just(0), slowdown=st.one_of(st.just(UNKNOWN), st.floats(0, 1e15)), given_s=st.just(UNKNOWN),
        emulated=st.just(0), gpu=st.integers(0, 2), priority=st.integers(0, 10**15),
    ),
    max_size=40,
)  # fmt: skip


@given(outcomes_)
def test_whatever_the_outcomes_are_slowdowns_are_within_bounds(outcomes: list[Outcome]) -> None:
    assert all(1 <= slowdown <= 100 for slowdown in learn(outcomes).values())


@pytest.mark.takes_seconds
def test_many_runs_at_a_time_take_no_time_squared() -> None:
    crowd = [run((n, n), n / 100, 1e5, 2.0) for n in range(20_000)]
    assert learn(crowd) == {}
