"""Which jobs share a GPU, on a real Slurm and in the cluster simulator: mean JCT of the same jobs of known length by each policy.

A throw-away Slurm with four emulated GPUs, fikitd, shim and placement agent as a site has them; the programs are `fikit-replay` with made-up
recordings. Two minutes or more for each policy and seed. Needs root and Debian's Slurm packages, 24.11 or newer (`fikit sandbox --slurm 26.05 -- python -m bench placed`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from fikit.slurm import versions as slurm_versions
from fikitd.store.storage import reason

from bench import page, record
from bench.placed import jobs as work
from bench.placed.live import FIRST_FIT, Measured, live
from bench.record import BenchError, Result

ABOUT = (
    "40 jobs of known length on a real Slurm with emulated GPUs, by each placement policy, beside the cluster simulator"
)
JOBS, LOAD, GIB, SEEDS = 40, 2.0, 8, 1
FORMAT = "fikit-placed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"default {JOBS}")
    parser.add_argument(
        "--load", type=float, default=LOAD, help=f"work that comes / what the GPUs can do alone; default {LOAD:g}"
    )
    parser.add_argument(
        "--memory", type=int, default=GIB, metavar="GIB", help=f"of a job, on GPUs of {work.GPU_GIB}; default {GIB}"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"so many sets of jobs; default {SEEDS}")
    parser.add_argument("--policies", nargs="+", choices=list(work.POLICIES), default=list(work.POLICIES))
    parser.add_argument(
        "--resume", type=Path, metavar="DIR",
        help="keep each policy and seed in a file here as soon as it is measured, and do not measure again what is here",
    )  # fmt: skip
    page.add_argument(parser)


def run(
    *, emulated: bool, jobs: int = JOBS, load: float = LOAD, memory: int = GIB, seeds: int = SEEDS,
    policies: Sequence[str] = tuple(work.POLICIES), resume: Path | None = None,
) -> Result:  # fmt: skip
    """Measure and simulate; raises BenchError."""
    if not emulated:
        raise BenchError("its GPUs are emulated, leave --real away")
    if jobs < 1 or seeds < 1 or not load > 0 or not 1 <= memory <= work.GPU_GIB:
        raise BenchError(f"--jobs and --seeds must be 1 or more, --load more than 0, --memory 1 to {work.GPU_GIB}")
    settings = {"jobs": jobs, "load": load, "memory_gib": memory, "seeds": seeds}
    rows = []
    for seed in range(1, seeds + 1):
        made = work.made_up(jobs, load, seed)
        for policy in policies:
            kept = None if resume is None else resume / f"{policy}-{seed}.json"
            about = {**settings, "seeds": seed, "policy": policy}
            row = _load(kept, about)
            if row is None:
                row = _row(made, memory, policy, seed)
                _say(row)
                if kept is not None:
                    record.write_whole(kept, json.dumps({"format": FORMAT, "about": about, "row": row}) + "\n")
            rows.append(row)
    return _result(rows, policies, settings)


def _load(kept: Path | None, about: dict[str, Any]) -> dict[str, Any] | None:
    if kept is None:
        return None
    try:
        found = json.loads(kept.read_text())
        if found["format"] != FORMAT or found["about"] != about:
            raise BenchError(f"{kept} was measured with other settings, give --resume another directory")
        return dict(found["row"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        said = reason(error) if isinstance(error, OSError) else "it is no such file"
        raise BenchError(f"couldn't read {kept}: {said}") from error


def _row(made: Sequence[work.Job], gib: int, policy: str, seed: int) -> dict[str, Any]:
    version = slurm_versions.installed()
    if version is None or (version < slurm_versions.SPREADS and policy != FIRST_FIT):
        raise BenchError("this Slurm cannot spread, run it as: fikit sandbox --slurm 26.05 -- python -m bench placed")
    begun_s = time.monotonic()
    measured = live(made, gib, policy)
    simulated_s = work.simulated_jct_s(made, gib, policy)
    return {
        "policy": policy,
        "seed": seed,
        "slurm": ".".join(map(str, version)),
        "commit": record.commit(),
        "load_average": os.getloadavg()[1],
        "took_s": time.monotonic() - begun_s,
        "measured_jct_s": fmean(each.jct_s for each in measured.lived),
        "simulated_jct_s": fmean(simulated_s),
        "starts_s": measured.starts_s(),
        "alone": measured.alone,
        "jobs": _jobs(measured, simulated_s),
    }


def _jobs(measured: Measured, simulated_s: Sequence[float]) -> list[dict[str, Any]]:
    return [
        {
            "name": each.job.name, "kind": work.KINDS[each.job.kind].name, "work_s": each.job.work_s, "submit_s": each.job.submit_s, "came_s": each.came_s,
            "began_s": each.began_s, "ended_s": each.ended_s, "gpu": each.gpu, "measured_jct_s": each.jct_s, "simulated_jct_s": simulated,
        }
        for each, simulated in zip(measured.lived, simulated_s, strict=True)
    ]  # fmt: skip


def _off(row: dict[str, Any]) -> float:
    return float(row["measured_jct_s"] / row["simulated_jct_s"] - 1)


def _say(row: dict[str, Any]) -> None:
    print(
        f"{row['policy']}, seed {row['seed']}: {row['measured_jct_s']:.1f} s, simulated {row['simulated_jct_s']:.1f} s "
        f"({row['took_s']:.0f} s, load {row['load_average']:.1f})", file=sys.stderr, flush=True
    )  # fmt: skip


def _result(rows: list[dict[str, Any]], policies: Sequence[str], settings: dict[str, Any]) -> Result:
    values: dict[str, float] = {}
    samples: dict[str, list[float]] = {}
    lines, cells = [], []
    for policy in policies:
        of_policy = [row for row in rows if row["policy"] == policy]
        measured, simulated = (fmean(row[f"{what}_jct_s"] for row in of_policy) for what in ("measured", "simulated"))
        off = measured / simulated - 1
        starts = [each for row in of_policy for each in row["starts_s"]]
        values |= {
            f"{policy}: measured_jct_s": measured,
            f"{policy}: simulated_jct_s": simulated,
            f"{policy}: off": off,
        }
        samples[f"{policy}: starts_s"] = starts
        samples[f"{policy}: off"] = [_off(row) for row in of_policy]
        start = f"{median(starts):.2f} / {max(starts):.2f}" if starts else "-"
        lines.append(
            f"  {policy:7} {measured:7.1f} s, simulated {simulated:7.1f} s, {100 * off:+5.1f} %; start {start} s"
        )
        cells.append([f"`{policy}`", f"{measured:.1f}", f"{simulated:.1f}", f"{100 * off:+.1f} %", start])
    slurm = ", ".join(sorted({row["slurm"] for row in rows}))
    claim = (
        f"Slurm {slurm}, {work.GPUS} emulated GPUs of {work.GPU_GIB} GiB, no claim about hardware; "
        f"{settings['jobs']} jobs of {settings['memory_gib']} GiB, load {settings['load']:g}, {settings['seeds']} seeds: mean JCT"
    )
    head = ("policy", "mean JCT measured, s", "simulated, s", "off", "start on an idle GPU, median / longest, s")
    return Result(
        "\n".join([claim, *lines]), True, values, samples, {**settings, "slurm": slurm}, {"rows": rows}, page.markdown(head, cells)
    )  # fmt: skip
