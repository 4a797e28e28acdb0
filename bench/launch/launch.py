"""What the shim adds to a launch when nobody outranks the job: ns per cuLaunchKernel, direct and through an open gate.

In 1, 4 and 16 threads, in the calling thread's processor time: on a machine with fewer cores than threads the time of day is
mostly the time that a thread did not run. `added` is paired by round. `launch` is of single launches, each with one reading of
the clock: difference of the quantiles in each tenth of the run, the middle of these, and how far apart they are.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.launch.managed import run_managed
from bench.record import BenchError, Result

ABOUT = "cost of the shim on the launch path"
ROUNDS = 320  # of all threads together
LAUNCHES = 100  # per round; waited for outside the measured time
THREADS = (1, 4, 16)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, nargs="+", default=THREADS, help="how many launch at once")


def _measure(emulated: bool, threads: int) -> dict[str, Any]:
    """Run the bench program under `fikit run`, which starts a fikitd for it."""
    rounds = max(ROUNDS // threads, 1)
    options = ("--priority", "high")
    said, errors = run_managed("fikit-launch-bench", rounds, LAUNCHES, threads, emulated=emulated, options=options)
    if f"{2 * (rounds + rounds // 10 + 1) * LAUNCHES * threads} kernels" not in errors:
        raise BenchError(f"fikitd did not count every launch; it said: {errors.strip()}")
    return said


def _tenths(launches: list[int], threads: int) -> list[list[int]]:
    """The launches of all threads, by the tenth of the run in which they were made."""
    each = len(launches) // threads
    return [
        [ns for thread in range(threads) for ns in launches[thread * each :][each * i // 10 : each * (i + 1) // 10]]
        for i in range(10)
    ]


def _quantile(launches: list[int], share: float) -> float:
    return float(sorted(launches)[min(int(share * len(launches)), len(launches) - 1)])


def _added(direct: list[int], shim: list[int], share: float) -> float:
    return _quantile(shim, share) - _quantile(direct, share)


def _values(measured: dict[str, Any], threads: int) -> dict[str, float]:
    direct, shim = measured["direct_ns"], measured["shim_ns"]
    added = sorted(b - a for a, b in zip(direct, shim, strict=True))
    hundredths = statistics.quantiles(added, n=100)
    values = {
        "direct_ns": statistics.median(direct),
        "shim_ns": statistics.median(shim),
        "ratio": statistics.median(shim) / statistics.median(direct),
        "added_ns": statistics.median(added),
        "added_p10_ns": hundredths[9],
        "added_p90_ns": hundredths[89],
        "added_p99_ns": hundredths[98],
    }
    ways = measured["direct_launches"], measured["shim_launches"]
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        values |= {
            f"launch_{way}_{name}_ns": _quantile(ns, share) for way, ns in zip(("direct", "shim"), ways, strict=True)
        }
        direct_tenths, shim_tenths = (_tenths(ns, threads) for ns in ways)
        tenths = sorted(_added(a, b, share) for a, b in zip(direct_tenths, shim_tenths, strict=True))
        values[f"launch_added_{name}_ns"] = statistics.median(tenths)
        values[f"launch_added_{name}_low_ns"], values[f"launch_added_{name}_high_ns"] = tenths[0], tenths[-1]
    return values


def _line(threads: int, values: dict[str, float]) -> str:
    return (
        f"{threads:>3} thread{'s' if threads > 1 else ' '}: {values['direct_ns']:.0f} ns direct, {values['shim_ns']:.0f} ns "
        f"through the open gate ({values['ratio']:.2f}x); added {values['added_ns']:.0f} ns (rounds: "
        f"p10 {values['added_p10_ns']:.0f}, p90 {values['added_p90_ns']:.0f}, p99 {values['added_p99_ns']:.0f}); "
        f"single launches: added {_single(values, 'p50')}, {_single(values, 'p99')}"
    )


def _single(values: dict[str, float], name: str) -> str:
    added, low, high = (values[f"launch_added_{name}_{end}"] for end in ("ns", "low_ns", "high_ns"))
    return f"{name} {added:.0f} ns (tenths {low:.0f} to {high:.0f})"


def run(*, emulated: bool, threads: Sequence[int] = THREADS) -> Result:
    """Measure; raises BenchError when the program cannot run managed."""
    samples: dict[str, list[float]] = {}
    values: dict[str, float] = {}
    lines: list[str] = []
    histograms: dict[str, dict[str, int]] = {}
    device = ""
    for count in threads:
        measured = _measure(emulated, count)
        device = measured["device"]
        prefix = "" if count == 1 else f"threads{count}_"
        of_count = _values(measured, count)
        values |= {prefix + name: value for name, value in of_count.items()}
        for way in ("direct", "shim"):
            samples[f"{prefix}{way}_ns"] = measured[f"{way}_ns"]
            by_ns = Counter(measured[f"{way}_launches"])
            histograms[f"{prefix}{way}_launches"] = {str(ns): by_ns[ns] for ns in sorted(by_ns)}
        lines.append(_line(count, of_count))
    summary = "\n".join(
        [
            f"{device}{' (emulated)' if emulated else ''}: cuLaunchKernel, processor time of the calling thread, "
            f"{ROUNDS} interleaved rounds of {LAUNCHES}, {os.cpu_count()} cores",
            *lines,
        ]
    )
    settings = {"rounds": ROUNDS, "launches_per_round": LAUNCHES, "threads": list(threads), "device": device}
    return Result(summary, emulated, values, samples, settings, {"launches_by_ns": histograms})
