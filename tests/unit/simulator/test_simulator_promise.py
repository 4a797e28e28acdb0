"""The promise of `budget`, simulated: lower work of any kind delays a high job by no more than its allowance and one loan of 0.2 s."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

import pytest
from fikit.recordings.made import Made
from fikitd.simulation.simulator import Device, Scenario, Trace, named, simulate
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_simulator_rare_long_kernels import high, trace

DEVICES = {"slices": Device(), "h200": named("h200"), "mps": named("mps", mps_model="admission")}
BLOCKS = {"slices": 64, "h200": 64, "mps": 4000}
"""Of 128 threads, of each kernel. Where kernels overlap, 64 of them leave room for others."""
HALF_SECOND = 5
"""Recordings that the high job goes through in half a second, alone."""
LOAN_MS = 200
LONGEST_US = 50_000
"""Of a low kernel. A longer one that nobody has seen before may take the loan by itself."""


@dataclass(frozen=True)
class Low:
    """A low job: each launch draws a kernel name and a length, which need not go together."""

    names: int
    lengths_us: tuple[float, ...]
    rare: float
    """The share of launches that draw another length than the first."""
    think_us: float
    launches: int
    """Until the job waits for them."""
    seed: int

    def trace(self, number: int, blocks: int) -> Trace:
        made, dice = Made(random.Random(self.seed)), random.Random(self.seed)
        work_us = 0.0
        for launch in range(4000):
            length = dice.choice(self.lengths_us[1:]) if dice.random() < self.rare else self.lengths_us[0]
            made.work(f"kernel{dice.randrange(self.names)}", length)
            work_us += length
            made.host += self.think_us
            if launch % self.launches == self.launches - 1:
                made.synchronize()
            if work_us > 5e6:
                break
        return trace(f"low{number}", made, blocks)


LENGTHS = st.floats(2, LONGEST_US)
LOWS = st.builds(
    Low,
    names=st.integers(1, 20),
    lengths_us=st.tuples(LENGTHS, LENGTHS, LENGTHS),
    rare=st.sampled_from((0.0, 0.002, 0.005, 0.01, 0.1, 0.5)),
    think_us=st.sampled_from((0.0, 20.0, 1000.0, 20_000.0)),
    launches=st.integers(1, 200),
    seed=st.integers(0, 3),
)
RARE = Low(names=1, lengths_us=(5.0, 50_000.0, 50_000.0), rare=0.005, think_us=0.0, launches=50, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@given(lows=st.lists(LOWS, min_size=1, max_size=3), slowdown=st.sampled_from((0.02, 0.05, 0.1)))
@example(lows=[RARE], slowdown=0.05)
@settings(max_examples=10, deadline=None)
def test_lower_work_of_any_kind_costs_no_more_than_the_allowance_and_one_loan(
    device: str, lows: list[Low], slowdown: float
) -> None:
    """In each span of two seconds of the high job's own time that begins at a half second."""
    blocks = BLOCKS[device]
    pair = (high(blocks), [low.trace(number, blocks) for number, low in enumerate(lows)], "closed")
    ends_ms = [0.0]
    for halves in range(1, 11):
        scenario = Scenario(*pair, requests=halves * HALF_SECOND, device=DEVICES[device], max_slowdown=slowdown)
        outcome = simulate(scenario, "budget")
        ends_ms.append(outcome.span_ms)
    alone_ms = outcome.span_ms / outcome.high_jct_ratio / 5 * 2
    spans = [after - before for before, after in zip(ends_ms, ends_ms[4:], strict=False)]
    assert max(spans) - alone_ms <= slowdown * alone_ms + LOAN_MS
    assert all(after > before for before, after in pairwise(ends_ms))
