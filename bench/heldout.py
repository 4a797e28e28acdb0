"""The policy `budget` on pairs that nobody looked at while it was made: every two recordings that are no standard pair, with
arrivals of other seeds than the frontier's."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from bench import page
from bench.frontier import BOUND
from bench.pairs import CLAIM, PAIRS, Case, on_all_processors
from bench.record import BenchError, Result
from bench.recordings import recordings
from fikitd import simulator

ABOUT = "slowdown and harvest of the policy `budget` on every pair of recordings that is no standard pair"
SEEDS = (101, 102)  # the frontier begins at 1
POLICIES = ("budget", "fikit", "prio")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--traces", type=Path, metavar="DIR", help="recordings; default: those of this project")
    parser.add_argument("--requests", type=int, metavar="N", help="of the high job; default: two seconds of it")
    page.add_argument(parser)


def cases(known: dict[str, bytes], requests: int | None) -> list[Case]:
    """In a fixed order. Requests one after the other are the same with every seed."""
    return [
        Case(f"{high} + {low}", arrivals, (high, low), (known[high], known[low]), requests, seed)
        for high in sorted(known)
        for low in sorted(known)
        if high != low and (high, low) not in PAIRS.values()
        for arrivals in simulator.ARRIVALS
        for seed in (SEEDS[:1] if arrivals == "closed" else SEEDS)
    ]


def _case(case: Case) -> list[dict[str, Any]]:
    scenario = case.scenario()
    rows = []
    for policy in POLICIES:
        outcome = case.simulate(scenario, policy)
        rows.append(
            {
                "case": str(case), "seed": case.seed, "policy": policy, "jct": outcome.high_jct_ratio,
                "p99": outcome.high_p99_ratio, "harvest": outcome.harvest,
            }
        )  # fmt: skip
    return rows


HEAD = ("policy", "mean JCT ratio", "highest", f"cases over {BOUND:.2f}", "mean harvest (1 at most)")


def _cells(policy: str, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    ratios = [row["jct"] for row in rows]
    harvest = statistics.fmean(min(1.0, row["harvest"]) for row in rows)
    over = sum(ratio > BOUND for ratio in ratios)
    return policy, f"{statistics.fmean(ratios):.3f}", f"{max(ratios):.3f}", f"{over}", f"{harvest:.3f}"


def run(*, emulated: bool, traces: Path | None = None, requests: int | None = None) -> Result:
    """Simulate every such pair; raises BenchError."""
    if not emulated:
        raise BenchError("it simulates, leave --real away")
    found = cases(recordings(traces), requests)
    if not found:
        raise BenchError("there are no two recordings that are no standard pair")
    rows = on_all_processors(_case, found)
    mine = {policy: [row for row in rows if row["policy"] == policy] for policy in POLICIES}
    over = sorted((row for row in mine["budget"] if row["jct"] > BOUND), key=lambda row: -float(row["jct"]))
    table = [_cells(policy, mine[policy]) for policy in POLICIES]
    lines = [
        "  ".join(f"{cell:>{len(name)}}" for cell, name in zip(cells, HEAD, strict=True)) for cells in (HEAD, *table)
    ]
    lines += [
        f"over: {row['case']}, seed {row['seed']}: {row['jct']:.3f}, harvest {row['harvest']:.2f}" for row in over
    ]
    values = {
        "cases": len(found),
        "cases_over": len(over),
        "highest_jct_ratio": max(row["jct"] for row in mine["budget"]),
        "mean_harvest": statistics.fmean(min(1.0, row["harvest"]) for row in mine["budget"]),
    }
    samples = {"high_jct_ratio": [row["jct"] for row in mine["budget"]]}
    settings = {"seeds": list(SEEDS), "device": "emulated device model"}
    summary = "\n".join([CLAIM, *lines])
    return Result(summary, True, values, samples, settings, {"runs": rows}, page.markdown(HEAD, table))
