"""The part `shaping`: does a high kernel gain when the low kernel beside it takes more shared memory?

A measurement only: fikit never changes a launch's parameters. Plain MPS of the kit's own; the programs are native/shaping.c.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.gpu import mps, stamps
from bench.gpu.context import Context, Found
from bench.gpu.processes import Program
from bench.record import BenchError

KIB = (0, 100, 200)  # more dynamic shared memory of the low kernel's blocks
READY_S, LATE_S = 20.0, 5.0


def measure(context: Context) -> Found:
    """{"high_alone": took_ns, "cells": [{"shared_kib", "low_alone_per_s", "low_per_s", "low_speed", "high", "slowdown"}]}."""
    ms = 150 if context.options.quick else 700
    found: Found = {"cells": []}
    with mps.server(context.place, context.library) as env, _programs(context, env) as programs:
        high = programs["high"]
        found["high_alone"] = alone = _took(_run(context, ms, [high])[0])
        for kib in KIB:
            low = programs[f"low-{kib}"]
            cell: Found = {"shared_kib": kib}
            found["cells"].append(cell)
            try:
                alone_per_s = _per_s(_run(context, ms, [low])[0])
                of_high, of_low = _run(context, ms, [high, low])
                took = _took(of_high)
                cell |= {
                    "low_alone_per_s": alone_per_s, "low_per_s": _per_s(of_low), "high": took,
                    "low_speed": round(_per_s(of_low) / alone_per_s, 4), "slowdown": round(took["p50"] / alone["p50"], 4),
                }  # fmt: skip
            except (BenchError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
                cell["error"] = f"{error}"
            context.changed(found)
    return found


@contextmanager
def _programs(context: Context, env: dict[str, str]) -> Iterator[dict[str, Program]]:
    """One high program and a low one for each size, as clients of one server; those that wait take no time of the GPU."""
    path = context.place.program("fikit-gpu-shaping")
    commands: dict[str, list[str]] = {"high": ["high"]} | {f"low-{kib}": ["low", str(kib)] for kib in KIB}
    started: dict[str, Program] = {}
    try:
        for name, words in commands.items():
            started[name] = Program(f"shaping-{name}", [path, *words], env, context.place.directory)
        deadline = time.monotonic() + context.left(READY_S)
        for name, program in started.items():
            try:
                program.line(deadline)
            except BenchError:
                if name == "high":
                    raise  # a low one costs its own cell
        yield started
    finally:
        for program in started.values():
            program.kill()


def _run(context: Context, ms: int, programs: list[Program]) -> list[Found]:
    """What the programs say of `ms` milliseconds at the same time. BenchError when the time is over or one of them is gone."""
    if context.left() < ms / 1e3:
        raise BenchError("the time was over")
    for program in programs:
        program.write(str(ms))
    deadline = time.monotonic() + context.left(ms / 1e3 + LATE_S)
    return [dict(json.loads(program.line(deadline))) for program in programs]


def _took(said: Found) -> Found:
    """Durations from the launch to the end of the wait, ns."""
    spread = stamps.spread(said["took_ns"])
    if spread is None:
        raise ValueError(f"only {len(said['took_ns'])} kernels were done")
    return spread


def _per_s(said: Found) -> float:
    return round(float(said["kernels"]) / float(said["elapsed_ns"]) * 1e9, 2)
