"""What fikitd may run out of for a while: descriptors, threads and processes, memory.

An error that says so is about fikitd and tells nothing of what was asked about: a process that cannot be read then is not gone, a
record not unusable. Who is served stays served, who comes is refused with one line, and afterwards everything is as before.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Final

_ERRNOS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS, errno.ETOOMANYREFS})
_NO_THREAD: Final = "can't start new thread"  # CPython's words: it has no error of its own for this


def scarce(error: BaseException) -> bool:
    """Whether an error comes from what fikitd has run out of."""
    if isinstance(error, OSError):
        return error.errno in _ERRNOS
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and str(error) == _NO_THREAD)


def run_out(error: BaseException) -> str:
    """What a `scarce` error says to whoever cannot be served because of it, as the begin of a sentence."""
    what = (error.strerror if isinstance(error, OSError) else None) or str(error) or "no memory"
    return f"fikitd has run out of descriptors, threads or memory: {what}"


class SpareDescriptor:
    """One that is kept to be given away: without any, fikitd could not even accept a connection to refuse it."""

    def __init__(self) -> None:
        self._fd = -1  # until it is taken

    def give(self) -> bool:
        """Close it, so that the next descriptor can be had; False when it is not there."""
        if self._fd < 0:
            return False
        os.close(self._fd)
        self._fd = -1
        return True

    def take_back(self) -> None:
        """Have it, as soon as that is possible."""
        if self._fd < 0:
            with suppress(OSError):
                self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
