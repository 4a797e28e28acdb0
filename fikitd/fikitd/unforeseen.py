"""How much any policy could give to a low job that does not know when the high job's next request comes.

It may know everything else: both jobs' kernels, and what each delay costs. docs/scheduling-results.md derives it ("Nobody
knows the arrivals"). Requests arrive as a Poisson process, so a kernel that begins while there is none meets the next one
after an exponential time, whatever has been seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from fikitd import _simulator
from fikitd.simulator import ARRIVALS, Scenario, SimulatorError

__all__ = ["HighJob", "Unforeseen", "most_work"]

REQUESTS = 3  # the second of these has one before it and one after it


@dataclass(frozen=True)
class HighJob:
    """What a kernel of a low job can cost it. Times in ns; `rate`: requests per ns."""

    rate: float
    request_ns: float
    """How long one takes alone."""
    rest_slack_ns: float
    """So much of a kernel that begins while there is no request, and ends within the next one, costs that nothing, at most."""
    busy_slack_ns: float
    """The same of one that begins while there is a request, wherever within."""

    @property
    def together(self) -> float:
        """Requests that are late, on average, when one that found nobody is: those of a busy period."""
        return 1 / (1 - self.rate * self.request_ns)

    def least_delay_ns(self, length_ns: float) -> float:
        """Of all responses together, expected, at the best moment for a kernel of this length."""
        return min(self.together * self._late_ns(length_ns - self.rest_slack_ns), self._late_within_ns(length_ns))

    def _late_within_ns(self, length_ns: float) -> float:
        """The same of a kernel that begins while there is a request, at whatever moment of it costs least.

        Where it would end in u, it ends later by the kernel's length less u, or less the slack where that is shorter, and so do
        1 + rate * u * together of them: with it those that arrive within u, and those behind them. Least at one of the ends."""
        late_ns = max(0.0, length_ns - self.busy_slack_ns)
        behind = self.rate * min(self.busy_slack_ns, self.request_ns) * self.together
        return min(length_ns, late_ns * (1 + behind))

    def _late_ns(self, length_ns: float) -> float:
        """By how much, on average, something that takes so long ends after the next arrival."""
        if length_ns <= 0:
            return 0.0
        return length_ns + math.expm1(-self.rate * length_ns) / self.rate


def most_work(high: HighJob, lengths_ns: Sequence[float], delay_ns: float) -> float:
    """Expected device time of a low job that repeats kernels of these lengths in their order, at most, where the high job's
    responses together are late by no more than delay_ns, expected. inf: its kernels cost nothing at their best moments."""
    work_ns, cost_ns = 0.0, 0.0
    begun: list[tuple[float, float]] = []
    for length_ns in lengths_ns:
        work_ns += length_ns
        cost_ns += high.least_delay_ns(length_ns)
        begun.append((work_ns, cost_ns))
    if cost_ns <= 0:
        return math.inf
    worth = work_ns / cost_ns  # of a delay, pass by pass
    return delay_ns * worth + max(0.0, *(work - cost * worth for work, cost in begun))


@dataclass(frozen=True)
class Unforeseen:
    """The bound of a scenario with one low job and arrivals from outside; raises SimulatorError for others."""

    scenario: Scenario

    def __post_init__(self) -> None:
        if len(self.scenario.lows) != 1 or ARRIVALS[self.scenario.arrivals] is None:
            raise SimulatorError("this bound is for one low job, and requests that arrive from outside")

    @cached_property
    def high(self) -> HighJob:
        trace = self.scenario.high
        intervals = _simulator.alone_high(trace.native, REQUESTS, []).intervals
        each = len(intervals) // REQUESTS
        slacks = list(_slacks(intervals))[each : 2 * each]
        load = ARRIVALS[self.scenario.arrivals] or 0.0
        return HighJob(load / trace.solo_ns, trace.solo_ns, rest_slack_ns=slacks[0], busy_slack_ns=max(slacks))

    def harvest(self, jct_ratio: float) -> float:
        """At most, expected, where the high job's JCT ratio is no more than this, expected."""
        alone = _simulator.alone_high(self.scenario.high.native, self.scenario.count, self.scenario.arrival_times())
        idle_ns = alone.span_ns - sum(interval.work_ns for interval in alone.intervals)
        lows = _simulator.alone_low(self.scenario.lows[0].native, self.scenario.high.native)
        delay_ns = max(0.0, jct_ratio - 1) * alone.response_ns
        return most_work(self.high, [kernel.length_ns for kernel in lows], delay_ns) / idle_ns if idle_ns > 0 else 0.0


def _slacks(intervals: Iterable[_simulator.Interval]) -> Iterable[float]:
    """By interval, the first of a request included: idle time within it, and from its last kernel to the end of the wait."""
    before_ns = 0
    for interval in intervals:
        yield interval.end_ns - before_ns - interval.work_ns + interval.tail_ns
        before_ns = interval.end_ns
