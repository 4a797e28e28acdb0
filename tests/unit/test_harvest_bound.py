"""The upper bound of the harvest: against every schedule there is in small cases, and against the policies in larger ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from pathlib import Path

import pytest
from fikitd._simulator import Interval, LowKernel, alone_high, alone_low, most_work_ns
from fikitd.bound import Bound
from fikitd.simulator import ARRIVALS, POLICIES, Scenario, SimulatorError, parse, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
from bench import recordings

MS = 1_000_000
PRICES = (1.0, 1.5, 3.0, 20.0)
MUCH = 400  # more delay than any of the small cases has


@dataclass(frozen=True)
class Segment:
    """A host launches kernels, each so long after the one before, and waits, so long after the last."""

    kernels: tuple[tuple[int, int], ...]  # think, length
    late: int
    arrival: int = 0  # it does not begin before

    @property
    def work(self) -> int:
        return sum(length for _, length in self.kernels)


@dataclass(frozen=True)
class Lived:
    """Ends of segments, of their last kernels, and device time of the low job until the last wait was over."""

    ends: tuple[int, ...]
    dry: tuple[int, ...]
    low: int


def live(high: Sequence[Segment], low: Sequence[LowKernel], places: Sequence[int]) -> Lived:
    """Low kernel i goes before the high job's kernel `places[i]`, as soon as its own host and the device allow."""
    host = device = low_end = number = 0
    spans: list[tuple[int, int]] = []
    ends, dry = [], []
    waiting = iter(range(len(places)))
    following = next(waiting, None)

    def let_low_run() -> None:
        nonlocal device, low_end, following
        while following is not None and places[following] == number:
            start = max(device, low_end + low[following].pause_ns if following else 0)
            device = low_end = start + low[following].length_ns
            spans.append((start, device))
            following = next(waiting, None)

    for segment in high:
        host = max(host, segment.arrival)
        for think, length in segment.kernels:
            host += think
            let_low_run()
            device = max(device, host) + length
            number += 1
        dry.append(device)
        host = max(host + segment.late, device)
        ends.append(host)
    let_low_run()
    return Lived(tuple(ends), tuple(dry), sum(max(0, min(end, host) - start) for start, end in spans))


def every_schedule(high: Sequence[Segment], low: Sequence[LowKernel]) -> Iterator[Lived]:
    kernels = sum(len(segment.kernels) for segment in high)
    for count in range(len(low) + 1):
        for places in combinations_with_replacement(range(kernels + 1), count):
            yield live(high, low, places)


def intervals(high: Sequence[Segment], weights: Sequence[int] | None = None) -> list[Interval]:
    alone = live(high, [], [])
    return [
        Interval(dry, segment.work, end - dry, weight)
        for dry, end, segment, weight in zip(alone.dry, alone.ends, high, weights or [1] * len(high), strict=True)
    ]


TIME = st.integers(0, 30)
SEGMENT = st.builds(Segment, st.lists(st.tuples(TIME, st.integers(1, 10)), min_size=1, max_size=3).map(tuple), TIME)
LOW = st.lists(st.builds(LowKernel, st.integers(1, 40), st.sampled_from([0, 0, 0, 5, 40])), min_size=3, max_size=5)


@settings(max_examples=150)
@given(st.lists(SEGMENT, min_size=1, max_size=3), LOW)
def test_no_schedule_gives_more_than_the_bound_for_its_delay(high: list[Segment], low: list[LowKernel]) -> None:
    bounds = {price: most_work_ns(intervals(high), low, price, MUCH) for price in PRICES}
    alone = live(high, [], []).ends[-1]
    for lived in every_schedule(high, low):
        for price, most in bounds.items():
            assert lived.low <= most + price * (lived.ends[-1] - alone) + 1e-6


@settings(max_examples=100)
@given(st.lists(st.tuples(SEGMENT, st.sampled_from([0, 5, 60])), min_size=2, max_size=4), LOW)
def test_nor_where_requests_arrive_and_wait_for_each_other(
    requests: list[tuple[Segment, int]], low: list[LowKernel]
) -> None:
    high, now = [], 0
    for segment, pause in requests:
        now += pause
        high.append(replace(segment, kernels=segment.kernels[:2], arrival=now))
    alone = live(high, [], []).ends
    weights = [1] * len(high)
    for i in reversed(range(1, len(high))):
        if high[i].arrival <= alone[i - 1]:
            weights[i - 1] = weights[i] + 1
    bounds = {price: most_work_ns(intervals(high, weights), low[:3], price, MUCH) for price in PRICES}
    for lived in every_schedule(high, low[:3]):
        delay = sum(late - end for late, end in zip(lived.ends, alone, strict=True))
        for price, most in bounds.items():
            assert lived.low <= most + price * delay + 1e-6


