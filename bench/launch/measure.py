"""What timing launches costs a job: JCT with samples, and with --fikit-measure, against the driver alone, in turns."""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass, field
from typing import Any

from bench.launch.managed import run_managed
from bench.record import BenchError, Result

ABOUT = "cost of sampling and of measuring (--fikit-measure) to a job's completion time"
REPEATS = 6  # of each run, in turns
ROUNDS = 150  # in a run, by the driver alone and through the shim
DISTURBED = 1.2  # a round that takes so much longer than the lower quartile was not the machine's only work: left out


@dataclass(frozen=True)
class _Work:
    """What fikit-measure-bench does in a round: iterations, launches, ns of a kernel and of thinking before a launch, and
    whether the host's time is the job's."""

    name: str
    arguments: tuple[int, int, int, int, int]


# Small-model inference leaves 50-60 us between short kernels: the job takes what its host thread takes. Training runs ahead
# of the device. Rounds of 3 ms: on a machine that is used by others, too, many of them are undisturbed.
WORK = (_Work("inference", (1, 60, 8_000, 55_000, 1)), _Work("training", (1, 50, 60_000, 5_000, 0)))


@dataclass
class _Way:
    """One way to run the job, and how long its rounds took in ratio to the driver's own beside them, run by run."""

    name: str
    options: tuple[str, ...]
    sample_every: int
    ratios: list[float] = field(default_factory=list)
    left_out: list[float] = field(default_factory=list)  # shares of rounds


def _undisturbed(rounds: list[float]) -> list[float]:
    limit = DISTURBED * statistics.quantiles(rounds, n=4)[0]
    return [ms for ms in rounds if ms <= limit]


def _run(work: _Work, way: _Way, rounds: int, emulated: bool) -> str:
    measured, _ = run_managed(
        "fikit-measure-bench", rounds, *work.arguments,
        emulated=emulated, options=way.options, scheduler={"sample_every": way.sample_every},
    )  # fmt: skip
    shim, direct = _undisturbed(measured["shim_ms"]), _undisturbed(measured["direct_ms"])
    way.ratios.append(statistics.fmean(shim) / statistics.fmean(direct))
    way.left_out.append(1 - (len(shim) + len(direct)) / (2 * rounds))
    return str(measured["device"])


def _percent(ratio: float) -> float:
    return 100 * (ratio - 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs of each kind, in turns")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="pairs of rounds in a run, 4 or more")


def run(*, emulated: bool, repeats: int = REPEATS, rounds: int = ROUNDS) -> Result:
    """Measure; raises BenchError when the program cannot run managed."""
    if repeats < 1 or rounds < 4:
        raise BenchError("--repeats must be 1 or more, and --rounds 4 or more")
    values: dict[str, float] = {}
    samples: dict[str, list[float]] = {}
    lines: list[str] = []
    device = ""
    for work in WORK:
        ways = [
            _Way("gated", (), 0),
            _Way("sampled", (), 64),
            _Way("measured", ("--measure",), 0),
        ]
        for _ in range(repeats):
            for way in ways:
                device = _run(work, way, rounds, emulated)
        middles = {way.name: statistics.median(way.ratios) for way in ways}
        for way in ways:
            key = f"{work.name}_{way.name}"
            low, high = min(way.ratios), max(way.ratios)
            samples |= {f"{key}_ratio": way.ratios, f"{key}_left_out": way.left_out}
            values |= {f"{key}_ratio": middles[way.name], f"{key}_lowest": low, f"{key}_highest": high}
            lines.append(
                f"  {work.name:9}  {way.name:8}  {_percent(middles[way.name]):+6.2f} %  "
                f"({_percent(low):+.2f} to {_percent(high):+.2f}; {100 * statistics.fmean(way.left_out):.0f} % of rounds left out)"
            )
        for name in ("sampled", "measured"):  # timing alone: what the same job without it costs is taken off
            values[f"{work.name}_{name}_overhead_percent"] = _percent(middles[name] / middles["gated"])
    title = f"{device}{' (emulated)' if emulated else ''}: completion time against the driver alone, {repeats} runs of {rounds} pairs of rounds"
    lines += [
        f"  {name}: "
        + ", ".join(f"{work.name} {values[f'{work.name}_{name}_overhead_percent']:+.2f} %" for work in WORK)
        + " beyond the gate"
        for name in ("sampled", "measured")
    ]
    settings: dict[str, Any] = {"rounds": rounds, "repeats": repeats, "device": device, "sample_every": 64}
    return Result("\n".join([title, *lines]), emulated, values, samples, settings)
