"""How two processes share a GPU, from when their kernels ran: slice, switch, whether an idle process yields, overlap.

Pure: stamps in, figures out, all in nanoseconds of the GPU's own clock, which both processes read. A stamp is a kernel's begin
and end as the kernel itself saw them. `bench/gpu/native/stamps.c` makes them.

A process that launches short kernels without a pause shows by its stamps when it has the GPU: a turn ends where the next kernel
comes much later than usual, or where a kernel takes much longer than alone, for it was cut by the end of a slice. Where in the
kernel is not known, so that a turn's edge there is its middle, wrong by half a kernel at most.
"""

from __future__ import annotations

import itertools
import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Stamp = tuple[int, int]
Figures = dict[str, Any]

CROWDED = 0.5  # so many of the kernels took longer than alone: they ran beside others, and were not cut
FEW = 5  # turns or kernels, below which nothing is said


@dataclass(frozen=True)
class Alone:
    """A chain of kernels without company: what is usual."""

    kernel_ns: float
    gap_ns: float
    tick_ns: int  # the GPU's clock goes by so much at a time

    @property
    def tolerance_ns(self) -> float:
        """By so much a kernel or a gap may be longer than usual before it means something."""
        return max(self.kernel_ns / 2, 4 * self.tick_ns)


@dataclass(frozen=True)
class Turn:
    """A process had the GPU."""

    begin_ns: float
    end_ns: float

    @property
    def length_ns(self) -> float:
        return self.end_ns - self.begin_ns


def pairs(flat: Sequence[int]) -> list[Stamp]:
    """Stamps as the program prints them, begin and end in turns; those that cannot be are left out."""
    found = zip(flat[::2], flat[1::2], strict=False)
    return sorted((begin, end) for begin, end in found if 0 < begin <= end)


def spread(values: Sequence[float]) -> Figures | None:
    """How many there are, and what they are like; None where they are too few to tell. `middle`: mean of those between the
    tenths, which, unlike the median, knows no steps where the values come in steps."""
    if len(values) < FEW:
        return None
    ordered = sorted(values)
    at = [ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in (10, 50, 90, 99)]
    middle = [value for value in ordered if at[0] <= value <= at[2]]
    named = dict(zip(("p10", "p50", "p90", "p99"), (round(v, 1) for v in at), strict=True))
    return {"count": len(ordered), **named, "middle": round(statistics.mean(middle), 1)}


def alone(stamps: Sequence[Stamp]) -> Alone:
    """What is usual, of a chain of kernels alone. ValueError where there are too few."""
    if len(stamps) < FEW:
        raise ValueError(f"there are only {len(stamps)} kernels")
    gaps = [max(0, after[0] - before[1]) for before, after in itertools.pairwise(stamps)]
    kernel_ns = statistics.median(end - begin for begin, end in stamps)
    return Alone(kernel_ns, statistics.median(gaps), math.gcd(*(moment for stamp in stamps for moment in stamp)))


def turns(stamps: Sequence[Stamp], usual: Alone) -> list[Turn]:
    """When the process had the GPU."""
    found: list[Turn] = []
    begin = last = float(stamps[0][0]) if stamps else 0.0
    for start, end in stamps:
        if start - last > usual.gap_ns + usual.tolerance_ns:
            found.append(Turn(begin, last))
            begin = start
        if end - start > usual.kernel_ns + usual.tolerance_ns:
            found.append(Turn(begin, start + usual.kernel_ns / 2))
            begin = end - usual.kernel_ns / 2
        last = float(end)
    if stamps:
        found.append(Turn(begin, last))
    return found


def _longer(stamps: Sequence[Stamp], usual: Alone) -> float:
    """Share of the kernels that took longer than alone."""
    longer = sum(end - begin > usual.kernel_ns + usual.tolerance_ns for begin, end in stamps)
    return longer / len(stamps) if stamps else 0.0


