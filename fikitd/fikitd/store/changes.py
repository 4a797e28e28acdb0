"""What tells that files of a directory came or went, without anybody looking: inotify(7)."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_libc = ctypes.CDLL(None, use_errno=True)
_MOVED_FROM, _MOVED_TO, _DELETE, _CLOSE_WRITE = 0x40, 0x80, 0x200, 0x8
_EVENTS_BYTES: Final = 65536


def watch(*directories: Path) -> int:
    """A descriptor that can be read when a file of one of them has come or gone; -1 where the system has none left, or one is not there."""
    fd = int(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    mask = _MOVED_FROM | _MOVED_TO | _DELETE | _CLOSE_WRITE
    for directory in directories:
        if fd >= 0 and _libc.inotify_add_watch(fd, os.fsencode(directory), mask) < 0:
            os.close(fd)
            return -1
    return fd


def take(fd: int) -> None:
    """What has been told so far, so that the descriptor can be read only after the next change."""
    with suppress(BlockingIOError):
        os.read(fd, _EVENTS_BYTES)
