"""Programs like those of the first run on an H200, on the device that it measured: what the policies cost there, simulated."""

from __future__ import annotations

import random

import pytest
from fikit.recordings.made import Made
from fikitd.simulation.simulator import Outcome, Scenario, Trace, named, parse, simulate

BOUND = 1.05
TIMING_NS = 15_500  # of a launch's two events, on the host, as that run's measured program showed it


def made(seed: int, kernels: int, us: float, thinks: float, name: str) -> Trace:
    """A request: kernels of this length, one launch after the other; then the host waits."""
    program = Made(random.Random(seed))
    for number in range(kernels):
        program.think(thinks)
        program.work(f"{name}{number % 9}", us)
    program.synchronize()
    program.think(20)
    return parse(name, program.text().decode())


PAIRS = {
    "short kernels of a slow host above a full queue": ((1, 180, 12, 12, "encoder"), (2, 130, 70, 2, "convolution")),
    "few long ones above a few": ((3, 8, 205, 0.1, "decode"), (4, 16, 97, 0.1, "batch")),
}


def shared(pair: str, arrivals: str, policy: str) -> Outcome:
    high, low = (made(*each) for each in PAIRS[pair])  # type: ignore[arg-type]
    return simulate(Scenario(high, [low], arrivals, device=named("h200"), timing_ns=TIMING_NS), policy)


@pytest.mark.parametrize("arrivals", ["closed", "open30"])
@pytest.mark.parametrize("pair", PAIRS)
def test_budget_keeps_the_bound_that_priority_alone_breaks_and_lets_the_low_job_run(pair: str, arrivals: str) -> None:
    budget, prio = shared(pair, arrivals, "budget"), shared(pair, arrivals, "prio")
    assert budget.high_jct_ratio <= BOUND < prio.high_jct_ratio
    assert budget.harvest > (0.5 if (pair, arrivals) == (next(iter(PAIRS)), "open30") else 0.05)
