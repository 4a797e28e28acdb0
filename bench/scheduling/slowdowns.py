"""How much every two recorded jobs slow each other on one simulated GPU, with priorities (`budget`) and without (`fifo`), and how
far the closed form of placement (fikitd/core/placement/slowdowns.hpp) is from that."""

from __future__ import annotations

import argparse
import csv
import random
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from fikitd.gpus import placement
from fikitd.simulation import simulator
from fikitd.simulation.simulator import SLICES, Device
from fikitd.store.storage import reason

from bench import device_option
from bench.record import BenchError, Result
from bench.recordings import recordings
from bench.scheduling import closed_form
from bench.scheduling.pairs import CLAIM, Case, on_all_processors

ABOUT = "simulated: slowdowns of every two recorded jobs on one GPU, and the error of placement's closed form"
POLICY = {"ordered": "budget", "equal": "fifo"}
SEED = 7
COLUMNS = ("priorities", "high", "low", "busy_high", "busy_low", "slowdown_high", "slowdown_low")


@dataclass(frozen=True)
class Pair:
    """Two jobs side by side; with equal priorities `high` is only the first. Busy: share of its time alone with a kernel on the
    device, as the device's sharing reckons it. A slowdown: completion time together / alone."""

    priorities: str
    high: str
    low: str
    busy_high: float
    busy_low: float
    slowdown_high: float
    slowdown_low: float


def _simulate(case: Case) -> list[dict[str, Any]]:
    scenario = case.scenario()
    high, low = (
        simulator.high_alone(simulator.Scenario(job, (), device=case.device))
        for job in (scenario.high, scenario.lows[0])
    )
    rows = []
    for priorities, policy in POLICY.items():
        outcome = case.simulate(scenario, policy)
        slowdown_low = outcome.low_jct_ratio
        if slowdown_low is None:  # it did nothing in all that time
            slowdown_low = float("inf")
        rows.append(
            dict(zip(COLUMNS, (priorities, *case.names, high.busy, low.busy, outcome.high_jct_ratio, slowdown_low), strict=True))
        )  # fmt: skip
    return rows


def _three(case: Case) -> list[dict[str, Any]]:
    scenario = case.scenario()
    try:
        rates = simulator.rates(scenario, POLICY["equal"])
        alone = [
            simulator.high_alone(simulator.Scenario(job, (), device=case.device)).busy
            for job in (scenario.high, *scenario.lows)
        ]
    except simulator.SimulatorError as error:
        raise BenchError(f"{case}: {error}") from error
    return [{"jobs": case.names, "busy": alone, "rates": rates}]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--traces", type=Path, metavar="DIR", help="recordings; default: those of this project")
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="write the slowdowns here, for `a file of bench/cluster/`"
    )
    parser.add_argument(
        "--fit", action="store_true", help="say which constants of the closed form come nearest to these slowdowns"
    )
    parser.add_argument(
        "--three", type=int, default=0, metavar="N", help="N times three different jobs without priorities, too: how far the form is off there"
    )  # fmt: skip
    device_option.add_arguments(parser)


