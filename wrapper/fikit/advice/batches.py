"""Smaller steps where it is memory that is missing: gradient accumulation, from two runs' peaks (docs/design/placement.md, "The rules").

A hint only: whether a program can accumulate gradients, and whether the result is the same, its owner knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from fikitd.gpus.placement import sub_batch

from fikit.advice.facts import Run

NAMES: Final = re.compile(r"--?(?:per[-_]device[-_])?(?:train[-_])?(?:batch(?:[-_]?size)?|bs|b)", re.IGNORECASE)
GIB: Final = 2**30


def of_command(words: Sequence[str]) -> int | None:
    """The batch that a program was called with, `--batch-size 64` or `--batch_size=64` and their like; None: it says none."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        text = value if equals else following
        if NAMES.fullmatch(name) and text.isdecimal() and text.isascii() and 0 < int(text[:9]) == int(text):
            return int(text)
    return None


def in_script(text: str) -> int | None:
    """The same of the first line of a script that says one."""
    return next(
        (batch for line in text.splitlines() if not line.startswith("#") and (batch := of_command(line.split()))), None
    )


def smaller(runs: Iterable[Run], wanted: int, free_shards: int) -> tuple[int, int] | None:
    """(samples at a time, steps) for `wanted` samples within so many shards, of which a tenth stays free, as for every job; None: nothing is
    known (two batches are needed), or not even one sample fits."""
    by_batch: dict[int, int] = {}
    for run in runs:
        by_batch[run.batch] = max(run.peak_bytes, by_batch.get(run.batch, 0))
    if len(by_batch) < 2:
        return None
    first, last = min(by_batch), max(by_batch)
    try:
        batch, steps = sub_batch(first, by_batch[first], last, by_batch[last], free_shards * GIB / 1.1, wanted)
    except ValueError:
        return None
    return (batch, steps) if batch else None