@settings(max_examples=100)
@given(
    st.lists(st.tuples(TIME, st.integers(1, 10)), min_size=1, max_size=4),
    st.lists(st.integers(1, 40), min_size=6, max_size=6),
)
def test_the_bound_is_reached_where_the_host_waits_for_every_kernel(
    kernels: list[tuple[int, int]], lengths: list[int]
) -> None:
    """Then nothing is left out: the best schedule is worth what the bound says."""
    high = [Segment((kernel,), 0) for kernel in kernels]
    low = [LowKernel(length) for length in lengths]
    never_worth_it = LowKernel(10_000)  # the bound's low job would begin anew
    alone = live(high, [], []).ends[-1]
    lived = list(every_schedule(high, low))
    for price in (1.5, 3.0, 20.0):
        best = max(each.low - price * (each.ends[-1] - alone) for each in lived)
        assert most_work_ns(intervals(high), [*low, never_worth_it], price, MUCH) == pytest.approx(best)


def test_a_pause_of_the_low_host_is_time_in_which_others_may_be_idle() -> None:
    """Ten waits of 10 each, half of it idle. Without a pause all of that is used, with one of 45 three kernels fit."""
    high = intervals([Segment(((5, 5),), 0)] * 10)
    assert most_work_ns(high, [LowKernel(5)], 10, MUCH) == 50
    assert most_work_ns(high, [LowKernel(5, 45)], 10, MUCH) == 15


@pytest.mark.parametrize(("price", "lengths"), [(0.9, [5]), (2, []), (2, [0])])
def test_a_bound_of_nothing_is_refused(price: float, lengths: list[int]) -> None:
    with pytest.raises(ValueError, match=r"bound|price|length"):
        most_work_ns([Interval(10, 5)], [LowKernel(length) for length in lengths], price, MUCH)


@pytest.fixture(scope="module")
def made_up() -> Scenario:
    """Made-up inference above made-up training."""
    high = parse("inference", recordings.inference(1).text().decode())
    low = parse("training", recordings.training(1).text().decode())
    return Scenario(high, [low], requests=12)


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_no_policy_harvests_more_than_the_bound_at_its_slowdown(made_up: Scenario, arrivals: str) -> None:
    scenario = replace(made_up, arrivals=arrivals)
    bound = Bound(scenario)
    for policy in POLICIES:
        if policy == "time-slicing":
            continue  # cuts kernels
        outcome = simulate(scenario, policy)
        if outcome.high_jct_ratio <= 1 + bound.most:
            assert outcome.harvest <= bound.harvest(outcome.high_jct_ratio), policy


def test_more_may_be_harvested_where_more_delay_is_allowed(made_up: Scenario) -> None:
    bound = Bound(made_up)
    assert 0 < bound.harvest(1.0) <= bound.harvest(1.05) <= bound.harvest(1.2) <= 1.2


def test_requests_that_wait_for_each_other_alone_count_for_each_other(made_up: Scenario) -> None:
    trace = made_up.high.native
    together = alone_high(trace, 3, [0, 1, 2])
    apart = alone_high(trace, 3, [0, 1000 * MS, 2000 * MS])
    assert [interval.weight for interval in together.intervals][:: len(together.intervals) // 3] == [3, 2, 1]
    assert {interval.weight for interval in apart.intervals} == {1}
    assert sum(i.work_ns for i in together.intervals) == sum(i.work_ns for i in apart.intervals)
    assert together.span_ns < apart.span_ns


def test_a_low_pass_has_each_of_its_kernels_and_pauses_where_its_host_waits(made_up: Scenario) -> None:
    scenario = made_up
    low = alone_low(scenario.lows[0].native, scenario.high.native)
    assert len(low) == scenario.lows[0].native.kernels
    paused = sum(kernel.pause_ns for kernel in low)
    assert 0 < paused < scenario.lows[0].solo_ns - sum(kernel.length_ns for kernel in low)


def test_the_bound_says_what_it_is_not_for(made_up: Scenario) -> None:
    scenario = made_up
    with pytest.raises(SimulatorError, match="one low job"):
        Bound(replace(scenario, lows=[*scenario.lows, *scenario.lows]))
    with pytest.raises(SimulatorError, match="up to 25%"):
        Bound(scenario).harvest(1.5)
