"""Programs like those of the first run on an H200, on the device that it measured: what the policies cost there, simulated."""

from __future__ import annotations

import pytest
from fikitd.simulation.simulator import Outcome, Scenario, named, parse, simulate

from bench.scheduling.budgets import most_of_made
from bench.scheduling.made_pairs import BATCH, CONVOLUTION, DECODE, ENCODER, TIMING_NS

BOUND = 1.05
FEW_LONG = "few long ones above a few"
PAIRS = {
    "short kernels of a slow host above a full queue": (ENCODER, CONVOLUTION),
    FEW_LONG: (DECODE, BATCH),
}


def scenario(pair: str, arrivals: str, max_slowdown: float = 0.05) -> Scenario:
    high, low = (parse(program.name, program.text().decode()) for program in PAIRS[pair])
    return Scenario(high, [low], arrivals, device=named("h200"), timing_ns=TIMING_NS, max_slowdown=max_slowdown)


def shared(pair: str, arrivals: str, policy: str) -> Outcome:
    return simulate(scenario(pair, arrivals), policy)


@pytest.mark.parametrize("arrivals", ["closed", "open30"])
@pytest.mark.parametrize("pair", PAIRS)
def test_budget_keeps_the_bound_that_priority_alone_breaks_and_lets_the_low_job_run(pair: str, arrivals: str) -> None:
    budget, prio = shared(pair, arrivals, "budget"), shared(pair, arrivals, "prio")
    assert budget.high_jct_ratio <= BOUND < prio.high_jct_ratio
    assert budget.harvest > (0.5 if (pair, arrivals) == (next(iter(PAIRS)), "open30") else 0.05)


@pytest.mark.parametrize("policy", ["budget", "excl", "paper", "prio"])
def test_no_policy_harvests_more_than_it_can_have_without_knowing_when_requests_come(policy: str) -> None:
    """docs/measured.md has the derivation."""
    outcome = shared(FEW_LONG, "open30", policy)
    assert 0.1 < outcome.harvest <= most_of_made(scenario(FEW_LONG, "open30"), outcome.high_jct_ratio - 1)


def test_with_a_budget_for_most_pauses_budget_has_most_of_that() -> None:
    setup = scenario(FEW_LONG, "open30", max_slowdown=0.2)
    assert simulate(setup, "budget").harvest > 0.8 * most_of_made(setup, 0.2)
