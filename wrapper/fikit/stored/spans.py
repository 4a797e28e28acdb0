"""Pieces of time, in ns. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

Span = tuple[int, int]  # from, to

LOWER_WORK: Final = "lower_work"  # the reason of a trace's wait that is none, but a delay behind a lower job's kernels
MEMORY: Final = (
    "memory"  # of one while the memory of other jobs has its turn: a trace names the job itself, and no other
)


def union(spans: Iterable[Span]) -> list[Span]:
    """In order and without what overlaps."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if last <= first:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found
