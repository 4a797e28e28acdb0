"""How much of what a high job leaves idle any policy could give to a low job: an upper bound, whatever the policy knows.

docs/scheduling-results.md says why it is one (fikitd/core/simulator/bound.hpp computes it). It holds for what grants whole kernels:
time slices are cut finer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fikitd import _simulator
from fikitd.simulator import ARRIVALS, NO_COSTS, Scenario, SimulatorError

PRICES = (1.0, 1.1, 1.3, 1.6, 2.0, 3.0, 5.0, 10.0, 30.0, 300.0)
"""Of a delay, in work. Each gives a bound; where they lie decides only how close the least of them is."""

STEPS = 8
"""Parts of the spans between the high job's own and the longest, in which the low job's alone is looked at."""


@dataclass(frozen=True)
class Bound:
    """Of a scenario with one low job, for slowdowns of the high job up to `most`. Raises SimulatorError for more low jobs."""

    scenario: Scenario
    most: float = 0.25

    def __post_init__(self) -> None:
        if len(self.scenario.lows) != 1:
            raise SimulatorError("the bound is for one low job")

    @cached_property
    def _high(self) -> _simulator.AloneHigh:
        return _simulator.alone_high(self.scenario.high.native, self.scenario.count, self.scenario.arrival_times())

    @cached_property
    def _most_work_ns(self) -> dict[float, float]:
        """By price: the most that work less the price of the delays can be."""
        low = _simulator.alone_low(self.scenario.lows[0].native, self.scenario.high.native)
        longest_ns = round(self.most * self._response_ns)
        intervals = self._high.intervals
        return {price: _simulator.most_work_ns(intervals, low, price, longest_ns) for price in PRICES}

    @property
    def _closed(self) -> bool:
        return ARRIVALS[self.scenario.arrivals] is None

    @property
    def _response_ns(self) -> int:
        """What a slowdown is a share of: of all requests together, or with one after the other of the time for all."""
        return self._high.span_ns if self._closed else self._high.response_ns

    def _alone_share(self, longest_ns: float) -> float:
        """Of the device, at most, that the low job uses alone in a span between the high job's own and this one."""
        high = self.scenario.high.native
        job = _simulator.Job(self.scenario.lows[0].native, priority=0, managed=False)
        most = 0.0
        for step in range(STEPS):  # what it has done by the end of a step, in the time until its beginning
            begin_ns, end_ns = (
                round(self._high.span_ns + (longest_ns - self._high.span_ns) * part / STEPS)
                for part in (step, step + 1)
            )
            alone = _simulator.simulate(
                "fifo", [job], requests=1 << 60, costs=NO_COSTS, until_ns=end_ns,
                launch_latency_ns=high.launch_latency_ns, kernel_gap_ns=high.kernel_gap_ns,
            )  # fmt: skip
            most = max(most, alone["jobs"][0]["device_ns"] / begin_ns)
        return most

    def harvest(self, jct_ratio: float) -> float:
        """At most, where the high job's JCT ratio is no more than this. Three bounds: what its delays allow, what it leaves of
        the device, and what the low job does alone."""
        slowdown = max(0.0, jct_ratio - 1)
        if slowdown > self.most:
            raise SimulatorError(f"the bound was made for slowdowns up to {self.most:.0%}")
        busy_ns = sum(interval.work_ns for interval in self._high.intervals)
        idle_share = 1 - busy_ns / self._high.span_ns
        if idle_share <= 0:
            return 0.0
        delay_ns = slowdown * self._response_ns
        longest_ns = self._high.span_ns + delay_ns  # with arrivals the last request ends at some time between
        allowed_ns = min(work + price * delay_ns for price, work in self._most_work_ns.items())
        shares = (
            allowed_ns / (longest_ns if self._closed else self._high.span_ns),
            1 - busy_ns / longest_ns,
            self._alone_share(longest_ns),
        )
        return min(shares) / idle_share
