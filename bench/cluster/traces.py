"""Job traces of GPU clusters that others published, read where they lie, and made-up ones where they do not.

Which file is whose, under which licence: the folder's MANIFEST.md. Times are seconds; a job's work is its run time alone.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fikitd.store.storage import reason
from numpy.typing import NDArray

from bench.record import ROOT, BenchError

FOLDER = ROOT.parent / "shared" / "cluster-traces"

Column = NDArray[np.float64]

# Seconds that Muri's authors measured for starting a job, by GPUs and model, and what their simulator takes for others
# (Rivendile/Muri, simulator/run_sim.py, overhead_dict).
_MURI_MODELS = ("vgg16", "vgg19", "resnet18", "shufflenet_v2_x1_0", "bert", "gpt2", "a2c", "dqn")
_MURI_START_S = {
    1: (7, 7, 4, 4, 10, 10, 38, 5),
    2: (7, 7, 5, 4, 10, 10, 39, 5),
    4: (8, 8, 5, 5, 10, 10, 39, 6),
    8: (9, 9, 7, 5, 10, 10, 46, 6),
    16: (9, 10, 7, 7, 10, 10, 46, 8),
    32: (10, 10, 7, 8, 10, 10, 46, 8),
}
_MURI_OTHER_S = 10.0
_MURI_ITERATION = 1.015  # an iteration of their system against the plain one


@dataclass(frozen=True)
class Trace:
    """Jobs in the order of their submission; one entry of each column per job."""

    name: str
    submit_s: Column
    work_s: Column
    gpus: NDArray[np.int64]
    start_s: Column
    """What starting or resuming each costs, where the trace says it."""

    def __len__(self) -> int:
        return len(self.submit_s)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise BenchError(f"couldn't read {path}: {reason(error) if isinstance(error, OSError) else error}") from error
    return csv.DictReader(text.splitlines())


def _trace(name: str, rows: list[tuple[float, float, int, float]]) -> Trace:
    """Of (submitted, work, GPUs, start), in any order."""
    bad = next((row for row in rows if not (row[1] > 0 and row[2] >= 1 and all(map(math.isfinite, row)))), None)
    if bad:
        raise BenchError(
            f"couldn't use the trace {name}: a job that comes at {bad[0]:g} s has {bad[1]:g} s of work on {bad[2]} GPUs"
        )
    rows = sorted(rows, key=lambda row: row[0])
    submit, work, gpus, start = (np.array(column) for column in zip(*rows, strict=True))
    return Trace(name, submit - submit[0], work.astype(np.float64), gpus.astype(np.int64), start.astype(np.float64))


def muri(number: int, folder: Path = FOLDER) -> Trace:
    """Muri's trace1 or trace3: Philly's jobs with models that its authors gave them. Raises BenchError."""
    rows = []
    for row in _rows(folder / f"muri_trace{number}.csv.gz"):
        gpus, model = int(row["num_gpu"]), row["model_name"]
        known = gpus in _MURI_START_S and model in _MURI_MODELS
        start_s = _MURI_START_S[gpus][_MURI_MODELS.index(model)] if known else _MURI_OTHER_S
        work_s = float(row["iterations"]) * (float(row["iteration_time"]) * _MURI_ITERATION / 1000)
        rows.append((float(row["submit_time"]) / 1000, work_s, gpus, float(start_s)))
    return _trace(f"muri-trace{number}", rows)


def tiresias(folder: Path = FOLDER) -> Trace:
    """Tiresias' 60 jobs. Raises BenchError."""
    found = _rows(folder / "tiresias_60_job.csv")
    rows = [(float(row["submit_time"]), float(row["duration"]), int(row["num_gpu"]), 0.0) for row in found]
    return _trace("tiresias-60", rows)


def philly(folder: Path = FOLDER) -> Trace:
    """Microsoft's Philly: 82,248 jobs of some months of 2017. Raises BenchError."""
    rows = []
    for row in _rows(folder / "philly_from_sia.csv.gz"):
        work_s = float(row["duration"])
        if work_s > 0:
            submit = np.datetime64(row["timestamp"].replace(" ", "T")).astype("datetime64[s]").astype(np.int64)
            rows.append((float(submit), work_s, int(row["num_gpus"]), 0.0))
    return _trace("philly", rows)


def made_up(jobs: int, seed: int, *, single: bool = True) -> Trace:
    """Jobs with Philly's kind of run times (lognormal: half below ten minutes, some for days), which come as they like."""
    random = np.random.default_rng(seed)
    work_s = np.clip(random.lognormal(math.log(600), 2.0, jobs), 1, 7 * 86400)
    submit_s = np.cumsum(random.exponential(1.0, jobs))
    gpus = np.ones(jobs, np.int64) if single else random.choice([1, 2, 4, 8], jobs, p=[0.8, 0.1, 0.05, 0.05])
    return Trace("made-up", submit_s - submit_s[0], work_s, gpus, np.zeros(jobs))


def window(trace: Trace, jobs: int, gpus: int, load: float, seed: int) -> Trace:
    """`jobs` successive jobs of one GPU from anywhere in the trace, whose times of coming are stretched so that they bring
    `load` x the work that `gpus` GPUs can do meanwhile. Raises BenchError where there are not so many."""
    single = np.flatnonzero(trace.gpus == 1)
    if len(single) < jobs:
        raise BenchError(f"couldn't take {jobs} jobs of one GPU from {trace.name}: it has {len(single)}")
    first = int(np.random.default_rng(seed).integers(0, len(single) - jobs + 1))
    chosen = single[first : first + jobs]
    submit_s = trace.submit_s[chosen] - trace.submit_s[chosen[0]]
    span_s = float(trace.work_s[chosen].sum()) / (load * gpus)
    if submit_s[-1] <= 0:
        raise BenchError(f"couldn't stretch {trace.name}: its jobs all come at once")
    return Trace(
        trace.name, submit_s * (span_s / submit_s[-1]), trace.work_s[chosen], trace.gpus[chosen], trace.start_s[chosen]
    )
