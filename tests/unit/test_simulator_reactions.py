"""Reactions of a dispatcher as they were seen, some long and most short, in place of one cost that is always the same."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fikitd.simulator import Costs, Scenario, SimulatorError

from fikitd import simulator

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
from bench import recordings

KINDS = ("observe", "wake", "done", "late")
SEEN = {kind: [10_000] * 30 + [500_000] * 2 for kind in KINDS}


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """Made-up inference above made-up training."""
    high = simulator.parse("inference", recordings.inference(1).text().decode())
    low = simulator.parse("training", recordings.training(1).text().decode())
    return Scenario(high, [low], requests=10)


@pytest.mark.parametrize("kind", KINDS)
def test_what_always_takes_equally_long_is_a_cost(scenario: Scenario, kind: str) -> None:
    costs = Costs(observe_ns=3000, wake_ns=3000, done_ns=3000, late_ns=3000)
    cost = replace(scenario, costs=Costs(**{**{f"{k}_ns": 3000 for k in KINDS}, f"{kind}_ns": 70_000}))
    seen = replace(scenario, costs=costs, seen={kind: [70_000] * 5})
    assert simulator.simulate(seen, "prio") == simulator.simulate(cost, "prio")
    assert simulator.simulate(seen, "prio") != simulator.simulate(replace(scenario, costs=costs), "prio")


@pytest.mark.parametrize("policy", ["prio", "budget"])
def test_the_same_draw_gives_the_same_and_another_one_something_else(scenario: Scenario, policy: str) -> None:
    one, again, other = (simulator.simulate(replace(scenario, seen=SEEN, draw=draw), policy) for draw in (1, 1, 2))
    assert one == again
    assert one != other
    assert one.harvest == pytest.approx(other.harvest, rel=0.3)


def test_rare_long_reactions_are_felt(scenario: Scenario) -> None:
    short = {kind: [10_000] for kind in KINDS}
    usual, rare = (simulator.simulate(replace(scenario, seen=seen), "prio") for seen in (short, SEEN))
    assert rare.harvest < 0.97 * usual.harvest


def test_an_unknown_reaction_is_one_sentence(scenario: Scenario) -> None:
    with pytest.raises(SimulatorError, match="unknown reaction, use observe, wake, done or late"):
        simulator.simulate(replace(scenario, seen={"wakes": [1]}), "prio")
