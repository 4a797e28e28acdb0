"""The constants of placement's closed form (fikitd/core/placement/slowdowns.hpp) that come nearest to simulated pairs: `python -m bench slowdowns --fit`.

A job that has the share s = granted x left^power of the device takes (1 - u) + u / s + crossing x taken times as long as alone; u: its busy share. Of
all constants on a grid, those are taken with the smallest sum of the median and the 90th percentile of |rate by the form - simulated rate|.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

GRANTED = tuple(percent / 100 for percent in range(80, 116, 5))
"""At most 1.15: so much of one GPU is promised, together, to k equal jobs that want it all the time. Larger values fit pairs by .002 better, and promise more than there is."""
POWER = tuple(tenths / 10 for tenths in range(5, 21))
CROSSING = tuple(tenths / 10 for tenths in range(21))
HIGH_SLOWDOWN = 1.01
LEAST_SHARE = 0.01

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """Simulated rates of jobs, 1 = as alone, with what the form reckons with: busy shares, what others leave and take of the device, 0 to 1,
    and by how much of `granted` a job is sure to have."""

    simulated: Numbers
    busy: Numbers
    left: Numbers
    taken: Numbers
    turn: float
    least: float

    def errors(self, granted: float, power: float, crossing: float) -> Numbers:
        """|rate by the form - simulated rate|."""
        share = np.maximum(granted * self.left**power, max(self.turn * granted, self.least))
        rate = np.minimum(1 / (1 - self.busy + self.busy / share + crossing * self.taken), 1)
        return np.abs(rate - self.simulated)


@dataclass(frozen=True)
class Fit:
    granted: float
    power: float
    crossing: float
    error_p50: float
    error_p90: float

    def __str__(self) -> str:
        return (
            f"granted {self.granted:g}, power {self.power:g}, crossing {self.crossing:g}: "
            f"error p50 {self.error_p50:.3f}, p90 {self.error_p90:.3f}"
        )


def ordered(busy_high: Numbers, busy_low: Numbers, slowdown_low: Numbers) -> Rates:
    """The low job below the high one."""
    taken = busy_high / HIGH_SLOWDOWN
    return Rates(1 / slowdown_low, busy_low, 1 - taken, taken, turn=0, least=LEAST_SHARE)


def equal(busy: tuple[Numbers, Numbers], slowdowns: tuple[Numbers, Numbers]) -> Rates:
    """Both jobs of each pair."""
    others = np.concatenate(busy[::-1])
    return Rates(1 / np.concatenate(slowdowns), np.concatenate(busy), 1 - others, others, turn=1 / 2, least=0)


def fit(rates: Rates) -> Fit:
    """The best on the grid; of equals the first."""

    def tried(granted: float, power: float, crossing: float) -> Fit:
        p50, p90 = np.percentile(rates.errors(granted, power, crossing), (50, 90))
        return Fit(granted, power, crossing, float(p50), float(p90))

    return min(
        (tried(*each) for each in product(GRANTED, POWER, CROSSING)), key=lambda fit: fit.error_p50 + fit.error_p90
    )
