"""Temporary files (`storage.write_atomic`) of writers that were killed in the middle: nobody renames them, and after a day they go; in run_dir, where
writing takes no time, at the second look (`Unfinished`).

A day in the clock of the file system that they are on, whatever this node's says: the directory has been changed since.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fikitd.store.storage import is_temporary

KEPT_S: Final = 86400.0  # no writer needs so long
MOST_LOOKED_AT: Final = 50_000  # entries of a directory
MOST_REMOVED: Final = 500  # at a time


class Unfinished:
    """Of the directories of a run_dir, which nobody but root and fikitd writes to. Both call their temporary files `.NAME...`."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories
        self._found: set[tuple[str, int]] = set()  # at the last look: paths and inodes, since a name may be given again

    def remove(self) -> None:
        """What was there at the last look already: at its first one somebody may be writing it."""
        found = {(entry.path, inode) for each in self._directories for entry, inode in _hidden(each)}
        for path, _ in found & self._found:
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108
        self._found = found


def _hidden(directory: Path) -> list[tuple[os.DirEntry[str], int]]:
    with suppress(OSError), os.scandir(directory) as entries:
        own = [entry for entry in itertools.islice(entries, MOST_LOOKED_AT) if entry.name.startswith(".")]
        return [(entry, entry.inode()) for entry in own if entry.is_file(follow_symlinks=False)]
    return []


def remove(directories: Iterable[Path], uid: int) -> None:
    """Those of user `uid`, with the rights of the calling thread: written a day before one of the directories was last changed.

    What cannot be read or removed stays.
    """
    there = [(directory, changed) for directory in directories if (changed := _changed_s(directory)) is not None]
    latest = max((changed for _, changed in there), default=0.0)
    _unlink((entry for directory, _ in there for entry in of_user(directory, uid)), latest)


def remove_of(path: Path) -> None:
    """Those of the file `path`, whoever wrote them, as `remove`; for a file that has one writer."""
    if (changed := _changed_s(path.parent)) is not None:
        _unlink(_in(path.parent, lambda entry: entry.name.startswith(f".{path.name}.")), changed)


def of_user(directory: Path, uid: int) -> Iterator[os.DirEntry[str]]:
    """All that the user has in a directory, however old; none of one that cannot be read."""
    return _in(directory, lambda entry: entry.stat(follow_symlinks=False).st_uid == uid)


def _in(directory: Path, belongs: Callable[[os.DirEntry[str]], bool]) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in itertools.islice(entries, MOST_LOOKED_AT):
            with suppress(OSError):
                if is_temporary(entry.name) and entry.is_file(follow_symlinks=False) and belongs(entry):
                    yield entry


def _unlink(found: Iterable[os.DirEntry[str]], latest: float) -> None:
    old = (entry for entry in found if latest - entry.stat(follow_symlinks=False).st_mtime >= KEPT_S)
    with suppress(OSError):
        for entry in list(itertools.islice(old, MOST_REMOVED)):
            with suppress(OSError):
                os.unlink(entry.path)  # noqa: PTH108


def _changed_s(directory: Path) -> float | None:
    """When something of it last came or went; None: there is none, or it is a link."""
    try:
        status = directory.lstat()
    except OSError:
        return None
    return status.st_mtime if stat.S_ISDIR(status.st_mode) else None
