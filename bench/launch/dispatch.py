"""How fast the dispatcher is: what a decision costs, how soon a launch goes on, what a node full of clients costs.

Nothing of a GPU is in it: fikit-dispatch-bench plays clients on pages of their own, as the shim does, against the dispatcher
that fikitd runs. `hand over`: from the moment at which the high job's host has waited for its work, to the moment at which a
lower launch that waited for this goes on (note on the page, decision, grant, wake-up). `wake`: of that, from the grant on.
`node`: requests of lower clients all over the node, one after the other, to dispatchers that are asleep.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess

from bench.record import BenchError, Result
from fikitd import paths

ABOUT = "the dispatcher: ns per decision, us from a wait to the launch that it lets through, CPU of an idle node"
ROUNDS = 400
GPUS, CLIENTS = 8, 64
IDLE_MS = 5_000

LINES = {
    "decide_2_ns": ("decision, 2 clients", "one stands at the gate, and may not go"),
    "decide_8_ns": ("decision, 8 clients", "seven stand there"),
    "decide_64_ns": ("decision, 64 clients", "63 stand there"),
    "decide_busy_8_ns": ("decision, 8 clients, busy GPU", "all always want more; some decisions grant"),
    "decide_busy_64_ns": ("decision, 64 clients, busy GPU", ""),
    "hand_over_soon_ns": ("hand over, after a short wait", "client and dispatcher spin"),
    "hand_over_later_ns": ("hand over, after a long wait", "both sleep"),
    "wake_soon_ns": ("wake, spinning client", ""),
    "wake_later_ns": ("wake, sleeping client", ""),
    "node_request_ns": ("node, request to launch", "the dispatcher sleeps"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each measurement")
    parser.add_argument("--gpus", type=int, default=GPUS, help="of the node full of clients")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="of each of its GPUs")
    parser.add_argument("--idle-ms", type=int, default=IDLE_MS, help="for so long nobody does anything there")


def _line(name: str, values: dict[str, float]) -> str:
    title, note = LINES[name]
    p50, p99 = values[name.replace("_ns", "_p50_us")], values[name.replace("_ns", "_p99_us")]
    return f"  {title:30} p50 {p50:8.2f} us   p99 {p99:9.2f} us{'   ' + note if note else ''}"


def run(
    *, emulated: bool, rounds: int = ROUNDS, gpus: int = GPUS, clients: int = CLIENTS, idle_ms: int = IDLE_MS
) -> Result:
    """Measure; raises BenchError."""
    if not emulated:
        raise BenchError("no GPU takes part in it, leave --real away")
    load = os.getloadavg()[0]
    command = [str(paths.native_dir() / "bin" / "fikit-dispatch-bench"), *map(str, (rounds, gpus, clients, idle_ms))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError((done.stderr.strip().splitlines() or ["fikit-dispatch-bench failed without a word"])[-1])
    measured = json.loads(done.stdout)
    samples = {name: list(map(float, measured[name])) for name in LINES}
    values: dict[str, float] = {}
    for name, times in samples.items():
        values[name.replace("_ns", "_p50_us")] = statistics.median(times) / 1000
        values[name.replace("_ns", "_p99_us")] = statistics.quantiles(times, n=100)[98] / 1000
    values |= {name: measured[name] for name in ("behind_cpu_share", "empty_cpu_share", "idle_cpu_share")}
    title = f"dispatcher, {os.cpu_count()} cores, load average {load:.1f} before it began"
    behind = f"  CPU while a launch stands behind kernels of 1 ms: {100 * values['behind_cpu_share']:.1f} % of a core"
    idle = (
        f"  CPU of {gpus} dispatchers: {100 * values['empty_cpu_share']:.2f} % of a core without clients, "
        f"{100 * values['idle_cpu_share']:.2f} % with {clients} idle ones each"
    )
    summary = "\n".join([title, *(_line(name, values) for name in LINES), behind, idle])
    settings = {
        "rounds": rounds, "gpus": gpus, "clients": clients, "idle_ms": idle_ms, "load_average": load, "policy": "budget (decisions), prio",
    }  # fmt: skip
    return Result(summary, False, values, samples, settings)
