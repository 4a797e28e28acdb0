"""What the shim adds to calls beside the launch that programs make as often: ns per call, or per node of a graph.

A context pushed and popped around each launch, as Dr.Jit and Halide do, on a stream of the program's and on the default stream; an
executable graph that is brought up to date before each launch, whole (cuGraphExecUpdate) or node by node. In the calling thread's
processor time, by the driver's own pointers and by the shim's in turns; `added` is paired by round.
"""

from __future__ import annotations

import os
import statistics
from typing import Any

from bench.launch.managed import run_managed
from bench.record import Result

ABOUT = "cost of the shim to contexts pushed around each launch, and to updates of graphs"
ROUNDS = 200
CALLS = 100  # in a round
NODES = 500  # of the graph


def _values(direct_ns: list[float], shim_ns: list[float]) -> dict[str, float]:
    added = sorted(shim - direct for direct, shim in zip(direct_ns, shim_ns, strict=True))
    tenths = statistics.quantiles(added, n=10)
    return {
        "direct_ns": statistics.median(direct_ns),
        "shim_ns": statistics.median(shim_ns),
        "added_ns": statistics.median(added),
        "added_p10_ns": tenths[0],
        "added_p90_ns": tenths[8],
    }


def _line(name: str, values: dict[str, float]) -> str:
    return (
        f"{name:<42} {values['direct_ns']:6.0f} ns direct, {values['shim_ns']:6.0f} ns through the shim; added "
        f"{values['added_ns']:4.0f} ns (rounds: p10 {values['added_p10_ns']:.0f}, p90 {values['added_p90_ns']:.0f})"
    )


def run(*, emulated: bool) -> Result:
    """Measure; raises BenchError when the program cannot run managed."""
    options = ("--priority", "high")
    said, _ = run_managed("fikit-calls-bench", ROUNDS, CALLS, NODES, emulated=emulated, options=options)
    kinds: list[dict[str, Any]] = said["calls"]
    values: dict[str, float] = {}
    samples: dict[str, list[float]] = {}
    lines: list[str] = []
    for kind in kinds:
        of_kind = _values(kind["direct_ns"], kind["shim_ns"])
        values |= {f"{kind['name']}: {name}": value for name, value in of_kind.items()}
        samples |= {f"{kind['name']}: {way}": kind[way] for way in ("direct_ns", "shim_ns")}
        lines.append(_line(kind["name"], of_kind))
    summary = "\n".join(
        [
            f"{said['device']}{' (emulated)' if emulated else ''}: processor time of the calling thread, per call or per node of "
            f"{NODES}, {ROUNDS} interleaved rounds, {os.cpu_count()} cores",
            *lines,
        ]
    )
    settings = {"rounds": ROUNDS, "calls_per_round": CALLS, "nodes": NODES, "device": said["device"]}
    return Result(summary, emulated, values, samples, settings)
