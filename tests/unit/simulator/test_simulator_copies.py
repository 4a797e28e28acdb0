"""Copies in the simulator: those of one direction go one after the other, whoever's they are."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from claims import protects_and_feeds
from fikitd.simulation import simulator
from fikitd.simulation.simulator import MERGED, Scenario

from bench import recordings

MAX_DELAY_NS = 200_000


def scenario(low_copies: str = "HtoD", size: int = 30_000_000, copy_us: int = 3000, kernels: int = 40) -> Scenario:
    """A job whose requests of some 5 ms begin with a copy that it waits for, above one that copies again after some kernels."""
    high, low = (recordings.Made(random.Random(seed)) for seed in (1, 2))
    high.work("Memcpy HtoD (Pinned -> Device)", 10, size=100_000)
    high.synchronize()
    for _ in range(100):
        high.think(40)
        high.work("gemm<float>", 5)
    high.synchronize()
    for _ in range(4):
        low.work(f"Memcpy {low_copies} (Pinned -> Device)", copy_us, size=size)
        for _ in range(kernels):
            low.think(200)
            low.work("conv_forward", 20)
        low.synchronize()
    parsed = (simulator.parse(name, made.text().decode()) for name, made in (("high", high), ("low", low)))
    return Scenario(next(parsed), list(parsed), requests=300, device=MERGED)


def test_copies_that_pass_the_gate_hold_up_the_high_job() -> None:
    assert simulator.simulate(scenario(), "prio").high_p99_ratio > 1.3


@pytest.mark.parametrize("arrivals", ["closed", "open30"])
def test_under_budget_long_copies_go_between_those_of_the_high_job(arrivals: str) -> None:
    setup = replace(scenario(), arrivals=arrivals)
    bounded = simulator.simulate(replace(setup, max_delay_ns=MAX_DELAY_NS), "budget")
    assert bounded.high_p99_ratio < 1.08
    assert bounded.harvest > 0


def test_copies_that_fit_between_those_of_the_high_job_cost_the_low_one_little() -> None:
    held, passed = (simulator.simulate(scenario(), policy) for policy in ("budget", "prio"))
    assert held.high_jct_ratio - 1 < (passed.high_jct_ratio - 1) / 2
    assert held.harvest > 0.8 * passed.harvest


def test_copies_the_other_way_are_not_held() -> None:
    against, beside = (simulator.simulate(scenario(way), "budget") for way in ("HtoD", "DtoH"))
    assert beside.high_p99_ratio < 1.05 < against.high_p99_ratio
    assert beside.harvest > against.harvest


def test_short_copies_do_not_ask() -> None:
    """With arrivals: where the high job never rests, its budget soon stops all of the low job for these copies' delays."""
    sizes = 1 << 20, (1 << 20) - 1
    longer, shorter = (simulator.simulate(replace(scenario(size=size), arrivals="open30"), "budget") for size in sizes)
    assert longer.high_jct_ratio < 1.05 < shorter.high_jct_ratio


@pytest.mark.parametrize(("kernels", "max_slowdown"), [(10, 0.05), (40, 0.05), (40, 0.2)])
def test_a_delay_that_comes_with_every_request_is_not_taken_for_the_jobs_own_pause(
    kernels: int, max_slowdown: float
) -> None:
    """The low job copies for 6 ms again and again. What the high job waits for it is a delay the thousandth time, too."""
    copies = scenario(size=60_000_000, copy_us=6000, kernels=kernels)
    shared = replace(copies, requests=1000, max_slowdown=max_slowdown)
    protects_and_feeds("budget", shared, high_jct_ratio=1 + max_slowdown, harvest=0)
