"""A cluster of GPUs in simulated time: which jobs share a GPU, and what that does to the mean job completion time (JCT).

Jobs come from published traces; their memory, and what they do to a GPU, no trace says: that is chosen (--memory, --kinds). The rules of
sharing are the library's that placement uses (fikitd/core/placement). --golden: other schedulers' published figures, reproduced. --bars: what steering has to be worth.
--speed: the whole of Philly on 1,024 GPUs.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from bench import page
from bench.cluster import bars as bars_
from bench.cluster import golden, kinds, pictures, traces
from bench.cluster.policies import NAMED, POLICIES, Kinds, Lived, Policy, Workload, live, workload
from bench.record import BenchError, Result

ABOUT = "simulated: a cluster's mean JCT by which jobs share a GPU; other schedulers' published figures; seconds for all of Philly"
HOUR_S = 3600.0
LOADS = (0.8, 1.1)
MEMORY = (14, 32)
KINDS = ("slices", "mps", "v100", "p100", "closed")
TRACES = ("philly", "muri1", "muri3", "tiresias", "made-up")
WHOLE_GPUS = {"muri1": 64, "muri3": 64, "tiresias": 16}
SPEED_GPUS, SPEED_LOAD = 1024, 0.9
DRAWN = ("sjf", "shards", "spread", "auto", "pair")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--golden", action="store_true", help="the published figures of Muri and Tiresias against ours")
    parser.add_argument(
        "--bars",
        action="store_true",
        help="what `order` and `pair` must be worth, on slices and with MPS: each bar, and whether it holds",
    )
    parser.add_argument(
        "--speed", action="store_true", help="all of Philly on 1,024 GPUs with `order` and `pair`: seconds on one core"
    )
    parser.add_argument(
        "--trace",
        choices=TRACES,
        help="default: philly where it is there, else made-up. Of Philly and made-up jobs, windows",
    )
    parser.add_argument(
        "--kinds", choices=KINDS, default="slices",
        help="what jobs do to a GPU: fikit's simulated pairs on slices or with MPS, Gavel's measured ones (two a GPU at most), or the closed form",
    )  # fmt: skip
    parser.add_argument(
        "--know-pairs", action="store_true", help="the rules know these pairs, and not the closed form only: a bound"
    )
    parser.add_argument("--sigma", type=float, default=1.0, help="error of predicted run times, lognormal; default: 1")
    parser.add_argument(
        "--policies", nargs="+", choices=list(NAMED), default=list(NAMED), metavar="NAME", help=", ".join(NAMED)
    )
    parser.add_argument(
        "--memory", nargs="+", type=int, default=list(MEMORY), metavar="GIB", help="of a job, on GPUs of 80"
    )
    parser.add_argument(
        "--loads",
        nargs="+",
        type=float,
        default=list(LOADS),
        metavar="LOAD",
        help="work that comes / what the GPUs can do alone",
    )
    parser.add_argument("--jobs", type=int, default=2000, help="in a window; default: 2000")
    parser.add_argument("--gpus", type=int, default=32, help="default: 32; of a whole trace, what its authors have")
    parser.add_argument("--seeds", type=int, default=4, help="windows, kinds and errors; default: 4")
    parser.add_argument("--folder", type=Path, default=traces.FOLDER, metavar="DIR", help="the published traces")
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="draw how long jobs took, of the first memory and load"
    )
    parser.add_argument("--svg-use", type=Path, metavar="FILE", help="draw what the GPUs did meanwhile")
    page.add_argument(parser)


def place(options: dict[str, Any]) -> str:
    """A table of its own on a page, behind the bench's name."""
    if options["golden"]:
        return " --golden"
    if options["bars"]:
        return " --bars"
    trace = "" if options["trace"] is None else f" --trace {options['trace']}"
    known = " --know-pairs" if options["know_pairs"] else ""
    sigma = "" if options["sigma"] == 1 else f" --sigma {options['sigma']:g}"
    return f"{trace} --kinds {options['kinds']}{known}{sigma}"


