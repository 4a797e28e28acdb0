"""GPU memory of a job: the page its processes share on one GPU, with the limit of --fikit-mem and what each of them holds.

The processes do the accounting among themselves (shim/memory/memory.c); the daemon makes the page, gives every process a share of
it, and empties the share of one that is gone, however it ended. Only processes of the one job can write it, so nothing read
from it is used for anything but that job's own report and profile.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import weakref
from typing import Final

from fikitd.base.protocol import MEMORY_MAGIC, MEMORY_SHARES, MEMORY_VERSION, MemoryLayout, MemoryShareLayout

MAX_BYTES: Final = 2**53  # what a report says at most: a job may write anything


def _bounded(number: int) -> int:
    return min(number, MAX_BYTES)


class NoShare(Exception):
    """More processes of a job on one GPU than its page has room for; one sentence."""


class MemoryPage:
    """The memory page of one job and GPU. `fd` is this object's and closed with it; processes keep their own mappings."""

    def __init__(self, limit_bytes: int, kept: int | None = None, *, host_bytes: int = 0) -> None:
        """`host_bytes`: what of the job's memory may lie in host memory, beside limit_bytes (fikitd.config.oversubscribe). `kept`: go on with this page, which is as an earlier fikitd left it; OSError when it is no such page."""
        self.bytes = ctypes.sizeof(MemoryLayout)
        self.limit_bytes = limit_bytes
        self._taken: set[int] = set()
        self._peak_bytes = 0
        self.fd = (
            os.memfd_create("fikit-memory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING) if kept is None else os.dup(kept)
        )
        weakref.finalize(self, os.close, self.fd)
        if kept is not None:
            if os.fstat(kept).st_size != self.bytes:
                raise OSError(errno.EINVAL, "not a memory page")
            self._page = MemoryLayout.from_buffer(mmap.mmap(self.fd, self.bytes))
            return
        os.ftruncate(self.fd, self.bytes)
        # Without these a process could truncate the file under our mapping and kill us with SIGBUS.
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._page = MemoryLayout.from_buffer(mmap.mmap(self.fd, self.bytes))
        self._page.magic, self._page.version, self._page.memory_bytes = MEMORY_MAGIC, MEMORY_VERSION, self.bytes
        self._page.limit_bytes, self._page.host_bytes = limit_bytes, host_bytes

    def take(self) -> int:
        """A share for one more process, empty; NoShare when all are taken."""
        share = next((number for number in range(MEMORY_SHARES) if number not in self._taken), None)
        if share is None:
            raise NoShare(f"{MEMORY_SHARES} processes of the job use this GPU already")
        self._taken.add(share)
        self._clear(share)
        self._page.shares = max(self._taken) + 1
        return share

    def take_again(self, share: int) -> int:
        """The share that a process has had since before fikitd was restarted, with what it holds."""
        self._taken.add(share)
        return share

    def held_by(self, share: int) -> int:
        """What the process of a share holds now."""
        return _bounded(self._page.share[share].held_bytes)

    @property
    def held_bytes(self) -> int:
        """What all its processes hold now."""
        return _bounded(sum(self._page.share[share].held_bytes for share in self._taken))

    @property
    def plain_bytes(self) -> int:
        """Of it, in a job with host memory, what cannot leave the GPU."""
        return min(_bounded(sum(self._page.share[share].plain_bytes for share in self._taken)), self.held_bytes)

    def plain_by(self, share: int) -> int:
        """What of that cannot leave the GPU, of a job with memory on the host."""
        return _bounded(self._page.share[share].plain_bytes)

    def peak_of(self, share: int) -> int:
        """Most that the process of a share held at a time."""
        return _bounded(self._page.share[share].peak_bytes)

    def give_back(self, share: int) -> None:
        """Its process is gone, and the driver takes back its memory: empties it."""
        self._peak_bytes = self.peak_bytes
        self._clear(share)
        self._taken.discard(share)
        self._page.shares = max(self._taken, default=-1) + 1

    @property
    def peak_bytes(self) -> int:
        """Most that the job's processes held at a time."""
        return max(self._peak_bytes, _bounded(self._page.peak_bytes))

    @property
    def refused(self) -> int:
        """How many requests were beyond the limit."""
        return _bounded(self._page.refused)

    def _clear(self, share: int) -> None:
        ctypes.memset(ctypes.addressof(self._page.share[share]), 0, ctypes.sizeof(MemoryShareLayout))
