"""What goes into fikitd's log: on a tmpfs, often, and written by root for whoever can make it write.

So lines that users cause are counted for each user and for all of them, and everything together has a bound, too. What is left out is
counted, and the next line that comes through says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from fikitd.base.rates import Rate, Rates

# A user's jobs begin with a line for each process; refusals say the same again and again, and have their own (`refused`).
OF_USER: Final = Rate(at_once=40, per_s=0.5)
OF_REFUSED: Final = Rate(at_once=2, per_s=1 / 30)
OF_USERS: Final = Rate(at_once=100, per_s=3)
OF_ALL: Final = Rate(at_once=100, per_s=4)
FAULT_LINES: Final = 20  # what a traceback counts as


class Bounded(logging.Filter):
    """For the handler that writes the log. A line about a user has `extra={"uid": uid}`, a refusal `"refused": True` besides."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._rates = Rates(clock)
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._may(record):
            self._left_out += 1
            return False
        if self._left_out:
            record.msg = f"{record.getMessage()} ({self._left_out} lines before this one were left out)"
            record.args = ()
            self._left_out = 0
        return True

    def _may(self, record: logging.LogRecord) -> bool:
        uid = getattr(record, "uid", None)
        if uid is not None:
            refused = getattr(record, "refused", False)
            rate = OF_REFUSED if refused else OF_USER
            return self._rates.take((uid, refused), rate) and self._rates.take("users", OF_USERS)
        lines = FAULT_LINES if record.exc_info else 1
        return all(self._rates.take("all", OF_ALL) for _ in range(lines))
