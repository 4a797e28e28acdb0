"""Storage that fails as the test says: programs/daemon/failing_storage.c, preloaded into whatever uses it."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

OPERATIONS = ("open", "read", "write", "fsync", "rename", "stat", "list", "mkdir", "chmod", "chown", "unlink")
_BYTES = 16 + 4000


def _mapped(file: Path) -> mmap.mmap:
    with file.open("r+b") as opened:
        return mmap.mmap(opened.fileno(), _BYTES)


class FailingStorage:
    """Everything below `below`, in processes that have `env`."""

    def __init__(self, cc: Callable[..., Path], directory: Path, below: Path) -> None:
        library = cc("tests/device/programs/daemon/failing_storage.c", "-shared", "-fPIC", "-ldl")
        file = directory / "fault"
        file.write_bytes(bytes(16) + str(below).encode().ljust(_BYTES - 16, b"\0"))
        self._page = _mapped(file)
        self.env = {"LD_PRELOAD": str(library), "FAILING_STORAGE": str(file)}

    @classmethod
    def of(cls, file: Path) -> FailingStorage:
        """In a process that was started with `env`: the faults of all such processes."""
        storage = cls.__new__(cls)
        storage._page = _mapped(file)
        return storage

    @contextmanager
    def fails(self, *operations: str, error: int = 0, hang_s: float = 0) -> Iterator[Callable[[], int]]:
        """These operations fail meanwhile; gives a function that counts how often they did. error 0: they succeed, late."""
        mask = sum(1 << OPERATIONS.index(operation) for operation in operations)
        self._page[:16] = struct.pack("Iiii", mask, error, int(hang_s * 1000), 0)
        try:
            yield lambda: int(struct.unpack_from("i", self._page, 12)[0])
        finally:
            self._page[:4] = bytes(4)
