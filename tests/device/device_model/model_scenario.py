"""Scenarios of kernels for the device model in manual time, and the program that plays them (emu_scenario.cpp)."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@dataclass(eq=False)
class Kernel:
    at_ns: int
    stream: int
    ns: int
    demand: float
    waves: int
    left_ns: float = 0
    end_ns: float = 0
    share: float = 0  # of the device, a moment ago
    held: tuple[float, float] = (0, 0)  # share, and until when


@dataclass
class Scenario:
    priorities: list[int]  # of the processes
    streams: list[int]  # whose each is
    kernels: list[Kernel]
    slowdown: float = 1.0
    concurrency: int = 1
    sharing: str = "mps"
    slice_ns: int = 0
    switch_ns: int = 0
    mps_model: str = "proportion"
    mps: list[int] = field(default_factory=list)

    def played(self, program: Path) -> tuple[list[int], list[tuple[int, int]]]:
        """Each kernel's end, and each process's busy time and device work, as the device model has them."""
        device = [self.sharing, self.slice_ns, self.switch_ns, self.slowdown, self.concurrency, self.mps_model]
        lines = [" ".join(map(str, ["device", *device]))]
        clients = self.mps or [0] * len(self.priorities)
        lines += [f"process {client} {priority} 1" for client, priority in zip(clients, self.priorities, strict=True)]
        lines += [f"stream {process}" for process in self.streams]
        lines += [f"kernel {k.at_ns} {k.stream} {k.ns} {k.demand} {k.waves}" for k in self.kernels]
        out = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=True, timeout=60)
        numbers = [[int(word) for word in line.split()] for line in out.stdout.splitlines()]
        count = len(self.kernels)
        return [row[0] for row in numbers[:count]], [(row[0], row[1]) for row in numbers[count:]]


def _kernels(draw: st.DrawFn, streams: int, most: int) -> list[Kernel]:
    times = sorted(draw(st.lists(st.integers(0, 20_000), min_size=1, max_size=most)))
    return [
        Kernel(
            at_ns=at,
            stream=draw(st.integers(0, streams - 1)),
            ns=draw(st.integers(100, 20_000)),
            demand=draw(st.sampled_from([0.125, 0.25, 0.5, 0.75, 1.0])),
            waves=draw(st.sampled_from([1, 2, 5])),
        )
        for at in times
    ]


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    priorities = draw(st.lists(st.integers(0, 1), min_size=1, max_size=4))
    streams = draw(st.lists(st.integers(0, len(priorities) - 1), min_size=1, max_size=5))
    kernels = _kernels(draw, len(streams), 8)
    return Scenario(priorities, streams, kernels, draw(st.sampled_from([1.0, 1.2, 1.5])), draw(st.integers(1, 3)))
