"""The policy `budget` on pairs that nobody looked at while it was made: every two recordings that are no standard pair, with
arrivals of other seeds than the frontier's."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from fikitd.simulation import simulator
from fikitd.simulation.simulator import SLICES, Device

from bench import device_option, page
from bench.record import BenchError, Result
from bench.recordings import recordings
from bench.scheduling.frontier import BOUND, SAME
from bench.scheduling.pairs import CLAIM, PAIRS, Case, on_all_processors

ABOUT = "slowdown and harvest of the policy `budget` on every pair of recordings that is no standard pair"
SEEDS = (101, 102)  # the frontier begins at 1
MINE = "budget"
SIMPLER = ("paper", "prio", "xsched", "fifo", "weighted", "mps-priority")


def policies(device: Device) -> tuple[str, ...]:
    """Ours first, then those that are simpler, as far as this device has them."""
    return (MINE, *(name for name in SIMPLER if name in simulator.policies_of(device)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--traces", type=Path, metavar="DIR", help="recordings; default: those of this project")
    parser.add_argument("--requests", type=int, metavar="N", help="of the high job; default: two seconds of it")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth case; default: all of them")
    device_option.add_arguments(parser)
    page.add_argument(parser)


def cases(known: dict[str, bytes], requests: int | None, device: Device) -> list[Case]:
    """In a fixed order. Requests one after the other are the same with every seed."""
    return [
        Case(f"{high} + {low}", arrivals, (high, low), (known[high], known[low]), requests, seed, device)
        for high in sorted(known)
        for low in sorted(known)
        if high != low and (high, low) not in PAIRS.values()
        for arrivals in simulator.ARRIVALS
        for seed in (SEEDS[:1] if arrivals == "closed" else SEEDS)
    ]


def _case(case: Case) -> list[dict[str, Any]]:
    scenario = case.scenario()
    rows = []
    for policy in policies(case.device):
        outcome = case.simulate(scenario, policy)
        rows.append(
            {
                "case": str(case), "seed": case.seed, "policy": policy, "jct": outcome.high_jct_ratio,
                "p99": outcome.high_p99_ratio, "harvest": outcome.harvest,
            }
        )  # fmt: skip
    return rows


HEAD = (
    "policy", "mean JCT ratio", "highest", f"cases over {BOUND:.2f}", "mean harvest (1 at most)",
    f"harvests more than {MINE} within {BOUND:.2f}",
)  # fmt: skip


def _more(rows: list[dict[str, Any]], mine: list[dict[str, Any]]) -> list[bool]:
    """Of each case: does this policy keep the bound there, and harvest more?"""
    return [row["jct"] <= BOUND and row["harvest"] > own["harvest"] + SAME for row, own in zip(rows, mine, strict=True)]


def _cells(policy: str, rows: list[dict[str, Any]], more: list[bool]) -> tuple[str, ...]:
    ratios = [row["jct"] for row in rows]
    harvest = statistics.fmean(min(1.0, row["harvest"]) for row in rows)
    over = sum(ratio > BOUND for ratio in ratios)
    return policy, f"{statistics.fmean(ratios):.3f}", f"{max(ratios):.3f}", f"{over}", f"{harvest:.3f}", f"{sum(more)}"


def run(
    *, emulated: bool, traces: Path | None = None, requests: int | None = None, every: int = 1, device: Device = SLICES
) -> Result:
    """Simulate every such pair, or every Nth case of them; raises BenchError."""
    if not emulated:
        raise BenchError("it simulates, leave --real away")
    if every < 1:
        raise BenchError(f"couldn't take every {every}th case: --every is 1 or more")
    found = cases(recordings(traces), requests, device)[::every]
    if not found:
        raise BenchError("there are no two recordings that are no standard pair")
    rows = on_all_processors(_case, found)
    names = policies(device)
    of = {policy: [row for row in rows if row["policy"] == policy] for policy in names}
    over = sorted((row for row in of[MINE] if row["jct"] > BOUND), key=lambda row: -float(row["jct"]))
    more = {policy: _more(of[policy], of[MINE]) for policy in names}
    table = [_cells(policy, of[policy], more[policy]) for policy in names]
    below = sum(any(some) for some in zip(*more.values(), strict=True))
    lines = [
        "  ".join(f"{cell:>{len(name)}}" for cell, name in zip(cells, HEAD, strict=True)) for cells in (HEAD, *table)
    ]
    lines += [
        f"over: {row['case']}, seed {row['seed']}: {row['jct']:.3f}, harvest {row['harvest']:.2f}" for row in over
    ]
    lines.append(
        f"in {below} of {len(found)} cases one of these policies keeps {BOUND:.2f} and harvests more than {MINE}"
    )
    values = {
        "cases": len(found),
        "cases_over": len(over),
        "cases_below_a_baseline": below,
        "highest_jct_ratio": max(row["jct"] for row in of[MINE]),
        "mean_harvest": statistics.fmean(min(1.0, row["harvest"]) for row in of[MINE]),
    }
    samples = {"high_jct_ratio": [row["jct"] for row in of[MINE]]}
    settings = {"seeds": list(SEEDS), "every": every, **device_option.settings(device)}
    summary = "\n".join([CLAIM.format(device=device), *lines])
    return Result(summary, True, values, samples, settings, {"runs": rows}, page.markdown(HEAD, table))