def read(path: Path) -> list[Pair]:
    """What --csv wrote. Raises BenchError."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.reader(line for line in file if not line.startswith("#")))
        if not rows or tuple(rows[0]) != COLUMNS:
            raise BenchError(f"{path} has no slowdowns: its first line must be {','.join(COLUMNS)}")
        return [Pair(row[0], row[1], row[2], *(float(cell) for cell in row[3:])) for row in rows[1:]]
    except (OSError, UnicodeDecodeError, ValueError, TypeError, IndexError) as error:
        raise BenchError(f"couldn't read {path}: {reason(error) if isinstance(error, OSError) else error}") from error


def _write(path: Path, pairs: list[Pair], device: Device) -> None:
    with path.open("w", newline="") as file:
        file.write(f"# {CLAIM.format(device=device)}: python -m bench slowdowns\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for pair in pairs:
            writer.writerow([f"{cell:.4g}" if isinstance(cell, float) else cell for cell in vars(pair).values()])


def errors(pairs: list[Pair], device: Device) -> dict[str, list[float]]:
    """|rate by the closed form - simulated rate| of the low job, and of both where priorities are equal; by priorities."""
    form = _form(device)
    found: dict[str, list[float]] = {}
    for pair in pairs:
        order = placement.Priorities.ORDERED if pair.priorities == "ordered" else placement.Priorities.EQUAL
        rates = form.rates(order, [(min(pair.busy_high, 1.0), -1), (min(pair.busy_low, 1.0), -1)])
        simulated = (1 / pair.slowdown_high, 1 / pair.slowdown_low)
        wrong = [abs(a - b) for a, b in zip(rates, simulated, strict=True)]
        found.setdefault(pair.priorities, []).extend(wrong if pair.priorities == "equal" else wrong[1:])
    return found


def fitted(pairs: list[Pair]) -> dict[str, closed_form.Fit]:
    """The constants of the closed form that come nearest; by priorities."""

    def of(priorities: str, column: str) -> closed_form.Numbers:
        return np.array([getattr(pair, column) for pair in pairs if pair.priorities == priorities])

    def busy(priorities: str) -> tuple[closed_form.Numbers, closed_form.Numbers]:
        return np.minimum(of(priorities, "busy_high"), 1.0), np.minimum(of(priorities, "busy_low"), 1.0)

    return {
        "ordered": closed_form.fit(closed_form.ordered(*busy("ordered"), of("ordered", "slowdown_low"))),
        "equal": closed_form.fit(closed_form.equal(busy("equal"), (of("equal", "slowdown_high"), of("equal", "slowdown_low")))),
    }  # fmt: skip


def _form(device: Device) -> placement.Slowdowns:
    return placement.Slowdowns(device=placement.Device.MPS if device.overlaps else placement.Device.SLICES)


def errors_of_three(rows: list[dict[str, Any]], device: Device) -> list[float]:
    """|rate by the closed form - simulated rate| of each of three equal jobs."""
    form, found = _form(device), list[float]()
    for row in rows:
        rates = form.rates(placement.Priorities.EQUAL, [(min(busy, 1.0), -1) for busy in row["busy"]])
        found += [abs(a - b) for a, b in zip(rates, row["rates"], strict=True)]
    return found


def run(
    *, emulated: bool, traces: Path | None = None, csv: Path | None = None, fit: bool = False, three: int = 0, device: Device = SLICES
) -> Result:  # fmt: skip
    """Simulate every ordered pair. Raises BenchError."""
    if not emulated:
        raise BenchError("it simulates, leave --real away")
    known = recordings(traces)
    cases = [
        Case(f"{a} + {b}", "closed", (a, b), (known[a], known[b]), None, device=device) for a in known for b in known
    ]
    pairs = [Pair(**row) for row in on_all_processors(_simulate, cases)]
    if csv is not None:
        _write(csv, pairs, device)
    values: dict[str, float] = {}
    lines = []
    wrong = errors(pairs, device)
    for priorities in POLICY:
        chosen = [pair for pair in pairs if pair.priorities == priorities]
        for name in ("high", "low"):
            p10, p50, p90 = np.percentile(
                [getattr(pair, f"slowdown_{name}") for pair in chosen], (10, 50, 90), method="nearest"
            )
            values |= {
                f"{priorities}_{name}_p10": p10,
                f"{priorities}_{name}_p50": p50,
                f"{priorities}_{name}_p90": p90,
            }
        p50, p90 = np.percentile(wrong[priorities], (50, 90))
        values |= {f"{priorities}_error_p50": p50, f"{priorities}_error_p90": p90}
        lines.append(
            f"  {priorities:8} slowdown of the {'high' if priorities == 'ordered' else 'first'} p50 {values[f'{priorities}_high_p50']:.3f}, of the "
            f"{'low' if priorities == 'ordered' else 'second'} p10/50/90 {values[f'{priorities}_low_p10']:.2f}/{values[f'{priorities}_low_p50']:.2f}/"
            f"{values[f'{priorities}_low_p90']:.2f}; error of the closed form's rate p50 {p50:.3f}, p90 {p90:.3f}"
        )  # fmt: skip
    if three:
        chosen_three = list(combinations(sorted(known), 3))
        random.Random(SEED).shuffle(chosen_three)
        crowds = [
            Case(" + ".join(names), "closed", names, tuple(known[name] for name in names), None, device=device)
            for names in chosen_three[:three]
        ]
        off = errors_of_three(on_all_processors(_three, crowds), device)
        p50, p90 = np.percentile(off, (50, 90))
        values |= {"three_error_p50": p50, "three_error_p90": p90}
        lines.append(
            f"  equal    {len(crowds)} times three jobs: error of the closed form's rate p50 {p50:.3f}, p90 {p90:.3f}"
        )
    if fit:
        lines += [f"  {priorities:8} nearest: {found}" for priorities, found in fitted(pairs).items()]
    summary = "\n".join([CLAIM.format(device=device), f"{len(cases)} ordered pairs of {len(known)} recordings", *lines])
    samples = {f"{name}_error": rows for name, rows in wrong.items()}
    return Result(
        summary, True, values, samples, device_option.settings(device), {"pairs": [vars(pair) for pair in pairs]}
    )
