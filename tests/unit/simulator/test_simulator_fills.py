"""Memsets and copies within the device in the simulator: launches, as the shim has them. Simulated."""

from __future__ import annotations

import random

import pytest
from fikitd.simulation import simulator
from fikitd.simulation.simulator import MPS, SLICES, Device, Scenario

from bench import recordings


def scenario(fill: str, device: Device) -> Scenario:
    """Requests of some 5 ms of short kernels, above a job that does nothing but this."""
    high, low = (recordings.Made(random.Random(seed)) for seed in (1, 2))
    for _ in range(100):
        high.think(40)
        high.work("gemm<float>", 5)
    high.synchronize()
    for _ in range(50):
        low.think(20)
        low.work(fill, 30, size=1_000_000)
    low.synchronize()
    parsed = (simulator.parse(name, made.text().decode()) for name, made in (("high", high), ("low", low)))
    return Scenario(next(parsed), list(parsed), requests=100, device=device)


@pytest.mark.parametrize("device", [SLICES, MPS], ids=["slices", "mps"])
@pytest.mark.parametrize("fill", ["Memset (Device)", "Memcpy DtoD (Device -> Device)"])
def test_fills_ask_as_kernels_do(fill: str, device: Device) -> None:
    shared = simulator.simulate(scenario(fill, device), "budget")
    assert shared.grants > 0
    assert shared.high_jct_ratio <= 1.06


def test_fills_that_nobody_holds_cost_the_high_job_more_than_it_allows() -> None:
    held, passed = (simulator.simulate(scenario("Memset (Device)", SLICES), policy) for policy in ("budget", "fifo"))
    assert passed.high_jct_ratio > 1.1
    assert held.high_jct_ratio <= 1.06
