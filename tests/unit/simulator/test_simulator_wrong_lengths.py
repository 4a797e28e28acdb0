"""A low job whose kernels take longer than is known of them: what the job costs a high one, simulated, with `max_delay` and without."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from fikit.recordings.made import Made
from fikitd.simulation.simulator import SCHEDULER, Costs, Device, Trace, parse

from fikitd import _simulator

MS = 1_000_000
SECONDS = 4
DEVICE = Device().native(10_000, 1_000)


def trace(launches: int, us: Callable[[int], float], waits: int, name: Callable[[int], str]) -> Trace:
    """A launch of `name(i)` takes `us(i)`; the host waits after each `waits`."""
    made = Made(random.Random(1))
    for launch in range(launches):
        made.work(name(launch), us(launch))
        if launch % waits == waits - 1:
            made.synchronize()
            made.host += 3000 if waits == HIGH_WAITS else 0
    return parse("made", re.sub(r"(\d),\d+,1,1,(64|128|256),1,1,32,0", r"\1,64,1,1,128,1,1,32,0", made.text().decode()))


HIGH_WAITS = 10
HIGH = trace(200, lambda _: 200, HIGH_WAITS, lambda _: "step")
"""Steps of ten kernels of 200 us, a wait and 3 ms of host time: ten recordings take about a second alone."""
RARELY = [50_000 if random.Random(seed).random() < 1 / 200 else 5 for seed in range(4000)]


@dataclass(frozen=True)
class Low:
    """Its kernels, and what its profile says of them; None: it has none."""

    trace: Trace
    profile: Trace | None
    tells_ends: bool = True


SHORT = trace(200, lambda _: 5, 50, lambda _: "lookup")
LOWS = {
    "rarely 50 ms, as its profile says": Low(rare := trace(4000, lambda i: RARELY[i], 50, lambda _: "lookup"), rare),
    "rarely 50 ms, and its profile does not say": Low(rare, SHORT),
    "5 us by its word, and 50 ms by its drains": Low(trace(100, lambda _: 50_000, 1, lambda _: "lookup"), SHORT),
    "5 ms, of whose ends nobody hears": Low(
        trace(200, lambda _: 5_000, 50, lambda _: "lookup"), SHORT, tells_ends=False
    ),
    "50 ms, each of a new kernel": Low(trace(300, lambda _: 50_000, 1, lambda i: f"new {i}"), None),
}


def slower(low: Low, **bound: int) -> list[float]:
    """How many times as long the high job takes beside the low one, second by second."""
    profile = None if low.profile is None else _simulator.learn(low.profile.native, 2, stored=True)
    high = {"priority": 1, "profile": _simulator.learn(HIGH.native, 3)}
    ends = []
    for jobs in ([], [_simulator.Job(low.trace.native, priority=8, profile=profile, tells_ends=low.tells_ends)]):
        result = _simulator.simulate(
            "budget", [_simulator.Job(HIGH.native, **high), *jobs], requests=10 * SECONDS, costs=Costs(), device=DEVICE,
            scheduler=SCHEDULER, **bound,
        )  # fmt: skip
        ends.append([0, *(end for _, end in result["jobs"][0]["requests"][9::10])])
    alone, beside = ends
    return [(beside[i + 1] - beside[i]) / (alone[i + 1] - alone[i]) for i in range(SECONDS)]


@pytest.mark.parametrize("low", LOWS)
def test_kernels_that_take_longer_than_is_known_slow_the_high_job_within_its_budget(low: str) -> None:
    """By at most 8 % in each second but the first, and by less than half of its 5 % in the last two, when what they took is known."""
    seconds = slower(LOWS[low])
    assert max(seconds[1:]) <= 1.08
    assert sum(seconds[2:]) / 2 <= 1.06


@pytest.mark.parametrize("low", LOWS)
def test_max_delay_keeps_out_kernels_that_took_longer_than_it(low: str) -> None:
    """A request ages below a max_delay in ten seconds, so in four none does: no kernel of 5 or 50 ms comes once one was seen."""
    seconds = slower(LOWS[low], max_delay_ns=MS)
    assert max(seconds[1:]) <= 1.01
    assert seconds[0] <= 1.04
