"""Threads whose start nobody waits for.

threading.Thread.start() waits until the new thread has begun, and one that finds no memory to begin with never does: fikitd's event
loop would stand still for good.
"""

from __future__ import annotations

import _thread
import errno
import time
from collections.abc import Callable
from typing import Final

BEGIN_S: Final = 10.0  # one that has not begun by then never will


class Thread:
    """Does `work` beside the event loop, once. Python does not wait for it at exit."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._fate: dict[
            str, bool
        ] = {}  # "begun": whether it may work; whoever comes first says so, the thread or `is_alive`
        self._ended = False
        self._started_s = time.monotonic()

    def start(self) -> None:
        """OSError where the system gives no thread."""
        self._started_s = time.monotonic()
        try:
            _thread.start_new_thread(self._run, ())
        except (RuntimeError, MemoryError) as error:
            raise OSError(errno.EAGAIN, f"fikitd could start no thread for it ({error})") from None

    def is_alive(self) -> bool:
        """Whether it works, or still may."""
        if self._ended:
            return False
        if "begun" not in self._fate and time.monotonic() - self._started_s < BEGIN_S:
            return True
        return self._fate.setdefault("begun", False)

    def _run(self) -> None:
        if not self._fate.setdefault("begun", True):
            return
        try:
            self._work()
        finally:
            self._ended = True