def _kinds(name: str, folder: Path, *, know_pairs: bool = False) -> Kinds:
    if name in kinds.MEASURED:
        found = kinds.fikit(name)
        return Kinds(f"{name}, every pair known", found.busy, found.real, found.real) if know_pairs else found
    return kinds.closed() if name == "closed" else kinds.gavel(name, folder)


def _trace(name: str | None, folder: Path) -> traces.Trace:
    if name is None:
        name = "philly" if folder.is_dir() else "made-up"
    match name:
        case "philly":
            return traces.philly(folder)
        case "muri1" | "muri3":
            return traces.muri(int(name[-1]), folder)
        case "tiresias":
            return traces.tiresias(folder)
        case _:
            return traces.made_up(10_000, seed=1)


def _golden(folder: Path) -> Result:
    rows = golden.rows(folder)
    lines = ["Simulated: mean JCT in seconds, ours against what their authors' code says"]
    lines += [
        f"  {row.trace:12} {row.policy:13} {row.ours_s:16,.3f} {row.published_s:16,.3f} {100 * row.off:+9.4f} %"
        for row in rows
    ]
    values = {f"{row.trace} {row.policy}": row.ours_s for row in rows}
    table = "\n".join(
        ["| trace | policy | ours, s | published, s | off |", "|---|---|---|---|---|"]
        + [f"| {r.trace} | {r.policy} | {r.ours_s:,.1f} | {r.published_s:,.1f} | {100 * r.off:+.3f} % |" for r in rows]
    )  # fmt: skip
    return Result("\n".join(lines), True, values, {}, {}, {"rows": golden.as_dicts(rows)}, table)


def _bars(folder: Path, seeds: int) -> Result:
    found = bars_.all_of(
        lambda name: _kinds(name, folder), lambda name: _trace(name, folder), WHOLE_GPUS, seeds, folder.is_dir()
    )
    return bars_.result(list(found), seeds)


def _speed(folder: Path, sigma: float) -> Result:
    trace = _trace("philly" if folder.is_dir() else "made-up", folder)
    scale = float((trace.work_s * trace.gpus).sum()) / (trace.submit_s[-1] * SPEED_GPUS * SPEED_LOAD)
    samples: dict[str, list[float]] = {}
    values: dict[str, float] = {}
    lines = [f"Simulated: all {len(trace)} jobs of {trace.name} on {SPEED_GPUS} GPUs, 14 GiB each, closed form"]
    busier = traces.Trace(trace.name, trace.submit_s * scale, trace.work_s, trace.gpus, trace.start_s)
    for load, jobs in (("as recorded", trace), (f"load {SPEED_LOAD}", busier)):
        work = workload(jobs, kinds.closed(), sigma=sigma, shards=14, gpus=SPEED_GPUS, seed=1)
        for name in ("order", "pair"):
            began = time.process_time()
            lived = live(work, NAMED[name])
            took = time.process_time() - began
            values[f"{name}, {load}: seconds"] = took
            samples[f"{name}, {load}"] = [took]
            lines.append(
                f"  {name:6} {load:12} {took:6.2f} s of one core, {lived.events} events, {lived.offers} offers"
            )
    return Result("\n".join(lines), True, values, samples)


def _lived(work: Workload, policy: Policy, most: int | None) -> Lived:
    try:
        return live(work, policy, most)
    except ValueError as error:
        raise BenchError(f"couldn't simulate {policy.name} on {work.trace.name}: {error}") from error


