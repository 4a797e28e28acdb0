"""How much GPU memory jobs of a name needed: PROFILE_DIR/<uid>/.memory/<name>, for the next one that does not say.

One line `JOB PEAK_BYTES` for each of the last jobs of that name (--fikit-profile, else the job's name), the newest last. Plain
text, because slurm_plugin/lua/fikit_client.lua reads it where the job is submitted, with the user's own rights. Jobs of one
name that end at the same moment may lose each other's line: the next one writes it again.
"""

from __future__ import annotations

import itertools
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from fikitd import own_directory
from fikitd.profiles import ProfileStore
from fikitd.storage import read_bounded, write_atomic
from fikitd.untrusted import is_name

DIRECTORY: Final = ".memory"
KEPT: Final = 8
MAX_BYTES: Final = 4096
MAX_NAMES: Final = 1024  # of one user
_LINE = re.compile(r"([A-Za-z0-9._-]{1,64}) (\d{1,16})", re.ASCII)


class Peaks:
    """Reads and writes in the calling thread with its rights, as ProfileStore does, beside whose profiles the files lie."""

    def __init__(self, store: ProfileStore) -> None:
        self._store = store

    def prepare(self, uid: int, gid: int) -> None:
        """As root, make the user's directory where only root may."""
        self._store.prepare(uid, gid)

    def of(self, uid: int, name: str) -> dict[str, int]:
        """Job id -> peak of the last jobs of that name, oldest first; empty when nothing can be read."""
        try:
            if (directory := self._store.of(uid, DIRECTORY)) is None:
                return {}
            text = read_bounded(directory / _file(name), MAX_BYTES, uid).decode()
        except (OSError, ValueError):
            return {}
        return {match[1]: int(match[2]) for line in text.splitlines() if (match := _LINE.fullmatch(line))}

    def remember(self, uid: int, name: str, job: str, peak_bytes: int) -> None:
        """Add or replace a job's line. OSError when it could not be stored."""
        known = self.of(uid, name)
        known.pop(job, None)
        lines = [f"{old} {peak}\n" for old, peak in [*known.items(), (job, peak_bytes)][-KEPT:]]
        directory = own_directory.make(self._store.directory, uid) / DIRECTORY
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        path = directory / _file(name)
        new = not path.exists()
        write_atomic(path, "".join(lines).encode(), mode=0o600)
        if new:
            _make_room(directory)


def _file(name: str) -> str:
    if not is_name(name):
        raise ValueError("name is not a job's or a profile's")
    return name


def _make_room(directory: Path) -> None:
    """A user may give jobs any names: those of the jobs that ended longest ago go."""
    with os.scandir(directory) as entries:
        known = [entry for entry in itertools.islice(entries, own_directory.MOST_LOOKED_AT) if is_name(entry.name)]
    if len(known) <= MAX_NAMES:
        return
    for entry in sorted(known, key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns)[:-MAX_NAMES]:
        with suppress(OSError):
            os.unlink(entry.path)  # noqa: PTH108
