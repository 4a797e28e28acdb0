"""What two programs' requests say of how they shared the GPU. Pure; nanoseconds, except where a name says otherwise."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from typing import Any

Request = Sequence[int]  # arrival, begin, end
MOST_KEPT = 200  # durations of a series that go into the file


def host_speed(took: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Of the piece of work that a worker repeats. `took`: moments, and how long; where that differs, requests of a busy host differ as much."""
    lengths = [length for _, length in took]
    if not lengths:
        return {}
    return {
        "p10": quantile(lengths, 10),
        "p50": quantile(lengths, 50),
        "p90": quantile(lengths, 90),
        "took": _some(lengths),
    }


def done(requests: Sequence[Request], begin_ns: int, end_ns: int) -> float:
    """Requests that were done within this time; of those at its edges the part that was."""
    total = 0.0
    for _, begin, end in requests:
        inside = min(end, end_ns) - max(begin, begin_ns)
        if inside > 0 and end > begin:
            total += inside / (end - begin)
    return total


def quantile(values: Sequence[float], percent: int) -> float:
    ordered = sorted(values)
    return float(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)])


def _some(values: Sequence[int]) -> Sequence[int]:
    return values[:: max(1, -(-len(values) // MOST_KEPT))]


def summary(took: Sequence[int]) -> dict[str, Any]:
    """ValueError where there is nothing."""
    if not took:
        raise ValueError("no request was done")
    return {
        "requests": len(took),
        "mean_ns": round(statistics.mean(took)),
        "p50_ns": quantile(took, 50),
        "p99_ns": quantile(took, 99),
        "took_us": [round(ns / 1000, 1) for ns in _some(took)],
    }


def arrivals(seed: str, mean_ns: float, length_ns: int) -> list[int]:
    """Moments of a Poisson process, ns after the start; the same for the same seed."""
    source = random.Random(seed)
    found, now = [], source.expovariate(1 / mean_ns)
    while now < length_ns:
        found.append(round(now))
        now += source.expovariate(1 / mean_ns)
    return found
