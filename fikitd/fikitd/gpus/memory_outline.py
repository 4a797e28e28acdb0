"""What a worker says of a program's memory (profiles/memory_plan.py): what each budget would cost an iteration, and a plan for one of them.

A worker has the user's rights, so all of it is the user's word, and checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fikitd.base.validation import integer, number, string

MOST_POINTS: Final = 16
MOST_BYTES: Final = 2**50
MOST_NS: Final = 2**42
MOST_STRETCH: Final = 1000.0


class Point(NamedTuple):
    """A budget that an iteration can have: stretch is the share by which it becomes longer, moved_bytes what it moves each time."""

    budget_bytes: int
    stretch: float
    moved_bytes: int


@dataclass(frozen=True)
class Outline:
    """What each budget would cost an iteration: the smallest budget first, all of its memory last. looked_at: share of its launches whose accesses are known.
    idle_bytes: memory that no launch touches and a plan sends away."""

    path: str
    launches: int
    length_ns: int
    looked_at: float
    peak_bytes: int
    points: list[Point]
    idle_bytes: int = 0

    @classmethod
    def of(cls, raw: Any) -> Outline:
        """From a worker's result; ValueError where it is none."""
        rows = raw.get("points") if isinstance(raw, dict) else None
        if (
            not isinstance(rows, list)
            or not 1 <= len(rows) <= MOST_POINTS
            or not all(isinstance(row, list) and len(row) == 3 for row in rows)
        ):
            raise ValueError("its worker's answer is no outline of a plan")
        points = [Point(_bytes(budget), _share(stretch), _bytes(moved)) for budget, stretch, moved in rows]
        return cls(
            string(raw.get("path"), "path", 16), _launches(raw), _length(raw), min(_share(raw.get("looked_at")), 1.0),
            _bytes(raw.get("peak_bytes")), sorted(points), _bytes(raw.get("idle_bytes")),
        )  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """A plan without its moves. moves: how many it has."""

    path: str
    launches: int
    budget_bytes: int
    peak_bytes: int
    moved_bytes: int
    stretch: float
    length_ns: int
    moves: int

    @classmethod
    def of(cls, raw: Any) -> Planned:
        """From a worker's result; ValueError where it is none."""
        if not isinstance(raw, dict):
            raise ValueError("its worker's answer is no plan")
        return cls(
            string(raw.get("path"), "path", 16), _launches(raw), _bytes(raw.get("budget_bytes")), _bytes(raw.get("peak_bytes")),
            _bytes(raw.get("moved_bytes")), _share(raw.get("stretch")), _length(raw), integer(raw.get("moves"), "moves", 0, 2**16),
        )  # fmt: skip


def _bytes(raw: Any) -> int:
    return integer(raw, "bytes of a plan", 0, MOST_BYTES)


def _share(raw: Any) -> float:
    return number(raw, "a share of a plan", MOST_STRETCH)


def _launches(raw: Mapping[str, Any]) -> int:
    return integer(raw.get("launches"), "launches", 1, 2**16)


def _length(raw: Mapping[str, Any]) -> int:
    return integer(raw.get("length_ns"), "length_ns", 1, MOST_NS)
