"""A picture of what a switch costs: JCT ratio of the high job and harvest against it, every policy, from files of `bench frontier --json`."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fikitd.config import fikit_toml
from fikitd.store.storage import reason

from bench.chart import Series, panels
from bench.record import BenchError, Result
from bench.scheduling import seeds as several

ABOUT = "picture of JCT ratio and harvest against the cost of a switch, from what `frontier --json` wrote"
POLICIES = ("budget", "paper", "prio", "xsched", "tally", "weighted", "fifo")
BUDGET = "budget 5%"
MOST_RATIO = 2.6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="of `frontier --device slices --json FILE`")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the picture here")


def _read(path: Path) -> dict[str, Any]:
    """Raises BenchError."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BenchError(f"couldn't read {path}: {reason(error) if isinstance(error, OSError) else error}") from error
    if not isinstance(found, dict) or found.get("bench") != "frontier" or "switch_us" not in found.get("settings", {}):
        raise BenchError(f"{path} is no file of `bench frontier --device slices`, make it anew")
    return found


def _policy(row: Mapping[str, Any]) -> str:
    """By the name that it has now, however old the file is."""
    name = str(row["policy"])
    return fikit_toml.FORMER_POLICIES.get(name, name)


def _mean(rows: Sequence[Mapping[str, Any]], policy: str) -> tuple[float, float]:
    """JCT ratio (geometric mean) and harvest over all cases with this policy, as the frontier's table has them."""
    own = [row for row in rows if _policy(row) == policy and (policy != "budget" or row["label"] == BUDGET)]
    cases = [several.mean(same) for same in several.by_case(own, "pair", "arrivals")]
    ratio = statistics.geometric_mean(case["high_jct_ratio"] for case in cases)
    return ratio, statistics.fmean(min(1.0, case["harvest"]) for case in cases)


def run(*, emulated: bool, files: Sequence[Path], svg: Path | None = None) -> Result:
    """Raises BenchError."""
    if not emulated:
        raise BenchError("it draws what was simulated, leave --real away")
    found = sorted(((one["settings"]["switch_us"], one["runs"]) for one in map(_read, files)), key=lambda each: each[0])
    points = {policy: [(switch_us, *_mean(runs, policy)) for switch_us, runs in found] for policy in POLICIES}
    if svg is not None:
        ratios = [Series(policy, [(at, ratio) for at, ratio, _ in own]) for policy, own in points.items()]
        harvests = [Series(policy, [(at, 100 * harvest) for at, _, harvest in own]) for policy, own in points.items()]
        svg.parent.mkdir(parents=True, exist_ok=True)
        svg.write_text(
            panels(
                "Simulated, slices of 1,024 us: means of the standard cases",
                "cost of a switch, us",
                [("high job longer than alone, times", (1.0, MOST_RATIO), ratios), ("harvest, %", (0.0, 100.0), harvests)],
            )
        )  # fmt: skip
    lines = [f"{'switch, us':>12} " + " ".join(f"{policy:>15}" for policy in POLICIES)]
    for number, (switch_us, _) in enumerate(found):
        cells = (points[policy][number][1:] for policy in POLICIES)
        lines.append(f"{switch_us:12g} " + " ".join(f"{ratio:8.3f} {harvest:6.3f}" for ratio, harvest in cells))
    values = {"devices": float(len(found))}
    samples = {policy: [harvest for _, _, harvest in own] for policy, own in points.items()}
    return Result("\n".join(lines), True, values, samples, {"files": [str(path) for path in files]}, {"points": points})