def run(
    *, emulated: bool, golden: bool = False, bars: bool = False, speed: bool = False, trace: str | None = None, kinds: str = "slices", know_pairs: bool = False, sigma: float = 1.0,
    policies: list[str] | None = None, memory: list[int] | None = None, loads: list[float] | None = None, jobs: int = 2000, gpus: int = 32,
    seeds: int = 4, folder: Path = traces.FOLDER, svg: Path | None = None, svg_use: Path | None = None,
) -> Result:  # fmt: skip
    """Simulate; raises BenchError."""
    if not emulated:
        raise BenchError("it simulates, leave --real away")
    if golden:
        return _golden(folder)
    if bars:
        return _bars(folder, seeds)
    if speed:
        return _speed(folder, sigma)
    if jobs < 2 or gpus < 1 or seeds < 1 or not sigma >= 0:
        raise BenchError("--jobs must be 2 or more, --gpus and --seeds 1 or more, --sigma 0 or more")
    known, source = _kinds(kinds, folder, know_pairs=know_pairs), _trace(trace, folder)
    chosen = [policy for policy in POLICIES if policy.name in (policies or NAMED)]
    most = 2 if known.name.startswith("Gavel") else None
    columns: list[tuple[int, float | None]] = [(gib, load) for gib in memory or MEMORY for load in loads or LOADS]
    if trace in WHOLE_GPUS:
        gpus = WHOLE_GPUS[trace]
        columns = [(gib, None) for gib in memory or MEMORY]
    found: dict[tuple[int, float | None], dict[str, list[Lived]]] = {}
    for gib, load in columns:
        cell = found.setdefault((gib, load), {})
        for seed in range(seeds):
            part = source if load is None else traces.window(source, jobs, gpus, load, seed)
            work = workload(part, known, sigma=sigma, shards=gib, gpus=gpus, seed=seed)
            for policy in chosen:
                cell.setdefault(policy.name, []).append(_lived(work, policy, most))
    what = f"{source.name}, {gpus} GPUs of 80 GiB, {known.name}, sigma {sigma:g}, {seeds} seeds"
    if svg is not None or svg_use is not None:
        first = {name: found[columns[0]][name] for name in DRAWN if name in found[columns[0]]}
        title = f"Simulated: {what}, {columns[0][0]} GiB a job"
        if svg is not None:
            pictures.distribution(svg, title, first)
        if svg_use is not None:
            pictures.use(svg_use, title, first, gpus)
    return _result(what, found, chosen)


def _result(what: str, found: dict[tuple[int, float | None], dict[str, list[Lived]]], chosen: list[Policy]) -> Result:
    def heading(gib: int, load: float | None) -> str:
        return f"{gib} GiB" + ("" if load is None else f", load {load:g}")

    hours = {
        (policy.name, heading(*column)): [float(run.jct_s.mean()) / HOUR_S for run in cell[policy.name]]
        for column, cell in found.items()
        for policy in chosen
    }
    headings = [heading(*column) for column in found]
    values = {f"{name}, {head}: mean JCT h": fmean(each) for (name, head), each in hours.items()}
    samples = {f"{name}, {head}": each for (name, head), each in hours.items()}
    wide = max(map(len, headings))
    lines = [
        f"Simulated, no claim about hardware: mean JCT in hours; {what}",
        f"  {'':12}" + "".join(f"  {head:>{wide}}" for head in headings),
    ]
    lines += [
        f"  {p.name:12}" + "".join(f"  {fmean(hours[p.name, head]):{wide}.2f}" for head in headings) for p in chosen
    ]
    table = [f"| mean JCT, h | {' | '.join(headings)} | |", "|---" * (len(headings) + 2) + "|"]
    table += [
        f"| `{p.name}` | " + " | ".join(f"{fmean(hours[p.name, head]):.2f}" for head in headings) + f" | {p.about} |"
        for p in chosen
    ]
    settings: dict[str, Any] = {"what": what}
    p99 = {
        f"{name}, {heading(*column)}": float(np.percentile(np.concatenate([run.jct_s for run in runs]), 99)) / HOUR_S
        for column, cell in found.items()
        for name, runs in cell.items()
    }
    return Result("\n".join(lines), True, values, samples, settings, {"p99_jct_h": p99}, "\n".join(table))
