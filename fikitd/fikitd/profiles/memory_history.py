"""How much GPU memory jobs of a name needed: PROFILE_DIR/<uid>/.memory/<name as a file's>, for the next one that does not say.

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

from fikitd.profiles.profile_store import MOST_LOOKED_AT, ProfileStore
from fikitd.store import own_directory
from fikitd.store.storage import read_bounded, write_atomic

DIRECTORY: Final = ".memory"
KEPT: Final = 8
MAX_BYTES: Final = 4096
MAX_NAMES: Final = 1024  # of one user
NAME_BYTES: Final = 128  # of a job's name in its record
NAMELESS_BATCH: Final = "sbatch"
FILE_NAME_BYTES: Final = 200
_UNFINISHED = re.compile(rb"[\xc0-\xff]?[\x80-\xbf]*\Z")
_UNSAFE = re.compile(rb"^\.|[^A-Za-z0-9._-]")
_LINE = re.compile(r"([A-Za-z0-9._-]{1,64}) (\d{1,16})", re.ASCII)


class MemoryHistory:
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
            text = read_bounded(directory / file_name(name), MAX_BYTES, uid).decode()
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
        path = directory / file_name(name)
        new = not path.exists()
        write_atomic(path, "".join(lines).encode(), mode=0o600)
        if new:
            _make_room(directory)


def file_name(name: str) -> str:
    """A job's name, which may hold anything, as the name of its file; fikit_client.lua has the same rule.

    What is no letter, digit or one of `._-` is %XX, a byte each, and so is a leading dot: the name can be read back. Names are
    told apart by their first 128 bytes, and file names by 200. ValueError for no name.
    """
    if not name:
        raise ValueError("a job without a name has no file")
    raw = name.encode(errors="surrogateescape")
    if len(raw) > NAME_BYTES:
        raw = _UNFINISHED.sub(b"", raw[: NAME_BYTES + 1])[:NAME_BYTES]
    return _UNSAFE.sub(lambda byte: b"%%%02X" % byte[0][0], raw)[:FILE_NAME_BYTES].decode()


def _make_room(directory: Path) -> None:
    """A user may give jobs any names: those of the jobs that ended longest ago go."""
    with os.scandir(directory) as entries:
        known = [entry for entry in itertools.islice(entries, MOST_LOOKED_AT) if entry.name[0] != "."]
    if len(known) <= MAX_NAMES:
        return
    for entry in sorted(known, key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns)[:-MAX_NAMES]:
        with suppress(OSError):
            os.unlink(entry.path)  # noqa: PTH108
