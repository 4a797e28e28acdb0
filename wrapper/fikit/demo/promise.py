"""What the demo's high job was promised, and whether that was kept, in the words of a report. Pure."""

from __future__ import annotations

from typing import Any, Final

from fikitd.api.elapsed import KEYS
from fikitd.base.quantities import share

from fikit.demo.told import APART
from fikit.wording import verdict

Told = dict[str, Any]

DISTURBED: Final = "the times include what other programs took, so no ratio is shown"


def agrees(told: Told) -> bool:
    """Whether a loop's report has a ratio, and the clock's is no more than APART away."""
    return told["apart"] is not None and abs(told["apart"]) <= APART


def said(summary: dict[str, Any]) -> str:
    """`the promise was kept: 1.01x of its time alone (1.02x allowed)`, of the high job's loop with fikit; nothing where other programs disturbed
    it, or where its report and the clock say different things.

    As a report reckons it: below the high job there is the low one alone, so what the loop waited or was delayed is the low job's.
    """
    told: Told | None = summary["high"].get("reports", {}).get("fikit")
    if told is None or summary.get("disturbed") or not agrees(told):
        return ""
    most = share(summary["max_slowdown"])
    allowed_s = most * told["alone_s"]
    at_most_s = told["waited_s"] + told["delayed_s"] + told["unexplained_s"]
    kept = True if at_most_s <= allowed_s else False if told["delayed_s"] > allowed_s else None
    return verdict.of({**dict.fromkeys(KEYS), **told, "no_slowdown": "", "max_slowdown": most, "kept": kept})
