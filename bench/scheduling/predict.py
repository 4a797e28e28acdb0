"""How well durations and gaps of recorded kernels are predicted: learnt on a recording's first half, tested on its second."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import page
from bench.record import BenchError, Result
from bench.recordings import recordings
from bench.scheduling.timeline import Launch, launches
from fikitd import _core, paths

ABOUT = "errors of predicted durations and gaps on recorded timelines, ns per prediction"
CROWD = 16_000  # launches of a made-up program that fills a model: half as many kernels, in no order at all
LONG_GAP_NS = 50_000  # worth filling, whatever the launch of a filler costs
RESOLUTION_NS = 1_000  # what many profilers round to: an error is relative to the duration, but to no less than this


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument(
        "--traces", type=Path, metavar="DIR", help="recordings (*.csv.gz); default: those of this project"
    )
    page.add_argument(parser)


@dataclass
class Guess:
    """What a predictor says before a launch; None: nothing."""

    duration_ns: float | None
    gap_ns: float | None
    boundary: bool = False


class RunningMeans:
    """The plain alternative: means per identity and `depth` kernels before it, falling back to the identity alone."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._sums: dict[tuple[str, tuple[int, ...]], list[float]] = {}

    def _keys(self, launch: Launch) -> Iterator[tuple[int, ...]]:
        if self._depth and len(launch.context) >= self._depth:
            yield (launch.identity, *launch.context[-self._depth :])
        yield (launch.identity,)

    def learn(self, launch: Launch) -> None:
        for what, value in (("duration", launch.duration_ns), ("gap", launch.gap_ns)):
            for key in self._keys(launch) if value is not None else ():
                total = self._sums.setdefault((what, key), [0, 0.0])
                total[0] += 1
                total[1] += value or 0

    def guess(self, launch: Launch) -> Guess:
        return Guess(self._mean("duration", launch), self._mean("gap", launch))

    def _mean(self, what: str, launch: Launch) -> float | None:
        known = [self._sums[what, key] for key in self._keys(launch) if (what, key) in self._sums]
        return known[0][1] / known[0][0] if known else None


class Product:
    """The predictor of fikitd."""

    def __init__(self) -> None:
        self.model = _core.Model()

    def learn(self, launch: Launch) -> None:
        self.model.learn(launch.identity, launch.context, launch.duration_ns)
        if launch.gap_ns is not None:
            self.model.add_gap(launch.identity, launch.context, launch.gap_ns)

    def guess(self, launch: Launch) -> Guess:
        said = self.model.predict(launch.identity, launch.context)
        return Guess(said.duration_ns, said.gap_ns, said.boundary_chance > 0.5)


@dataclass
class Hits:
    """Of something that is or is not, and is or is not predicted."""

    real: int = 0
    predicted: int = 0
    both: int = 0

    def count(self, real: bool, predicted: bool) -> None:
        self.real += real
        self.predicted += predicted
        self.both += real and predicted

    def figures(self) -> dict[str, float | None]:
        """Precision is None when nothing was predicted, recall when there was nothing to predict."""
        return {
            "real": self.real,
            "precision": self.both / self.predicted if self.predicted else None,
            "recall": self.both / self.real if self.real else None,
        }


@dataclass
class Score:
    """A predictor's errors over a list of launches."""

    launches: int = 0
    errors: list[float] = field(default_factory=list)
    gaps: Hits = field(default_factory=Hits)
    boundaries: Hits = field(default_factory=Hits)

    def count(self, launch: Launch, guess: Guess) -> None:
        self.launches += 1
        if guess.duration_ns is not None:
            error = abs(guess.duration_ns - launch.duration_ns)
            self.errors.append(error / max(launch.duration_ns, RESOLUTION_NS))
        if launch.gap_ns is not None:
            self.gaps.count(launch.gap_ns >= LONG_GAP_NS, (guess.gap_ns or 0) >= LONG_GAP_NS)
            self.boundaries.count(launch.gap_ns >= _core.BOUNDARY_NS, guess.boundary)

    def figures(self) -> dict[str, Any]:
        """Error quantiles over the launches that were predicted at all, whose share is `known`."""
        hundredths = statistics.quantiles(self.errors, n=100, method="inclusive") if len(self.errors) > 1 else None
        return {
            "error_p50": hundredths[49] if hundredths else None,
            "error_p90": hundredths[89] if hundredths else None,
            "known": len(self.errors) / self.launches,
            "long_gaps": self.gaps.figures(),
            "boundaries": self.boundaries.figures(),
        }


