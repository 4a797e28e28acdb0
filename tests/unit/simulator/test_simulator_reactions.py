"""Reactions of a dispatcher as they were seen, some long and most short, in place of one cost that is always the same."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from fikitd.simulation import simulator
from fikitd.simulation.simulator import MERGED, Costs, Scenario, SimulatorError

from bench import recordings

KINDS = ("observe", "wake", "done", "late")
SEEN = {kind: [10_000] * 30 + [500_000] * 2 for kind in KINDS}


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """Made-up inference above made-up training."""
    high = simulator.parse("inference", recordings.inference(1).text().decode())
    low = simulator.parse("training", recordings.training(1).text().decode())
    return Scenario(high, [low], requests=10, device=MERGED)


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
    with pytest.raises(SimulatorError, match="unknown reaction, use observe, wake, done, late or turn"):
        simulator.simulate(replace(scenario, seen={"wakes": [1]}), "prio")


def test_a_host_needs_a_moment_between_two_requests_alone_and_beside_others(scenario: Scenario) -> None:
    alone = replace(scenario, lows=[])
    usual, slow = (simulator.simulate(replace(alone, seen=seen), "fifo") for seen in ({}, {"turn": [200_000]}))
    assert slow.span_ms == pytest.approx(usual.span_ms + 9 * 0.2, abs=0.05)
    assert slow.high_jct_ratio == pytest.approx(1, abs=0.001)
    seldom = replace(alone, arrivals="open30", seed=3)
    usual, slow = (simulator.simulate(replace(seldom, seen=seen), "fifo") for seen in ({}, {"turn": [200_000]}))
    assert slow.span_ms < usual.span_ms + 9 * 0.2 - 0.5  # who arrives later is not waited for


def served(requests: int, pause_us: float, *lengths_us: float, waits: bool = True) -> simulator.Trace:
    """Requests of such kernels, a pause after them, and a wait before it or (waits False) one more kernel and a wait after it."""
    made = recordings.Made(random.Random(1))
    for _ in range(requests):
        for number, us in enumerate(lengths_us):
            made.work(f"kernel {number}", us)
        if not waits:
            made.think(pause_us)
            made.work("last", 30)
        made.synchronize()
        made.think(pause_us)
    return simulator.parse("made", made.text().decode())


def test_a_mark_that_says_nothing_new_is_no_reason_to_decide() -> None:
    """It is seen when the wait behind it is over. Of a few launches after a wait the end is reckoned: the fifth gets a mark."""
    low = served(2, 20, 1e6)  # which never goes

    def decisions(done_us: int, *, waits: bool) -> int:
        pair = Scenario(
            served(40, 800, 30, 30, 30, 30, 30, waits=waits), [low], requests=12, max_slowdown=0, device=MERGED
        )
        seen = {"done": [done_us * 1000]}
        return simulator._run(replace(pair, seen=seen), "budget", alone=False)["decisions"]

    assert decisions(300, waits=True) == decisions(10**8, waits=True) > 12  # after the wait, and never
    assert decisions(5, waits=False) != decisions(10**8, waits=False)  # while the host computes
