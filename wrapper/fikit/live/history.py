"""The last looks of each GPU and job, as a line of blocks. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Final

KEPT: Final = 120
BLOCKS: Final = "▁▂▃▄▅▆▇█"


class History:
    """Shares (0 to 1) by whose they are; None where nobody knew. What is not looked at any more is forgotten."""

    def __init__(self) -> None:
        self._known: dict[Hashable, deque[float | None]] = {}

    def add(self, shares: Iterable[tuple[Hashable, float | None]]) -> None:
        """One more look, at all that there is."""
        now = dict(shares)
        self._known = {whose: self._known.get(whose, deque(maxlen=KEPT)) for whose in now}
        for whose, share in now.items():
            self._known[whose].append(share)

    def line(self, whose: Hashable, width: int) -> str:
        """The newest on the right; a space where nobody knew, or nobody looked yet."""
        newest = list(self._known.get(whose, ()))[-width:] if width > 0 else []
        return "".join(map(block, newest)).rjust(width)


def block(share: float | None) -> str:
    if share is None:
        return " "
    return BLOCKS[min(int(max(share, 0.0) * len(BLOCKS)), len(BLOCKS) - 1)]
