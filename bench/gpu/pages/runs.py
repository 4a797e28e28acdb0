"""The runs on GPUs that a page shows: their files, their order and their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import record
from bench.record import ROOT, BenchError

Found = Mapping[str, Any]
RESULTS = ROOT / "bench" / "results"
PREFIX = "gpu-"


@dataclass(frozen=True)
class Run:
    """One file of `bench/gpu/run.sh`."""

    name: str  # short, for a column
    file: Path
    document: Found

    @property
    def device(self) -> str:
        return str(self.document["settings"].get("device") or "unknown GPU")

    @property
    def parts(self) -> Found:
        found: Found = self.document["parts"]
        return found


def read(file: Path) -> Found:
    """The document of a run. Raises BenchError for every other file."""
    found = record.read(file)
    if found.get("bench") != "gpu" or "parts" not in found:
        raise BenchError(f"{file} is no file of bench/gpu/run.sh")
    return found


def name(file: Path) -> str:
    """The last word of the file's name; with its date where the word is the number of a call."""
    stem = record.stem(file)
    last = stem.rpartition("-")[2]
    return stem.removeprefix(PREFIX) if last.startswith("call") else last


def newest_first(files: Iterable[Path]) -> list[Run]:
    """The runs by the date in their documents. Raises BenchError."""
    found = [Run(name(file), file, read(file)) for file in files]
    return sorted(found, key=lambda run: str(run.document.get("date", "")), reverse=True)


def kept() -> list[Run]:
    """The runs of bench/results, newest first. Raises BenchError."""
    return newest_first(sorted(RESULTS.glob(f"{PREFIX}*.json*")))


def by_device(found: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each GPU model, in the order given: figures of two models share no table."""
    groups: dict[str, list[Run]] = {}
    for run in found:
        groups.setdefault(run.device, []).append(run)
    return groups
