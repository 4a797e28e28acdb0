"""Kernels whose runs differ much: what some of them take beyond the usual is what costs a job above them."""

from __future__ import annotations

import random

import pytest
from claims import protects_and_feeds
from fikitd.simulation import simulator
from fikitd.simulation.simulator import MERGED, Scenario, Trace


def trace(name: str, *rows: str) -> Trace:
    return simulator.parse(name, "\n".join(["#N 0 k", *rows, ""]))


def serving() -> Trace:
    """A request launches little, computes for nearly 4 ms, launches once more and waits."""
    rows = [f"K,{t},5,{t + 8},10,7,1,1,1,32,1,1,16,0,,0,1" for t in (0, 100, 200, 3900)]
    return trace("serving", *rows, "S,3910,10,,,,,,,,,,,,,0,1")


def training(usual_us: int, seldom_us: int) -> Trace:
    """Kernels one after the other that look the same; one in five takes longer, nobody knows which."""
    source = random.Random(1)
    rows, start = [], 10
    for number in range(400):
        length = seldom_us if source.random() < 0.2 else usual_us
        rows.append(f"K,{10 * number},5,{start},{length},7,1,1,1,32,1,1,16,0,,0,1")
        start += length
    return trace("training", *rows)


def shared(usual_us: int, seldom_us: int, requests: int) -> Scenario:
    return Scenario(serving(), [training(usual_us, seldom_us)], requests=requests, device=MERGED)


@pytest.mark.parametrize(("usual_us", "seldom_us"), [(1000, 3500), (2000, 8000)])
def test_a_long_kernel_is_expected_to_take_as_long_as_it_well_may(usual_us: int, seldom_us: int) -> None:
    protects_and_feeds("budget", shared(usual_us, seldom_us, 400), high_jct_ratio=1.05, harvest=0.1)


def test_short_kernels_that_take_six_times_as_long_do_not_pile_up() -> None:
    protects_and_feeds("budget", shared(100, 600, 1500), high_jct_ratio=1.1, harvest=0.4)
