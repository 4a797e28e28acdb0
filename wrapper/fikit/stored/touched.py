"""What a profile says of the memory that its program's kernels touch, as people ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fikitd.gpus.residency import Link
from fikitd.profiles import memory_plan

BUDGETS: Final = (0.7, 0.8, 0.9)


def of(profile: Mapping[str, Any], link_bytes_per_s: float) -> dict[str, Any] | None:
    """Of the iteration in which the program spent most time; None where nothing is known. Sizes in bytes, times in ns.

    `budgets`: what it would be like with so much on the GPU, by the plan of docs/design/residency.md, for a link of that rate.
    """
    accesses = (profile["rhythm"] or {}).get("accesses")
    if not accesses or not accesses["iterations"]:
        return None
    try:
        found = memory_plan.iteration(accesses)
    except ValueError:  # more than can be planned
        return None
    if found is None:
        return None
    return {
        "length_ns": found.length_ns, "launches": found.launches, "looked_at": found.looked_at,
        "touched_bytes": found.peak_bytes, "least_bytes": found.least_bytes,
        "allocations": [each._asdict() for each in memory_plan.allocations(accesses)],
        "budgets": [point._asdict() for point in memory_plan.points(found, Link(link_bytes_per_s), BUDGETS)[:-1]],
    }  # fmt: skip
