"""What a profile says of the memory that its program's kernels touch, as people ask for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from fikitd.gpus.residency import Link
from fikitd.profiles import memory_plan

BUDGETS: Final = (0.7, 0.8, 0.9)
SOON_WORK: Final = memory_plan.MOST_WORK // 2
"""Launches times pieces, of which a plan takes a fraction of a second; where larger pieces are no fewer, as many as fikitd plans."""
ENOUGH_S: Final = 2.0
"""So much processor time the plans have together; one that has begun is made to its end."""


def of(profile: Mapping[str, Any], link: Link, goes_on: Callable[[], bool] | None = None) -> dict[str, Any] | None:
    """Of the iteration in which the program spent most time; None where nothing is known. Sizes in bytes, times in ns.

    `budgets`: what it would be like with so much on the GPU, by the plan of docs/design/residency.md, over that link, in pieces of
    `piece_bytes`. `unplanned`: budgets for which there was no time. goes_on: whether there is; without it ENOUGH_S.
    """
    accesses = (profile["rhythm"] or {}).get("accesses")
    if not accesses or not accesses["iterations"]:
        return None
    found: memory_plan.Iteration | memory_plan.Extent | None
    points: list[dict[str, Any]] = []
    in_time = True
    try:
        found = of_it = _in_pieces(accesses)
        if of_it is None:
            return None
        goes_on = goes_on or _for(ENOUGH_S)
        points = [each._asdict() for each in memory_plan.points(of_it, link, BUDGETS, goes_on=goes_on)[:-1]]
        in_time = goes_on()
    except ValueError:  # more than can be planned
        found, in_time = _extent(accesses), False
    if found is None:
        return None
    planned = {point["budget_bytes"] for point in points}
    budgets = [int(share * found.peak_bytes) // found.piece_bytes * found.piece_bytes for share in BUDGETS]
    return {
        "length_ns": found.length_ns, "launches": found.launches, "looked_at": found.looked_at,
        "touched_bytes": found.peak_bytes, "least_bytes": found.least_bytes, "piece_bytes": found.piece_bytes,
        "allocations": [each._asdict() for each in memory_plan.allocations(accesses)],
        "budgets": points,
        "unplanned": [] if in_time else [budget for budget in budgets if budget >= found.least_bytes and budget not in planned],
    }  # fmt: skip


def _in_pieces(accesses: Mapping[str, Any]) -> memory_plan.Iteration | None:
    """So fine that the answer comes soon. ValueError: more than can be planned."""
    with suppress(ValueError):
        return memory_plan.coarse(accesses, most_work=SOON_WORK)
    return memory_plan.coarse(accesses)


def _extent(accesses: Mapping[str, Any]) -> memory_plan.Extent | None:
    """None: nobody can say how much it is."""
    with suppress(ValueError):
        return memory_plan.extent(accesses)
    return None


def _for(seconds: float) -> Callable[[], bool]:
    end_s = time.process_time() + seconds
    return lambda: time.process_time() < end_s
