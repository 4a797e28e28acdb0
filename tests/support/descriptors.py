"""What this process has open, by what it is: the number of all its descriptors changes whenever the collector finds what another test has left."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def descriptors_of(*words: str) -> int:
    """How many descriptors have one of `words` in their target, a file's path or such as "memfd:page"."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile; the one that lists them
            target = str(link.readlink())
            found += any(word in target for word in words)
    return found
