"""How much time of workers each user may take for work that nobody waits for: a burst, then a share of the time. Pure: it is told what time it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

S: Final = 1_000_000_000
FORGET_AT: Final = 64  # users; of those beyond it the ones with a full burst are not kept


@dataclass
class _Purse:
    left_ns: float
    at_ns: int


@dataclass
class Allowance:
    """By user. burst_ns: may be taken at once; share: of the time, after that. What is under way when it is used up goes on, and counts."""

    burst_ns: int
    share: float
    _purses: dict[int, _Purse] = field(default_factory=dict)

    def wait_ns(self, uid: int, now_ns: int) -> int:
        """Until the user may take some; 0: now."""
        left_ns = self._left_ns(uid, now_ns)
        return 0 if left_ns > 0 else int(-left_ns / self.share) + 1

    def took(self, uid: int, now_ns: int, length_ns: int) -> None:
        """Work of the user's has ended that was so long."""
        self._purses[uid] = _Purse(self._left_ns(uid, now_ns) - max(length_ns, 0), now_ns)
        if len(self._purses) > FORGET_AT:
            full = [each for each in self._purses if self._left_ns(each, now_ns) >= self.burst_ns]
            for each in full:
                del self._purses[each]

    def _left_ns(self, uid: int, now_ns: int) -> float:
        purse = self._purses.get(uid)
        if purse is None:
            return float(self.burst_ns)
        return min(purse.left_ns + max(now_ns - purse.at_ns, 0) * self.share, float(self.burst_ns))
