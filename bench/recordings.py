"""Recorded GPU timelines (`*.csv.gz`, format: emulator/replay/recording.hpp), and made-up ones where there are none."""

from __future__ import annotations

import gzip
import zlib
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from fikit.recordings.made import SHAPES, Made, copies, dense, inference, sparse, streams, threads, training
from fikitd.store.storage import reason

from bench.record import ROOT, BenchError

__all__ = [
    "RECORDED", "SHAPES", "Made", "at_work", "copies", "dense", "inference", "recordings", "sparse", "steady_fills", "streams", "threads", "training",
]  # fmt: skip

RECORDED = ROOT.parent / "shared" / "traces"
SEED = 1


def recordings(source: Path | None) -> dict[str, bytes]:
    """Name -> text of every recording in a folder, or of one file; by default the recorded ones beside the repository,
    else made-up ones."""
    if source is None and not RECORDED.is_dir():
        return {f"made_up_{name}": make(SEED).text() for name, make in SHAPES.items()}
    place = source or RECORDED
    found = [place] if place.is_file() else sorted(path for path in place.glob("*.csv*") if path.is_file())
    if not found:
        raise BenchError(f"couldn't find a recording (*.csv.gz or *.csv) in {place}")
    names = [path.name.split(".csv")[0] for path in found]
    return {name if names.count(name) == 1 else path.name: _read(path) for name, path in zip(names, found, strict=True)}


def _read(path: Path) -> bytes:
    """The file's text, compressed or not, whatever its name says."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (OSError, EOFError, zlib.error) as error:
        raise BenchError(f"couldn't read {path}: {reason(error)}") from error


START_UP_US = 1e6  # a recording is cut that has no two kernels within CLOSE_US before
CLOSE_US = 1e5


def at_work(text: bytes) -> bytes:
    """The recording; of one that starts up for longer than START_UP_US, from the first of its kernels that another one follows
    closely: a run of a few seconds would see nothing else."""
    lines = text.splitlines(keepends=True)
    calls = [(line, float(line.split(b",", 2)[1])) for line in lines if line[:2] in (b"K,", b"M,", b"S,")]
    kernels = sorted(us for line, us in calls if line[:1] == b"K")
    begin_us = next((us for us, after in pairwise(kernels) if after - us < CLOSE_US), 0.0)
    if not calls or begin_us - min(us for _, us in calls) <= START_UP_US:
        return text
    before = {line for line, us in calls if us < begin_us}
    return b"".join(line for line in lines if line not in before)


def steady_fills(text: bytes) -> bytes:
    """The recording; memsets and copies within the device of the same length all take their mean time. Played on an emulated device their
    length stands for their time, and the shim, which knows them by their length, would know none of them again."""
    lines = text.splitlines(keepends=True)
    fills = {
        line.split()[1] for line in lines if line[:3] == b"#N " and any(word in line for word in (b"Memset", b"DtoD"))
    }
    cells = {number: line.split(b",") for number, line in enumerate(lines) if line[:2] == b"M,"}
    of_length: dict[tuple[bytes, bytes], list[int]] = {}
    for number, row in cells.items():
        if row[_NAME] in fills:
            of_length.setdefault((row[_NAME], row[_BYTES]), []).append(number)
    for numbers in of_length.values():
        mean_us = fmean(float(cells[number][_TOOK_US]) for number in numbers)
        for number in numbers:
            row = cells[number]
            lines[number] = b",".join([*row[:_TOOK_US], b"%.3f" % mean_us, *row[_TOOK_US + 1 :]])
    return b"".join(lines)


_TOOK_US, _BYTES, _NAME = 4, 14, 15
"""Columns of a line, as emulator/replay/recording.hpp has them."""
