"""Ctrl-C while a program is being loaded, or is through: it ends at once, with 130 and without a word.

An exception would be raised in the middle of somebody's import, or after everything that could take it has gone: a traceback.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # as typing has it: what is loaded here is loaded before Ctrl-C is quiet
if TYPE_CHECKING:
    from types import FrameType
    from typing import Final

INTERRUPTED: Final = 130  # what a shell reports for a program that Ctrl-C ended


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def ends_at_once() -> None:
    """From now on. A program that ignores Ctrl-C (one in the background), or has a handler of its own, keeps that."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raises() -> None:
    """KeyboardInterrupt again: there is something to tidy up."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class loading:
    """Around imports in the middle of a program."""

    def __enter__(self) -> None:
        ends_at_once()

    def __exit__(self, *error: object) -> None:
        raises()