def score(
    predictor: RunningMeans | Product, first: Iterable[Launch], second: Iterable[Launch], learning: bool
) -> Score:
    """Learn the first, predict the second; `learning`: each of those is learnt too, after it was predicted."""
    for launch in first:
        predictor.learn(launch)
    result = Score()
    for launch in second:
        result.count(launch, predictor.guess(launch))
        if learning:
            predictor.learn(launch)
    return result


def _recording(name: str, text: bytes) -> tuple[dict[str, Any], list[Launch]]:
    every = launches(name, text)
    first, second = every[: len(every) // 2], every[len(every) // 2 :]
    if not first:
        raise BenchError(f"{name}: one kernel cannot be learnt and tested")
    online = Product()
    row: dict[str, Any] = {
        "name": name,
        "kernels": len(every),
        "identities": len({launch.identity for launch in every}),
        "mean_0": score(RunningMeans(0), first, second, False).figures(),
        "mean_3": score(RunningMeans(3), first, second, False).figures(),
        "model": score(learnt := Product(), first, second, False).figures(),
        "learning": score(online, first, second, True).figures(),
        "drift_alarms": online.model.drift_alarms,
    }
    depths = [learnt.model.predict(launch.identity, launch.context).duration_context for launch in second]
    row["model"]["context"] = {str(depth): depths.count(depth) / len(depths) for depth in range(-1, 4)}
    row["model"]["contexts"] = sum(len(entry["context"]) == 3 for entry in learnt.model.export())
    return row, every


def _cost(every: list[Launch]) -> dict[str, Any]:
    """ns per prediction and per lesson (duration and gap), of the native code, on the launches of one recording."""
    lines = [f"{k.identity} {k.stream} {k.duration_ns} {-1 if k.gap_ns is None else k.gap_ns}" for k in every]
    program = paths.native_dir() / "bin" / "fikit-predict-bench"
    done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError((done.stderr.strip().splitlines() or ["it failed without a word"])[-1])
    return dict(json.loads(done.stdout))


def _crowd() -> list[Launch]:
    """The worst there is for a model: nothing comes twice in the same context, nothing of it is in a cache."""
    chance = random.Random(1)
    kernels = [chance.getrandbits(64) | 1 for _ in range(CROWD // 2)]
    return [
        Launch(chance.choice(kernels), (), 0, chance.randrange(1_000, 100_000), chance.randrange(100_000))
        for _ in range(CROWD)
    ]


def _share(value: float | None) -> str:
    return "   -" if value is None else f"{value:4.2f}"


def _hits(figures: dict[str, Any]) -> str:
    return f"{_share(figures['precision'])}/{_share(figures['recall'])}"


def _table(rows: list[dict[str, Any]]) -> str:
    width = max(len(row["name"]) for row in rows)
    lines = [
        "Learnt on the first half of each recording, tested on the second. mean n: running mean by n kernels of context;",
        "learning: the model goes on learning while it is tested. Errors are relative. 3: launches predicted by the three",
        "kernels before them; new: by nothing. Precision/recall of gaps >= 50 us and of boundaries (idle >= 1.05 ms).",
        "",
        f"{'':{width}}  {'':7}  {'error of durations, p50/p90':^42}  {'by context':^10}  "
        f"{'gaps >= 50 us':^38}  {'boundaries':^15}  drift",
        f"{'recording':{width}}  kernels  {'mean 0':>9}  {'mean 3':>9}  {'model':>9}  {'learning':>9}  {'3':>4}  {'new':>4}  "
        f"{'real':>5}  {'mean 0':>9}  {'mean 3':>9}  {'model':>9}  {'real':>4}  {'model':>9}  alarms",
    ]
    for row in rows:
        ways = [row[way] for way in ("mean_0", "mean_3", "model", "learning")]
        errors = [f"{_share(way['error_p50'])}/{_share(way['error_p90'])}" for way in ways]
        model = row["model"]
        lines.append(
            f"{row['name']:{width}}  {row['kernels']:7}  {'  '.join(errors)}  {_share(model['context']['3'])}  "
            f"{_share(model['context']['-1'])}  {model['long_gaps']['real']:5}  "
            f"{'  '.join(_hits(way['long_gaps']) for way in ways[:3])}  "
            f"{model['boundaries']['real']:4}  {_hits(model['boundaries'])}  {row['drift_alarms']:6}"
        )
    return "\n".join(lines)


HEAD = (
    "recording", "kernels", "error of durations, p50 / p90: no context", "three kernels", "model",
    "gaps >= 50 us", "precision / recall: no context", "three kernels", "model", "boundaries", "precision / recall: model",
)  # fmt: skip


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A line of the page's table, as HEAD has it."""
    ways = [row[way] for way in ("mean_0", "mean_3", "model")]
    boundaries = row["model"]["boundaries"]
    return (
        row["name"], f"{row['kernels']}", *(_pair(way["error_p50"], way["error_p90"]) for way in ways),
        f"{row['model']['long_gaps']['real']}",
        *(_pair(way["long_gaps"]["precision"], way["long_gaps"]["recall"]) for way in ways),
        f"{boundaries['real']}", _pair(boundaries["precision"], boundaries["recall"]),
    )  # fmt: skip


def _pair(*values: float | None) -> str:
    return " / ".join(_share(value).strip() for value in values)


def run(*, emulated: bool, traces: Path | None = None) -> Result:
    """Predict every recording; raises BenchError when one cannot be read."""
    if not emulated:
        raise BenchError("it predicts what was recorded and needs no GPU, leave --real away")
    rows, timelines = zip(*(_recording(*item) for item in recordings(traces).items()), strict=True)
    longest = max(timelines, key=len)
    cost, crowded = _cost(longest), _cost(_crowd())
    samples = {name: list(map(float, cost[name])) for name in ("predict_ns", "learn_ns")}
    samples |= {f"crowded_{name}": list(map(float, crowded[name])) for name in ("predict_ns", "learn_ns")}
    values: dict[str, float] = {"predict_allocations": cost["predict_allocations"] + crowded["predict_allocations"]}
    for name, measured in samples.items():
        tenths = statistics.quantiles(measured, n=10)
        values |= {name: statistics.median(measured), name.replace("_ns", "_p90_ns"): tenths[8]}
    summary = (
        f"{_table(list(rows))}\n\n"
        f"predict {values['predict_ns']:.0f} ns (p90 {values['predict_p90_ns']:.0f}), "
        f"{1e3 / values['predict_ns']:.1f} million a second, {values['predict_allocations']:.0f} allocations; "
        f"learn {values['learn_ns']:.0f} ns (p90 {values['learn_p90_ns']:.0f}): on {len(longest)} recorded launches\n"
        f"in a model filled by {CROWD} launches in no order: predict {values['crowded_predict_ns']:.0f} ns "
        f"(p90 {values['crowded_predict_p90_ns']:.0f}), learn {values['crowded_learn_ns']:.0f} ns"
    )
    settings = {
        "long_gap_ns": LONG_GAP_NS, "resolution_ns": RESOLUTION_NS, "boundary_ns": _core.BOUNDARY_NS,
        "calls_per_round": cost["calls_per_round"], "crowd": CROWD,
    }  # fmt: skip
    return Result(
        summary, emulated, values, samples, settings, {"traces": list(rows)}, page.markdown(HEAD, map(_cells, rows))
    )
