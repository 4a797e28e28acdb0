"""How near placement comes to the truth by measured pairs: jobs come and go on shared GPUs, each leaves an outcome when it ends, and
fikitd.history.pairs learns from these what two jobs do to each other. The truth is `bench/cluster/*.csv`, the policy simulator's."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from fikitd.api.outcomes import UNKNOWN, Outcome
from fikitd.gpus.placement import Priorities, Slowdowns
from fikitd.history.pairs import Name, Pair, learn

from bench import page
from bench.cluster import kinds
from bench.record import BenchError, Result

ABOUT = "simulated: the error of predicted rates of two jobs on a GPU by how many runs there were, measured pairs before the closed form"
RUNS = (0, 200, 1000, 5000, 20_000)
GPUS = 32
PRESENT = 1.2  # jobs that would be on a GPU if none slowed another
MOST = 3  # on a GPU; who comes then goes elsewhere
WORK_S, SPREAD = 3600.0, 1.0  # median and sigma of the lognormal work
PRIORITIES = (1, 8)
START_S = 1_790_000_000


@dataclass
class Job:
    kind: int
    priority: int
    work_s: float
    begin_s: float
    left_s: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--device", choices=list(kinds.MEASURED), default="slices", help="whose pairs are the truth")
    parser.add_argument("--runs", nargs="+", type=int, default=list(RUNS), metavar="N", help="runs that have ended")
    parser.add_argument("--noise", type=float, default=0.02, help="sigma of the lognormal error of a report's slowdown")
    parser.add_argument("--seed", type=int, default=1)
    page.add_argument(parser)


def outcomes(
    gpu: int, real: Slowdowns, busy: list[float], noise: float, random: np.random.Generator
) -> Iterator[Outcome]:
    """Of one GPU, for ever, as they end."""
    now_s, coming_s, there = 0.0, 0.0, list[Job]()
    while True:
        there.sort(key=lambda job: job.priority)
        manner = Priorities.LISTED if len({job.priority for job in there}) > 1 else Priorities.EQUAL
        rates = real.rates(manner, [(busy[job.kind], job.kind) for job in there]) if there else []
        first = min(range(len(there)), key=lambda i: there[i].left_s / rates[i], default=None)
        end_s = np.inf if first is None else now_s + there[first].left_s / rates[first]
        step_s = min(end_s, coming_s) - now_s
        for job, rate in zip(there, rates, strict=True):
            job.left_s -= rate * step_s
        now_s += step_s
        if first is not None and end_s <= coming_s:
            yield _outcome(gpu, there.pop(first), now_s, float(random.lognormal(0, noise)))
        else:
            coming_s = now_s + float(random.exponential(WORK_S * np.exp(SPREAD**2 / 2) / PRESENT))
            if len(there) < MOST:
                work_s = float(random.lognormal(np.log(WORK_S), SPREAD))
                there.append(
                    Job(int(random.integers(len(busy))), int(random.choice(PRIORITIES)), work_s, now_s, work_s)
                )


def _outcome(gpu: int, job: Job, now_s: float, wrong: float) -> Outcome:
    elapsed_s = now_s - job.begin_s
    return Outcome(
        job=0, uid=0, name=job.kind, ended_s=START_S + int(now_s), elapsed_s=elapsed_s, busy=UNKNOWN, peak_mib=0,
        slowdown=elapsed_s / job.work_s * wrong, given_s=UNKNOWN, emulated=0, gpu=gpu + 1, priority=job.priority,
    )  # fmt: skip


def errors(learnt: dict[Pair, float], real: Slowdowns, form: Slowdowns, busy: list[float]) -> dict[str, list[float]]:
    """|predicted rate - true rate| of every two kinds: of the low job, and of both where priorities are equal."""
    found: dict[str, list[float]] = {"ordered": [], "equal": []}
    for a, b in product(range(len(busy)), repeat=2):
        for name, manner in (("ordered", Priorities.ORDERED), ("equal", Priorities.EQUAL)):
            true = real.rates(manner, [(busy[a], a), (busy[b], b)])
            said = form.rates(manner, [(busy[a], -1), (busy[b], -1)])
            who: list[tuple[Name, Name, str]] = [((0, a), (0, b), "above"), ((0, b), (0, a), "below")]
            for at, (own, other, standing) in enumerate(who):
                if name == "ordered" and at == 0:
                    continue  # the high one's is a constant, and nearly right
                slowdown = learnt.get(Pair(own, other, standing if name == "ordered" else "equal"))  # type: ignore[arg-type]
                found[name].append(abs((1 / slowdown if slowdown else said[at]) - true[at]))
    return found


def run(
    *, emulated: bool, device: str = "slices", runs: list[int] | None = None, noise: float = 0.02, seed: int = 1
) -> Result:
    """Simulate. Raises BenchError."""
    wanted = sorted(set(runs or RUNS))
    if not emulated:
        raise BenchError("it simulates, leave --real away")
    if wanted[0] < 0 or not noise >= 0:
        raise BenchError("--runs and --noise must be 0 or more")
    known = kinds.fikit(device)
    real, form = known.real(), Slowdowns(device=kinds.DEVICES[device])
    busy = [min(each, 1.0) for each in known.busy]
    streams = [outcomes(gpu, real, busy, noise, np.random.default_rng((seed, gpu))) for gpu in range(GPUS)]
    ended: list[Outcome] = []
    values: dict[str, float] = {}
    samples: dict[str, list[float]] = {}
    rows = []
    for count in wanted:
        ended += [next(streams[number % GPUS]) for number in range(len(ended), count)]
        learnt = learn(ended)
        wrong = errors(learnt, real, form, busy)
        row = [f"{count:,}", f"{len(learnt)}"]
        for name, each in wrong.items():
            p50, p90 = np.percentile(each, (50, 90))
            values |= {f"{count} runs, {name}: error p50": float(p50), f"{count} runs, {name}: error p90": float(p90)}
            samples[f"{count} runs, {name}"] = each
            row += [f"{p50:.3f} / {p90:.3f}"]
        values[f"{count} runs: pairs measured"] = len(learnt)
        rows.append(row)
    head = ["runs that ended", "pairs measured", "error of the rate, low job, p50 / p90", "equal jobs, p50 / p90"]
    lines = [
        f"Simulated, no claim about hardware: {device}, {GPUS} GPUs, {len(busy)} kinds of jobs, error of a report's slowdown {noise:g}"
    ]
    lines += [
        "  " + "  ".join(f"{cell:>{len(title)}}" for cell, title in zip(cells, head, strict=True))
        for cells in (head, *rows)
    ]
    return Result(
        "\n".join(lines), True, values, samples, {"noise": noise, "seed": seed}, {}, page.markdown(head, rows)
    )


def place(options: dict[str, object]) -> str:
    """A table of its own for each device."""
    return f" --device {options['device']}"
