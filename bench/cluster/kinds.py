"""What jobs of a trace do to a GPU, which no trace says: one of three answers, each from its own source.

A simulation has two: what really happens, and what the rules believe. The rules know busy shares and go by the closed form; of Gavel's
jobs, which have no busy shares, they know the measured pairs.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from itertools import product
from pathlib import Path

from fikitd.gpus.placement import Device, Priorities, Slowdowns
from fikitd.store.storage import reason

from bench.cluster.policies import Kinds
from bench.cluster.traces import FOLDER
from bench.record import BenchError
from bench.scheduling.slowdowns import Pair, read

HERE = Path(__file__).parent
MEASURED = {"slices": HERE / "slices.csv", "mps": HERE / "mps.csv"}
"""By device: slowdowns of every two recordings under the policy simulator, as `python -m bench slowdowns --csv` writes them."""

DEVICES = {"slices": Device.SLICES, "mps": Device.MPS}

MOST = 1000.0
"""A job that did nothing while it was simulated is taken to be slowed so much."""
CLOSED = (0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
"""Busy shares where there is nothing but the closed form."""


def closed() -> Kinds:
    """The closed form is the truth: for tests, and where no recordings are."""
    return Kinds("closed form", list(CLOSED), Slowdowns, Slowdowns)


def of_pairs(name: str, pairs: list[Pair], device: Device) -> Kinds:
    """Measured pairs are the truth, the closed form (three jobs or more, too) what the rules know. Raises BenchError."""
    names = sorted({pair.high for pair in pairs})
    busy = {pair.high: pair.busy_high for pair in pairs}
    wanted = set(product(("ordered", "equal"), names, names))
    if not pairs or {(pair.priorities, pair.high, pair.low) for pair in pairs} != wanted:
        raise BenchError(f"couldn't use the slowdowns of {name}: some pairs of its jobs are missing")

    def real() -> Slowdowns:
        found = Slowdowns(len(names), device)
        for pair in sorted(pairs, key=lambda pair: (pair.high, pair.low)):
            order = Priorities.ORDERED if pair.priorities == "ordered" else Priorities.EQUAL
            found.measured(
                order, names.index(pair.high), names.index(pair.low), min(pair.slowdown_high, MOST), min(pair.slowdown_low, MOST)
            )  # fmt: skip
        return found

    return Kinds(name, [busy[each] for each in names], real, lambda: Slowdowns(0, device))


def fikit(device: str, file: Path | None = None) -> Kinds:
    """fikit's own, of "slices" or "mps". Raises BenchError."""
    return of_pairs(f"fikit, {device}", read(file or MEASURED[device]), DEVICES[device])


def gavel(gpu: str, folder: Path = FOLDER) -> Kinds:
    """Gavel's measured pairs of jobs of one GPU ("v100", "p100", "k80"), without priorities; jobs that were measured with all others only, so
    that every pair is known. Raises BenchError."""
    path = folder / "gavel_pair_interference.csv.gz"
    try:
        rows = list(csv.DictReader(gzip.decompress(path.read_bytes()).decode().splitlines()))
    except (OSError, EOFError, zlib.error) as error:
        raise BenchError(f"couldn't read {path}: {reason(error) if isinstance(error, OSError) else error}") from error
    pairs = {
        (row["job_a"], row["job_b"]): (float(row["xi_a"]), float(row["xi_b"])) for row in rows if row["gpu"] == gpu
    }
    pairs |= {(b, a): (xi_b, xi_a) for (a, b), (xi_a, xi_b) in pairs.items()}
    names = sorted({a for a, _ in pairs})
    while missing := {a: sum((a, b) not in pairs for b in names) for a in names}:
        worst = max(names, key=lambda name: missing[name])
        if missing[worst] == 0:
            break
        names.remove(worst)
    if not names:
        raise BenchError(f"{path} has no pairs of {gpu}; there are v100, p100 and k80")

    def known() -> Slowdowns:
        found = Slowdowns(len(names))
        for (i, a), (j, b) in product(enumerate(names), repeat=2):
            for order in (Priorities.ORDERED, Priorities.EQUAL):  # nobody goes first there
                found.measured(order, i, j, *pairs[a, b])
        return found

    # Busy shares are unknown: never asked for where two share at most.
    return Kinds(f"Gavel, {gpu}", [1.0] * len(names), known, known)
