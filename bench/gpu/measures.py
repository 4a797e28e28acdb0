"""What two programs' requests say of how they shared the GPU. Pure; nanoseconds, except where a name says otherwise."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from typing import Any

Request = Sequence[int]  # arrival, begin, end
MOST_KEPT = 2000  # durations that go into the file


def times(requests: Sequence[Request], since_ns: int) -> list[int]:
    """How long each request took from its arrival on, of those that arrived when the warm-up was over."""
    return [end - arrival for arrival, _, end in requests if arrival >= since_ns]


def host_speed(took: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Of the piece of work that a worker repeats. `took`: moments, and how long; where that differs, requests of a busy host differ as much."""
    lengths = [length for _, length in took]
    if not lengths:
        return {}
    return {"p10": quantile(lengths, 10), "p50": quantile(lengths, 50), "p90": quantile(lengths, 90), "took": lengths}


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


def summary(took: Sequence[int]) -> dict[str, Any]:
    """ValueError where there is nothing."""
    if not took:
        raise ValueError("no request was done")
    step = max(1, -(-len(took) // MOST_KEPT))
    return {
        "requests": len(took),
        "mean_ns": round(statistics.mean(took)),
        "p50_ns": quantile(took, 50),
        "p99_ns": quantile(took, 99),
        "took_us": [round(ns / 1000, 1) for ns in took[::step]],
    }


def beside(  # noqa: PLR0917
    high: Sequence[Request], low: Sequence[Request], window_ns: tuple[int, int], alone_high: dict[str, Any],
    alone_low_per_s: float, device_ns: tuple[float | None, float | None],
) -> dict[str, Any]:  # fmt: skip
    """One cell. `jct_ratio`, `p99_ratio`: the high program's request times against alone; `low_speed`: the low one's requests
    against alone (the inverse of its JCT ratio); `harvest`: device time of the low program / device time that the high one
    did not use, by what each one's request takes of the device when alone."""
    begin_ns, end_ns = window_ns
    of_high = summary(times(high, begin_ns))
    seconds = (end_ns - begin_ns) / 1e9
    low_per_s = done(low, begin_ns, end_ns) / seconds
    found: dict[str, Any] = {
        "high": of_high,
        "jct_ratio": round(of_high["mean_ns"] / alone_high["mean_ns"], 4),
        "p99_ratio": round(of_high["p99_ns"] / alone_high["p99_ns"], 4),
        "low_per_s": round(low_per_s, 4),
        "low_speed": round(low_per_s / alone_low_per_s, 4) if alone_low_per_s else None,
        "low_jct_ratio": round(alone_low_per_s / low_per_s, 4) if low_per_s else None,
        "harvest": None,
    }
    high_ns, low_ns = device_ns
    if high_ns and low_ns:
        free = 1 - done(high, begin_ns, end_ns) / seconds * high_ns / 1e9
        if free > 0.02:  # else there was nothing to harvest
            found["harvest"] = round(low_per_s * low_ns / 1e9 / free, 4)
    return found


def arrivals(seed: str, mean_ns: float, length_ns: int) -> list[int]:
    """Moments of a Poisson process, ns after the start; the same for the same seed."""
    source = random.Random(seed)
    found, now = [], source.expovariate(1 / mean_ns)
    while now < length_ns:
        found.append(round(now))
        now += source.expovariate(1 / mean_ns)
    return found
