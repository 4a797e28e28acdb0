"""The kernels of a recording as a predictor sees them: what was launched, in which stream, how long it took, what came after."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

from bench.record import BenchError
from fikitd import _core

CONTEXT = 3  # kernels before the launch, of its stream


@dataclass(frozen=True)
class Launch:
    """One kernel. `gap_ns`: idle time of the device between its end and the next kernel's start; None after the last one."""

    identity: int
    context: tuple[int, ...]
    stream: int
    duration_ns: int
    gap_ns: int | None


@dataclass(frozen=True)
class _Row:
    identity: int
    stream: int
    start_ns: int
    duration_ns: int


def launches(name: str, text: bytes) -> list[Launch]:
    """The recording's kernels in the order in which the host launched them; BenchError when it is not a recording."""
    rows = _rows(name, text)
    gaps = _gaps(rows)
    streams: dict[int, deque[int]] = {}
    found = []
    for row, gap_ns in zip(rows, gaps, strict=True):
        before = streams.setdefault(row.stream, deque(maxlen=CONTEXT))
        found.append(Launch(row.identity, tuple(before), row.stream, row.duration_ns, gap_ns))
        before.append(row.identity)
    return found


def _rows(name: str, text: bytes) -> list[_Row]:
    names: dict[str, str] = {}
    rows = []
    for number, line in enumerate(text.decode(errors="replace").splitlines(), 1):
        if line.startswith("#N "):
            _, index, kernel = line.split(" ", 2)
            names[index] = kernel
        elif line.startswith("K,"):
            try:
                rows.append(_row(line.split(","), names))
            except (ValueError, KeyError, IndexError):
                raise BenchError(f"{name}: line {number} is not a kernel of a recording") from None
    if not rows:
        raise BenchError(f"{name}: it has no kernel")
    return rows


def _row(fields: list[str], names: dict[str, str]) -> _Row:
    grid, block, shared = fields[6:9], fields[9:12], fields[13]
    blocks, threads = ([int(number or 1) for number in numbers] for numbers in (grid, block))
    return _Row(
        _core.identify(names[fields[15]], 0, blocks, threads, int(shared or 0)),
        int(fields[5] or 0),
        round(float(fields[3]) * 1000),
        round(float(fields[4]) * 1000),
    )


def _gaps(rows: list[_Row]) -> list[int | None]:
    """Kernels of other streams count: a device that still works for the process is not idle."""
    order = sorted(range(len(rows)), key=lambda i: rows[i].start_ns)
    gaps: list[int | None] = [None] * len(rows)
    end_ns = 0
    for here, after in pairwise(order):
        end_ns = max(end_ns, rows[here].start_ns + rows[here].duration_ns)
        gaps[here] = max(rows[after].start_ns - end_ns, 0)
    return gaps
