"""Which priority each job of --fikit-priority=auto has on a GPU: pure. Who goes first is fikitd.gpus.placement.choose(), as in the cluster simulator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fikitd.base.priorities import Range
from fikitd.gpus.placement import Contender, Precedence, Priorities, Slowdowns, choose

State = Literal["alone", "ordered", "equal", "turn", "unknown", "user"]
"""Why it has its priority: no other such job is on its GPU; the shorter expected rest goes first; equal priorities make the sum of ends
smaller, or one of them has waited for long and has its turn, or of one nobody knows how long it will take; its user said another one."""

MOST: Final = 16  # jobs on one GPU that are put in an order


@dataclass(frozen=True)
class Candidate:
    """A job as the choice sees it. rest_s: expected, alone; infinity: nobody knows. busy: share of its time alone, 0 to 1. waited_s: below others
    since it was first or had its turn."""

    allowed: Range
    rest_s: float = math.inf
    busy: float = 0.5
    waited_s: float = 0.0
    is_new: bool = True


@dataclass(frozen=True)
class Decision:
    """order: of the candidates, as indices, the first one first. levels: the priority of each candidate, in their own order."""

    precedence: Precedence
    order: list[int]
    levels: list[int]
    state: State


def decide(slowdowns: Slowdowns, candidates: Sequence[Candidate], last: Precedence) -> Decision:
    """candidates: in the order of the last decision, new ones last. last: its precedence, as it is now (Precedence.later)."""
    ranges = [each.allowed for each in candidates]
    if len(candidates) > MOST:
        return Decision(Precedence(), list(range(len(candidates))), equal(ranges), "equal")
    contenders = [Contender(each.rest_s, each.busy, each.waited_s, each.is_new) for each in candidates]
    precedence, order = choose(slowdowns, contenders, last)
    if precedence.priorities is Priorities.ORDERED:
        levels = [0] * len(order)
        for at, level in zip(order, ordered([ranges[at] for at in order]), strict=True):
            levels[at] = level
        return Decision(precedence, order, levels, "ordered")
    if len(candidates) < 2:
        state: State = "alone"
    elif not all(math.isfinite(each.rest_s) for each in candidates):
        state = "unknown"
    else:
        state = "turn" if precedence.turn_s > 0 else "equal"
    return Decision(precedence, order, equal(ranges), state)


def ordered(ranges: Sequence[Range]) -> list[int]:
    """Each below the one before it, as high as that leaves it; at the end of its range it goes no lower."""
    levels: list[int] = []
    for allowed in ranges:
        below = levels[-1] + 1 if levels else allowed.highest
        levels.append(min(max(below, allowed.highest), allowed.lowest))
    return levels


def equal(ranges: Sequence[Range]) -> list[int]:
    """All at one priority, the highest that every range has; those whose range ends above it are at its end."""
    common = max((allowed.highest for allowed in ranges), default=0)
    return [min(common, allowed.lowest) for allowed in ranges]
