"""How often something may happen: so many at once, and so many a second in the long run."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

MOST_KEYS: Final = 1024  # beyond so many, those that have had their rest are forgotten


@dataclass(frozen=True)
class Rate:
    at_once: float
    per_s: float


class Rates:
    """A token bucket for each key (a user, say)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[Hashable, tuple[float, float, Rate]] = {}  # tokens, as of when, of which rate

    def take(self, key: Hashable, rate: Rate) -> bool:
        """Whether it may happen once more now."""
        now = self._clock()
        left, since, _ = self._left.get(key, (rate.at_once, now, rate))
        left = min(rate.at_once, left + (now - since) * rate.per_s)
        may = left >= 1
        self._left[key] = (left - 1 if may else left, now, rate)
        if len(self._left) > MOST_KEYS:
            self._forget(now)
        return may

    def _forget(self, now: float) -> None:
        self._left = {
            key: (left, since, rate)
            for key, (left, since, rate) in self._left.items()
            if left + (now - since) * rate.per_s < rate.at_once
        }
