"""The demo's promise: the high-priority job's time with fikit against its time alone, in whole runs of `fikit demo`.

Times are real times of two programs and fikitd on this machine's cores: other programs show.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from fikit.demo import plan
from fikit.demo.result import PROMISED_SLOWDOWN
from fikit.demo.told import APART
from fikit.reporters import demo_table
from fikit.wording import units

from bench.record import BenchError, Result

ABOUT = "how often the demo's high-priority job keeps its promise"
RUNS = 10
TIMEOUT_S = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=_positive, default=RUNS, help="how many whole demos (default %(default)s)")
    parser.add_argument("--slurm", action="store_true", help="start the jobs through a throw-away Slurm")


def run(*, emulated: bool, runs: int = RUNS, slurm: bool = False) -> Result:
    return result([_demo(emulated, slurm) for _ in range(runs)], emulated, slurm)


def result(summaries: list[dict[str, Any]], emulated: bool, slurm: bool) -> Result:
    """What the demos' summaries say together."""
    ratios = [float(one["high_slowdown"]) for one in summaries]
    shared = [one["high"]["shared_s"] / one["high"]["alone_s"] for one in summaries]
    shares = [one["low_share"] for one in summaries if one["low_share"] is not None]
    within = sum(ratio <= PROMISED_SLOWDOWN for ratio in ratios)
    apart = [
        abs(told["apart"]) if told["apart"] is not None else None
        for one in summaries for job in demo_table.JOBS for told in one[job].get("reports", {}).values()
    ]  # fmt: skip
    known = [each for each in apart if each is not None]
    lines = [" run   high, fikit   high, default sharing   low's share"]
    for number, (one, default) in enumerate(zip(summaries, shared, strict=True), 1):
        share = "unknown" if one["low_share"] is None else units.share(one["low_share"])
        lines.append(f"{number:4}   {one['high_slowdown']:10.3f}x   {default:19.2f}x   {share:>11}")
    mode = summaries[0]["device"]["sharing"] or "a real GPU"
    lines.append(
        f"{within} of {len(ratios)} within {PROMISED_SLOWDOWN} of alone, median {statistics.median(ratios):.3f} ({mode})"
    )
    agree = sum(each <= APART for each in known)
    if apart:
        most = f", at most {units.share(max(known), 1)} apart" if known else ""
        lines.append(f"{agree} of {len(apart)} reports agree with the clock within {units.share(APART)}{most}")
    return Result(
        "\n".join(lines),
        emulated,
        {
            "within": within,
            "runs": len(ratios),
            "median": statistics.median(ratios),
            "most": max(ratios),
            "reports": len(apart),
            "agree": agree,
        },
        {"high_slowdown": ratios, "high_default_sharing": shared, "low_share": shares, "apart": known},
        {"slurm": slurm, "max_slowdown": plan.MAX_SLOWDOWN, "model": tomllib.loads(plan.MODEL.read_text())["device"]},
        {"summaries": summaries},
    )


def _demo(emulated: bool, slurm: bool) -> dict[str, Any]:
    """One demo's summary. A demo that misses its bounds ends with 1, but has measured."""
    with tempfile.TemporaryDirectory(prefix="fikit-bench-demo-") as out:
        argv = [sys.executable, "-m", "fikit", "demo", "--out", out, *([] if slurm else ["--no-slurm"])]
        argv += [] if emulated else ["--device", "real"]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"a demo took more than {TIMEOUT_S:.0f} s") from error
        file = Path(out) / "summary.json"
        if not file.exists():
            said = done.stderr.strip().splitlines()
            raise BenchError(f"a demo measured nothing; it said: {said[-1] if said else 'nothing'}")
        summary: dict[str, Any] = json.loads(file.read_text())
        return summary


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number of runs from 1 on is wanted, not {text!r}")
    return int(text)
