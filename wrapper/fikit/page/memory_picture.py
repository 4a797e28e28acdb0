"""How a job's memory lay on the GPU over time, what was moved, and when it had its turns: from the looks of its report. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fikit.page.timeline import PIECES


@dataclass(frozen=True)
class MemoryPicture:
    """seconds: of the job's elapsed time that it shows, in PIECES equal pieces. own, all_jobs: what was on the GPU of the job's memory, and of
    it and other jobs', as shares of whole_bytes (the GPU's memory, or the most that was there where that is not known); moved: bytes in each
    piece as shares of the most in one; granted: 1 where a turn of the job began, else 0."""

    seconds: float
    whole_bytes: int
    own: Sequence[float]
    all_jobs: Sequence[float]
    moved: Sequence[float]
    granted: Sequence[float]


def of(history: Sequence[Mapping[str, Any]], seconds: float, gpu_bytes: int | None) -> MemoryPicture | None:
    """history: `memory.moved.history` of a report. seconds: the job's elapsed time; a look that it does not reach is the last one's. None where
    nobody looked."""
    if not history:
        return None
    seconds = max(seconds, history[-1]["t_s"], 1e-9)
    own, all_jobs, moved, turns = [0.0] * PIECES, [0.0] * PIECES, [0.0] * PIECES, [0.0] * PIECES
    ends = [*(look["t_s"] for look in history[1:]), seconds]
    before = {"moved_bytes": 0, "turns": 0}
    for look, end_s in zip(history, ends, strict=True):
        first = min(int(look["t_s"] / seconds * PIECES), PIECES - 1)
        last = max(min(int(end_s / seconds * PIECES), PIECES), first + 1)
        for piece in range(first, last):
            own[piece] = max(own[piece], look["resident_bytes"])
            all_jobs[piece] = max(all_jobs[piece], look["resident_bytes"] + look["others_bytes"])
        more = max(look["moved_bytes"] - before["moved_bytes"], 0)
        for piece in range(first, last):
            moved[piece] += more / (last - first)
        turns[first] += max(look["turns"] - before["turns"], 0)
        before = {
            "moved_bytes": max(look["moved_bytes"], before["moved_bytes"]),
            "turns": max(look["turns"], before["turns"]),
        }
    whole = gpu_bytes or int(max(all_jobs)) or 1
    most = max(moved) or 1.0
    return MemoryPicture(
        seconds, whole, [min(each / whole, 1.0) for each in own], [min(each / whole, 1.0) for each in all_jobs],
        [each / most for each in moved], [float(each > 0) for each in turns],
    )  # fmt: skip
