"""File systems that this machine should have mounted, and has not: what is written below one then is hidden when it comes."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

FSTAB: Final = Path("/etc/fstab")
MOUNTS: Final = Path("/proc/self/mounts")


def missing_above(directory: Path) -> Path | None:
    """The mount point of /etc/fstab at or above `directory` that nothing is mounted on. None: there is none, or nobody can say."""
    here = directory.resolve()
    with suppress(OSError):
        wanted = {point for point in _points(FSTAB) if point != Path("/") and here.is_relative_to(point)}
        if wanted:
            return max(wanted - set(_points(MOUNTS)), key=lambda point: len(point.parts), default=None)
    return None


def _points(table: Path) -> list[Path]:
    """The mount points of a file as fstab(5) has it, which writes blanks as \\040."""
    lines = (line.split() for line in table.read_bytes().splitlines())
    return [
        Path(_plain(words[1])) for words in lines if len(words) > 1 and words[0][:1] != b"#" and words[1][:1] == b"/"
    ]


def _plain(word: bytes) -> str:
    octal = re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8) & 0xFF]), word)
    return octal.decode("utf-8", "surrogateescape")
