"""How much of what a high job leaves idle any policy could give to a low job: an upper bound, whatever the policy knows.

docs/results/scheduling-results.md says why it is one, for each way in which a GPU is shared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from fikitd import _simulator
from fikitd.base.quantities import percent
from fikitd.simulation.simulator import ARRIVALS, NO_COSTS, Scenario, SimulatorError, high_alone, left_ns, used_ns

STEPS = 40
"""Parts of the spans between the high job's own and that of the largest slowdown, in which the low job's alone is looked at."""


def most_in_gaps_ns(high: Iterable[_simulator.Interval], switch_ns: int) -> int:
    """slices: what a low job can have between the high job's kernels without a delay of it. Each visit costs two switches, and there is at least
    one in each interval of which it has something; of an interval that it leaves alone, the high job's host may make up for its tail."""
    switches_ns = 2 * switch_ns
    most_ns, before_ns, tail_ns = (
        switches_ns,
        0,
        0,
    )  # the first visit may have no switch before it, the last one none behind it
    for interval in high:
        idle_ns = interval.end_ns - before_ns - interval.work_ns
        most_ns += max(idle_ns - switches_ns, tail_ns)
        before_ns, tail_ns = interval.end_ns, interval.tail_ns
    return most_ns + tail_ns


@dataclass(frozen=True)
class Bound:
    """Of a scenario with one low job, for slowdowns of the high job up to `most`. Raises SimulatorError for more low jobs."""

    scenario: Scenario
    most: float = 0.25

    def __post_init__(self) -> None:
        if len(self.scenario.lows) != 1:
            raise SimulatorError("the bound is for one low job")

    @cached_property
    def _high(self) -> _simulator.Alone:
        return _simulator.alone(self.scenario.high.native, self.scenario.count, self.scenario.arrival_times())

    @property
    def _closed(self) -> bool:
        return ARRIVALS[self.scenario.arrivals] is None

    @property
    def _response_ns(self) -> int:
        """What a slowdown is a share of: of all requests together, or with one after the other of the time for all."""
        return self._high.span_ns if self._closed else self._high.response_ns

    def _left_ns(self, span_ns: float) -> float:
        return left_ns(high_alone(self.scenario), span_ns, self.scenario.device)

    def _harvest_alone(self, slowdown: float) -> float:
        """What the low job would harvest, at most, if it were alone in a span between the high job's own and that of this slowdown: what it has
        done by the end of a step, in the time until its beginning."""
        steps = max(1, math.ceil(round(slowdown / self.most * STEPS, 6)))
        return max(self._alone_ns(step + 1) / self._left_ns(self._step_ns(step)) for step in range(steps))

    def _step_ns(self, step: int) -> int:
        return round(self._high.span_ns + self.most * self._response_ns * step / STEPS)

    def _alone_ns(self, step: int) -> int:
        """What the low job alone has of the device by the end of so many steps."""
        if step not in self._of_steps:
            high = self.scenario.high.native
            job = _simulator.Job(self.scenario.lows[0].native, priority=0, managed=False)
            device = self.scenario.device.native(high.launch_latency_ns, high.kernel_gap_ns)
            alone = _simulator.simulate(
                "fifo", [job], requests=1 << 60, costs=NO_COSTS, until_ns=self._step_ns(step), device=device
            )
            self._of_steps[step] = used_ns(alone["jobs"][0], self.scenario.device)
        return self._of_steps[step]

    @cached_property
    def _of_steps(self) -> dict[int, int]:
        return {}

    def _harvest_in_gaps(self, delay_ns: float) -> float:
        """What delays of so much in all allow the low job."""
        if self.scenario.device.overlaps:
            return math.inf  # its kernels need no gap
        most_ns = most_in_gaps_ns(self._high.intervals, self.scenario.device.switch_ns) + delay_ns
        # With arrivals the last request ends at some time between.
        return most_ns / self._left_ns(self._high.span_ns + (delay_ns if self._closed else 0))

    def harvest(self, jct_ratio: float) -> float:
        """At most, where the high job's JCT ratio is no more than this. Three bounds: what its delays allow, what it leaves of
        the device, and what the low job does alone."""
        slowdown = max(0.0, jct_ratio - 1)
        if slowdown > self.most:
            raise SimulatorError(f"the bound was made for slowdowns up to {percent(self.most)}")
        busy_ns = high_alone(self.scenario).high_ns
        if self._left_ns(self._high.span_ns) <= 0:
            return 0.0
        delay_ns = slowdown * self._response_ns
        longest_ns = self._high.span_ns + delay_ns
        return min(
            self._harvest_in_gaps(delay_ns),
            (longest_ns - busy_ns) / self._left_ns(longest_ns),
            self._harvest_alone(slowdown),
        )
