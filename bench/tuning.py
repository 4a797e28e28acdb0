"""Is the policy `budget` on a knife's edge? Each of its constants halved and doubled, on all pairs of recordings."""

from __future__ import annotations

import argparse
import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bench.frontier import BOUND, read_pairs
from bench.record import BenchError, Result
from bench.recordings import recordings
from fikitd import simulator

ABOUT = "slowdown and harvest of the policy `budget` with each of its constants halved and doubled"
FACTORS = (0.5, 2.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--traces", type=Path, metavar="DIR", help="recordings; default: those of this project")
    parser.add_argument(
        "--pairs", type=Path, metavar="FILE", help='TOML: NAME = ["HIGH", "LOW", ...], names of recordings'
    )
    parser.add_argument("--requests", type=int, metavar="N", help="of the high job; default: two seconds of it")


def variants() -> dict[str, dict[str, float]]:
    """Label -> the constants that differ."""
    changed = {
        f"{name} x {factor:g}": {name: value * factor}
        for name, value in simulator.TUNING.items()
        for factor in FACTORS
        if name != "highest_load" or value * factor < 1
    }
    return {"as it is": {}, **changed, "longest_run = 1": {"longest_run": 1.0}}


def _case(job: tuple[str, tuple[str, ...], str, dict[str, bytes], int | None]) -> list[dict[str, Any]]:
    pair, names, arrivals, texts, requests = job
    traces = {name: simulator.parse(name, texts[name].decode()) for name in set(names)}
    rows = []
    for label, tuning in variants().items():
        lows = [traces[name] for name in names[1:]]
        scenario = simulator.Scenario(traces[names[0]], lows, arrivals, requests=requests, tuning=tuning)
        try:
            outcome = simulator.simulate(scenario, "budget")
        except simulator.SimulatorError as error:
            raise BenchError(f"{pair} {arrivals} {label}: {error}") from error
        rows.append(
            {"case": f"{pair} {arrivals}", "label": label, "jct": outcome.high_jct_ratio, "harvest": outcome.harvest}
        )
    return rows


def run(
    *, emulated: bool, traces: Path | None = None, pairs: Path | None = None, requests: int | None = None
) -> Result:
    """Simulate every pair with every variant; raises BenchError."""
    if not emulated:
        raise BenchError("it simulates, leave --real away")
    known = recordings(traces)
    jobs = [
        (name, jobs, arrivals, {job: known[job] for job in jobs}, requests)
        for name, jobs in read_pairs(pairs, known).items()
        for arrivals in simulator.ARRIVALS
    ]
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        rows = [row for case in pool.map(_case, jobs) for row in case]
    table = []
    for label in variants():
        mine = [row for row in rows if row["label"] == label]
        table.append(
            {
                "label": label,
                "highest_jct": max(row["jct"] for row in mine),
                "mean_jct": statistics.fmean(row["jct"] for row in mine),
                "over": sum(row["jct"] > BOUND for row in mine),
                "mean_harvest": statistics.fmean(row["harvest"] for row in mine),
            }
        )
    width = max(len(row["label"]) for row in table)
    lines = [f"{'constant':{width}}  mean JCT  highest  cases over {BOUND:.2f}  mean harvest"]
    lines += [
        f"{row['label']:{width}}  {row['mean_jct']:8.3f}  {row['highest_jct']:7.3f}  {row['over']:15}  {row['mean_harvest']:12.3f}"
        for row in table
    ]
    summary = "\n".join(["Simulated on the emulated device model, no claim about hardware", *lines])
    values = {"cases": len(jobs), "highest_jct_ratio": max(row["highest_jct"] for row in table)}
    settings = {"factors": list(FACTORS), "seed": 1, "device": "emulated device model"}
    samples = {"mean_harvest": [row["mean_harvest"] for row in table]}
    return Result(summary, True, values, samples, settings, details={"table": table, "runs": rows})
