"""Cases with arrivals from outside, each with several seeds: what one seed says is mostly chance."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

SEEDS = 3
"""By default; of the arrivals. Requests one after the other are the same with every seed."""


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds", type=_count, default=SEEDS, metavar="N",
        help="of each case with arrivals from outside, 1 to N; default: %(default)s",
    )  # fmt: skip


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of seeds, use 1 or more")
    return int(text)


def of(arrivals: str, seeds: int) -> range:
    """The seeds of a case with such arrivals."""
    return range(1, 2 if arrivals == "closed" else seeds + 1)


def mean(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One row for all seeds: the means of floats, where there is one; else what the first says."""
    merged = dict(rows[0])
    for name in merged:
        known = [row[name] for row in rows if row.get(name) is not None]
        if known and isinstance(known[0], float):
            merged[name] = statistics.fmean(known)
        elif known and isinstance(known[0], Mapping):
            merged[name] = mean(known)
    return merged


def by_case(rows: Iterable[Mapping[str, Any]], *names: str) -> Iterator[list[Mapping[str, Any]]]:
    """Rows that differ in their seeds only, together: those with the same `names`."""
    together: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        together.setdefault(tuple(row[name] for name in names), []).append(row)
    yield from together.values()
