"""Programs like those that bench gpu ran side by side on an H200, made up: their requests have as many kernels of such lengths."""

from __future__ import annotations

import random
from dataclasses import dataclass

from fikit.recordings.made import Made

TIMING_NS = 15_500
"""Of a launch's two events, on the host, as that run's measured program showed it."""


@dataclass(frozen=True)
class Program:
    """A request: kernels, launched one after the other; then the host waits. Times in us, on average."""

    name: str
    seed: int
    kernels: int
    kernel_us: float
    thinks_us: float  # before a launch

    def text(self) -> bytes:
        """Its recording."""
        made = Made(random.Random(self.seed))
        for number in range(self.kernels):
            made.think(self.thinks_us)
            made.work(f"{self.name}{number % 9}", self.kernel_us)
        made.synchronize()
        made.think(20)
        return made.text()


ENCODER = Program("encoder", 1, 180, 12, 12)
CONVOLUTION = Program("convolution", 2, 130, 70, 2)
DECODE = Program("decode", 3, 8, 205, 0.1)
BATCH = Program("batch", 4, 16, 97, 0.1)
