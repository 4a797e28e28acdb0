"""Buckets, quantiles and mergeable statistics."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import pytest
from fikitd._core import Model, bucket_low, bucket_of, identify, quantile
from hypothesis import given
from hypothesis import strategies as st

LONGEST = 2**42 - 1
NS = st.one_of(st.integers(0, 100), st.integers(0, 10**7), st.integers(0, LONGEST))
KERNEL = ("saxpy", 7, (1, 1, 1), (64, 1, 1), 0)


def of(values: list[int]) -> Model:
    model = Model()
    kernel = model.describe(*KERNEL)
    for value in values:
        model.add_duration(kernel, [], value)
    return model


def duration(model: Model) -> dict[str, Any]:
    exported = model.export()
    return dict(exported[0]["duration"]) if exported else {"count": 0, "mean_ns": 0.0, "m2": 0.0, "histogram": {}}


def merged(parts: list[list[int]]) -> dict[str, Any]:
    def add(a: Model, b: Model) -> Model:
        a.merge(b)
        return a

    return duration(reduce(add, map(of, parts), Model()))


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Counts exactly, mean and M2 up to rounding."""
    close = [math.isclose(a[k], b[k], rel_tol=1e-6, abs_tol=1.0) for k in ("mean_ns", "m2")]
    return all(close) and a["count"] == b["count"] and a["histogram"] == b["histogram"]


@given(NS)
def test_a_value_lies_in_its_bucket_which_is_an_eighth_wide_at_most(ns: int) -> None:
    low, high = bucket_low(bucket_of(ns)), bucket_low(bucket_of(ns) + 1)
    assert low <= ns < high
    assert high - low <= max(1, low / 8)


def test_buckets_end_where_the_longest_time_is() -> None:
    assert bucket_of(-5) == 0
    assert bucket_of(LONGEST) == bucket_of(2**62) == 319
    assert bucket_low(320) == LONGEST + 1
    assert [bucket_low(b) for b in range(321)] == sorted({bucket_low(b) for b in range(321)})


@given(st.lists(NS, min_size=1, max_size=50), st.floats(0, 1))
def test_a_quantile_is_within_a_bucket_of_the_sorted_values(values: list[int], q: float) -> None:
    histogram: dict[int, int] = {}
    for value in values:
        histogram[bucket_of(value)] = histogram.get(bucket_of(value), 0) + 1
    exact = sorted(values)[max(math.ceil(q * len(values)) - 1, 0)]
    found = quantile(histogram, q)
    assert bucket_low(bucket_of(exact)) <= found * (1 + 1e-9) + 1e-9
    assert found <= bucket_low(bucket_of(exact) + 1) * (1 + 1e-9)
    assert found == quantile({str(b): n for b, n in histogram.items()}, q)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_do_not_fall(values: list[int], a: float, b: float) -> None:
    histogram = duration(of(values))["histogram"]
    assert quantile(histogram, min(a, b)) <= quantile(histogram, max(a, b))


def test_the_quantile_of_nothing_is_zero_and_silly_shares_are_cut() -> None:
    assert quantile({}, 0.5) == 0
    assert quantile({100: 3}, -4) == bucket_low(100)
    assert quantile({100: 3}, 9) == bucket_low(101)
    assert bucket_low(100) < quantile({100: 3}, math.nan) < bucket_low(101)


@given(st.lists(NS, min_size=1, max_size=40))
def test_mean_and_m2_are_those_of_the_values(values: list[int]) -> None:
    found = duration(of(values))
    mean = math.fsum(values) / len(values)
    m2 = math.fsum((v - mean) ** 2 for v in values)
    assert found["count"] == len(values)
    assert math.isclose(found["mean_ns"], mean, rel_tol=1e-9, abs_tol=1e-6)
    assert math.isclose(found["m2"], m2, rel_tol=1e-6, abs_tol=max(1e-3, mean * mean * 1e-12))
    assert sum(found["histogram"].values()) == len(values)


@given(
    st.lists(st.lists(st.integers(0, 10**6), max_size=10), min_size=1, max_size=5), st.randoms(use_true_random=False)
)
def test_merging_in_any_order_and_grouping_gives_the_statistics_of_all_values(parts: list[list[int]], rng: Any) -> None:
    everything = [value for part in parts for value in part]
    shuffled = parts[:]
    rng.shuffle(shuffled)
    cut = rng.randint(0, len(parts))
    left, right = Model(), Model()
    for part in parts[:cut]:
        left.merge(of(part))
    for part in parts[cut:]:
        right.merge(of(part))
    left.merge(right)
    expected = merged([everything])
    assert same(merged(parts), expected)
    assert same(merged(shuffled), expected)
    assert same(duration(left), expected)


def test_negative_times_are_not_counted_and_huge_ones_are_cut() -> None:
    model = of([-1, -(2**60), 2**62])
    assert duration(model)["count"] == 1
    assert duration(model)["mean_ns"] == LONGEST


BAD = [
    {"count": 1, "mean_ns": math.nan, "m2": 0.0, "histogram": {"5": 1}},
    {"count": 1, "mean_ns": math.inf, "m2": 0.0, "histogram": {"5": 1}},
    {"count": 1, "mean_ns": -5.0, "m2": 0.0, "histogram": {"5": 1}},
    {"count": 1, "mean_ns": 1e300, "m2": 0.0, "histogram": {"5": 1}},
    {"count": 1, "mean_ns": 5.0, "m2": -1.0, "histogram": {"5": 1}},
    {"count": 2, "mean_ns": 5.0, "m2": 0.0, "histogram": {"5": 1}},
    {"count": 1, "mean_ns": 5.0, "m2": 0.0, "histogram": {"320": 1}},
    {"count": 1, "mean_ns": 5.0, "m2": 0.0, "histogram": {"-1": 1}},
    {"count": 2**60, "mean_ns": 5.0, "m2": 0.0, "histogram": {"5": 2**60}},
    {"count": 2, "mean_ns": 5.0, "m2": 0.0, "histogram": {"5": 1, "05": 1}},
]


@pytest.mark.parametrize("bad", BAD)
def test_statistics_that_cannot_be_are_left_out_of_a_profile(bad: dict[str, Any]) -> None:
    good = {"count": 1, "mean_ns": 5.0, "m2": 0.0, "histogram": {"5": 1}}
    entry = {
        "name": "k", "module": "0" * 16, "grid": [1, 1, 1], "block": [1, 1, 1], "shared_bytes": 0, "kind": 0,
        "context": [],
    }  # fmt: skip
    kernel = identify("k", 0, [1, 1, 1], [1, 1, 1], 0)

    def predicted(**statistics: Any) -> tuple[int | None, int | None]:
        said = Model.from_profile([{**entry, **statistics}]).predict(kernel, [])
        return said.duration_ns, said.gap_ns

    assert predicted(duration=good, gap=good) == predicted(duration=good, gap=good, boundary=good) == (5, 5)
    assert predicted(duration=bad, gap=good) == (None, None)
    assert predicted(duration=good, gap=bad) == (None, None)
    assert predicted(duration=good, gap=good, boundary=bad) == (None, None)
