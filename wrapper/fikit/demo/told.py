"""What the reports of the demo's jobs say of the same loops that the demo's clock measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from fikitd.api.elapsed import SLIGHT

PARTS: Final = ("waited_s", "delayed_s", "host_s", "unexplained_s")
APART: Final = 0.02  # so far apart may clock and report be


@dataclass(frozen=True)
class Told:
    """Where the time of a job's loop went, in seconds, by the names that a report has for it. The parts sum to elapsed_s."""

    elapsed_s: float
    alone_s: float
    waited_s: float
    delayed_s: float
    host_s: float
    unexplained_s: float

    @classmethod
    def between(cls, begin: Mapping[str, Any], end: Mapping[str, Any], seconds: float) -> Told:
        """From two report records of a running job, before and after a loop that took `seconds`.

        What lies between the records and the loop is the program's own idle time, which reports count as alone.
        """
        parts = {part: max(end[part] - begin[part], 0.0) for part in PARTS}
        elapsed_s = max(seconds, sum(parts.values()))
        return cls(elapsed_s=elapsed_s, alone_s=elapsed_s - sum(parts.values()), **parts)

    @property
    def slowdown(self) -> float | None:
        """elapsed / alone; None where the sum supports no ratio."""
        if self.alone_s <= 0 or self.unexplained_s > SLIGHT * self.elapsed_s:
            return None
        return self.elapsed_s / self.alone_s

    def summary(self, ratio: float) -> dict[str, Any]:
        """For summary.json. `ratio`: the loop's time to its time alone, by the clock. `apart`: how far the report's is from that, as a
        share of it."""
        apart = None if self.slowdown is None else self.slowdown / ratio - 1
        return {
            **{key: round(value, 4) for key, value in asdict(self).items()},
            "slowdown": None if self.slowdown is None else round(self.slowdown, 4),
            "apart": None if apart is None else round(apart, 4),
        }
