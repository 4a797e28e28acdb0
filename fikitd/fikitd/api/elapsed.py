"""A job's elapsed time as the sum of where it went, and what can be said of its slowdown (docs/elapsed.md).

elapsed = alone + waited + delayed + host + suspended + unexplained. A ratio is said only where the sum supports it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any, Final

from fikitd.api.held import LOWER_WORK, Cost
from fikitd.api.job_time import Sums

SLIGHT: Final = 0.05  # of the elapsed time: so much may be unknown, and a ratio still says something

# Why a report has no `slowdown`, or no word on `kept`: "" where it has one.
MEASURED: Final = "measured"  # its own times are the profile
NOTHING: Final = "nothing_launched"
EDGES: Final = "start_or_end_unknown"  # to its profile, if it has one
UNEXPLAINED: Final = "unexplained"
NO_PROMISE: Final = "no_promise"  # its policy promises nothing
OTHERS: Final = "beside_others"  # as important, or more, whose part of the delays is not known
AROUND: Final = "around_fikit"  # a program that fikit does not see used the GPU beside it
CLOSE: Final = "too_close"  # what is not explained decides
KEYS: Final = frozenset(
    {
        "elapsed_s", "alone_s", "waited_s", "delayed_s", "host_s", "unexplained_s", "pauses_s", "host", "no_slowdown",
        "max_slowdown", "kept", "kept_unknown",
    }
)  # fmt: skip
WHY_NOT: Final = ("", MEASURED, NOTHING, EDGES, UNEXPLAINED, NO_PROMISE, OTHERS, CLOSE, AROUND)


@dataclass(frozen=True)
class About:
    """What of a job decides which words its times support."""

    priority: int
    measured: bool
    kernels: int
    max_slowdown: float | None
    beside_others: bool
    beside_around: bool = False  # a program around fikit used its GPU


def fields(sums: Sums, costs: Iterable[Cost], about: About) -> dict[str, Any]:
    """The part of a report record that is the job's time (docs/design/contracts.md, "Report records")."""
    sums = _not_negative(sums)
    host, alone = _host_ns(sums), alone_ns(sums)
    missing = _missing(sums, about)
    kept, unsure = _kept(sums, alone, list(costs), about)
    return {
        "elapsed_s": sums.elapsed / 1e9,
        "alone_s": alone / 1e9,
        "waited_s": sums.waited / 1e9,
        "delayed_s": sums.delayed / 1e9,
        "host_s": host / 1e9,
        "unexplained_s": sums.unexplained / 1e9,
        "suspended_s": sums.suspended / 1e9,
        "pauses_s": sums.pauses / 1e9,
        "host": {
            "start_s": sums.start / 1e9, "late_s": sums.late / 1e9, "end_s": sums.end / 1e9, "unknown_s": sums.edges / 1e9,
        },
        "slowdown": None if missing or not alone else round((sums.elapsed - sums.suspended) / alone, 4),
        "no_slowdown": missing if alone or missing else NOTHING,
        "max_slowdown": about.max_slowdown,
        "kept": kept,
        "kept_unknown": unsure,
    }  # fmt: skip


def alone_ns(sums: Sums) -> float:
    """What of the elapsed time it would have taken alone on its GPU."""
    sums = _not_negative(sums)
    return max(sums.elapsed - _host_ns(sums) - sums.waited - sums.delayed - sums.suspended - sums.unexplained, 0.0)


def _host_ns(sums: Sums) -> float:
    return sums.start + sums.end + sums.edges + sums.late


def _not_negative(sums: Sums) -> Sums:
    """Of clients that came and went a part may have become less meanwhile."""
    return Sums(*(max(part, 0.0) for part in astuple(sums)))


def _missing(sums: Sums, about: About) -> str:
    if about.measured:
        return MEASURED
    if about.kernels == 0:
        return NOTHING
    if about.beside_around:
        return AROUND
    if sums.unexplained > SLIGHT * sums.elapsed:
        return UNEXPLAINED
    return EDGES if sums.edges > SLIGHT * sums.elapsed else ""


def _kept(sums: Sums, alone: float, costs: list[Cost], about: About) -> tuple[bool | None, str]:
    """Whether lower jobs cost it no more than they may. Where that is not known: None, and why."""
    if about.measured or about.kernels == 0:
        return None, MEASURED if about.measured else NOTHING
    if about.max_slowdown is None:
        return None, NO_PROMISE
    if about.beside_around:
        return None, AROUND
    allowed = about.max_slowdown * alone
    lower = sum(cost.ns for cost in costs if _of_lower(cost, about) and cost.reason != LOWER_WORK)
    others = sum(cost.ns for cost in costs if cost.priority is not None and cost.priority <= about.priority)
    stood = sum(cost.ns for cost in costs if cost.reason == LOWER_WORK)
    at_least = lower + (min(stood, sums.delayed) if about.beside_others else sums.delayed)
    at_most = sums.waited - min(others, sums.waited) + sums.delayed + sums.unexplained
    if at_most <= allowed:
        return True, ""
    if at_least > allowed:
        return False, ""
    return None, OTHERS if about.beside_others else UNEXPLAINED if sums.unexplained > SLIGHT * sums.elapsed else CLOSE


def _of_lower(cost: Cost, about: About) -> bool:
    return cost.priority is not None and cost.priority > about.priority
