"""What there was since midnight, of counters that begin with fikitd: what the fikitd before this one counted today counts on. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from fikitd.api.status_format import COUNTS, MOST_BROKEN

Broken = dict[str, Any]
Counted = Mapping[str, float]
"""By the names of status_format.COUNTS, and of each GPU what lower jobs had of it, by its name."""


def midnight(now_s: float) -> int:
    """When this day began where the node is."""
    day = time.localtime(now_s)
    return int(time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1)))


class Today:
    def __init__(self, before: Mapping[str, Any] | None = None) -> None:
        """`before`: the status that an earlier fikitd left, as status_format has it."""
        said = before or {"today": {"since_s": 0}, "gpus": [], "broken": []}
        self._since_s = said["today"]["since_s"]
        self._base = {count: said["today"].get(count, 0.0) for count in COUNTS}
        self._base |= {gpu["uuid"]: gpu["harvest_s"] for gpu in said["gpus"]}
        self._begin: Counted = {}
        self._last: Counted = {}
        self._broken: list[Broken] = list(said["broken"])

    def now(
        self, counted: Counted, broken: Sequence[Broken], now_s: float
    ) -> tuple[int, dict[str, float], list[Broken]]:
        """Since when, and what since then. `counted`: since fikitd began; `broken`: promises that were not kept since the last call."""
        if (since_s := midnight(now_s)) != self._since_s:
            # What was counted between the last look and midnight is taken for today's.
            self._since_s, self._base, self._begin = since_s, {}, self._last
        self._last = dict(counted)
        self._broken = [each for each in (*self._broken, *broken) if each["ended_s"] >= since_s][-MOST_BROKEN:]
        names = {*COUNTS, *counted, *self._base}
        sums = {
            name: self._base.get(name, 0.0) + max(counted.get(name, 0.0) - self._begin.get(name, 0.0), 0.0)
            for name in names
        }
        return since_s, sums, list(self._broken)