def _together(a: Sequence[Stamp], b: Sequence[Stamp]) -> list[Stamp]:
    """The times in which kernels of both ran; each side's kernels follow one another."""
    found, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        begin, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if begin < end:
            found.append((begin, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return found


def common(a: Sequence[Stamp], b: Sequence[Stamp]) -> tuple[list[Stamp], list[Stamp]]:
    """The kernels of the time in which both processes had some."""
    if not a or not b:
        return [], []
    begin, end = max(a[0][0], b[0][0]), min(a[-1][1], b[-1][1])
    return tuple([s for s in side if begin <= s[0] and s[1] <= end] for side in (a, b))  # type: ignore[return-value]


def chains(a: Sequence[Stamp], b: Sequence[Stamp], usual_a: Alone, usual_b: Alone) -> Figures:
    """Two processes that always have work. `overlap`: the time in which kernels of both ran, 1 where they do not care for each
    other (so much as two random times of their lengths have in common), 0 where they never do; `switch_ns`: from the last of one to the first of the other; `slice_ns`: of turns that another process ended;
    `slowdown`: of the kernels' durations, median against alone."""
    a, b = common(a, b)
    if min(len(a), len(b)) < FEW:
        raise ValueError("the processes did not run at the same time")
    crowded = [_longer(a, usual_a) > CROWDED, _longer(b, usual_b) > CROWDED]
    whole = [
        [s for s in side if crowd or s[1] - s[0] <= usual.kernel_ns + usual.tolerance_ns]
        for side, usual, crowd in zip((a, b), (usual_a, usual_b), crowded, strict=True)
    ]
    window = max(a[-1][1], b[-1][1]) - min(a[0][0], b[0][0])
    busy = [sum(end - begin for begin, end in side) for side in whole]
    both = sum(end - begin for begin, end in _together(*whole))
    overlap = both * window / (busy[0] * busy[1]) if all(busy) else 0.0
    found: Figures = {
        "overlap": round(overlap, 4),
        "slowdown": [
            round(statistics.median(end - begin for begin, end in side) / usual.kernel_ns, 4)
            for side, usual in zip((a, b), (usual_a, usual_b), strict=True)
        ],
        "kernels": [len(a), len(b)],
    }
    if overlap > CROWDED:
        return found  # there are no turns
    lengths, switches = _changes(turns(a, usual_a), turns(b, usual_b))
    return {**found, "slice_ns": spread(lengths), "switch_ns": spread(switches)}


def _changes(a: list[Turn], b: list[Turn]) -> tuple[list[float], list[float]]:
    """Lengths of the turns between two of the other's, and the times between a turn and the other's next."""
    order = sorted([(turn.begin_ns, 0, turn) for turn in a] + [(turn.begin_ns, 1, turn) for turn in b])
    lengths, switches = [], []
    for (_, who, turn), (_, next_who, following) in itertools.pairwise(order):
        if who != next_who:
            switches.append(following.begin_ns - turn.end_ns)
    for (_, before, _), (_, who, turn), (_, after, _) in zip(order, order[1:], order[2:], strict=False):
        if before != who != after:
            lengths.append(turn.length_ns)
    return lengths, switches


def long_kernels(short: Sequence[Stamp], long: Sequence[Stamp], usual_short: Alone, usual_long: Alone) -> Figures:
    """The switch beside kernels that outlast a slice: what is left of the time when all work is taken off it, for each change.

    Of the long ones only the work is known, not when it was done: what the clocks' changes make of them is in the figure, too.
    """
    whole = [s for s in long if short and short[0][0] <= s[0] and s[1] <= short[-1][1]]
    if len(whole) < FEW:
        raise ValueError(f"only {len(whole)} long kernels ran beside short ones")
    begin, end = whole[0][0], whole[-1][1]
    inside = [turn for turn in turns(short, usual_short) if begin <= turn.begin_ns and turn.end_ns <= end]
    if len(inside) < FEW:
        raise ValueError("the short kernels had no turns of their own")
    others = sum(turn.length_ns for turn in inside)
    own = len(whole) * usual_long.kernel_ns + (len(whole) - 1) * usual_long.gap_ns
    return {
        "switch_ns": round((end - begin - others - own) / (2 * len(inside)), 1),
        "turns": len(inside),
        "slice_ns": spread([turn.length_ns for turn in inside]),
    }


def gaps(
    short: Sequence[Stamp], chain: Sequence[Stamp], usual: Alone, usual_chain: Alone, slice_ns: float | None
) -> Figures:
    """One kernel now and then beside a process that always has work. `enter_ns`: from the last of that process to the kernel;
    `leave_ns`: from the kernel to the next of it, about a switch where an idle process yields, a slice where it does not."""
    held = turns(chain, usual_chain)
    begins = [turn.begin_ns for turn in held]
    enter, leave, beside = [], [], 0
    for begin, end in short:
        if end - begin > usual.kernel_ns + usual.tolerance_ns:
            continue  # cut, or slowed
        after = bisect_left(begins, begin)
        if after == 0 or after == len(held):
            continue
        if held[after - 1].end_ns > end:
            beside += 1
            continue
        enter.append(begin - held[after - 1].end_ns)
        leave.append(held[after].begin_ns - end)
    found: Figures = {"beside": beside, "enter_ns": spread(enter), "leave_ns": spread(leave)}
    if found["leave_ns"] and slice_ns:
        found["idle_yields"] = found["leave_ns"]["p50"] < slice_ns / 2
    return found


def latencies(took_ns: Sequence[int], gap_ns: Sequence[int]) -> Figures:
    """How long one kernel took its program, from the call to the end of the wait, by the pause before it; and in all."""
    by_gap: dict[str, Figures | None] = {
        str(gap): spread([took for took, own in zip(took_ns, gap_ns, strict=True) if own == gap])
        for gap in sorted(set(gap_ns))
    }
    return {"all": spread(list(took_ns)), "by_gap_ns": by_gap}
