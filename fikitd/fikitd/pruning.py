"""What a site does not want to keep: a user's oldest reports, traces and profiles, removed when one of the user's jobs ends.

By number and not by age: a clock that is wrong for an hour would take everything. With the user's rights, for a bounded time, and
not for every job.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fikitd.peaks import DIRECTORY as PEAKS
from fikitd.records import JobRecord
from fikitd.storage import Storage, become, reason
from fikitd.traces import SUFFIX
from fikitd.untrusted import is_name

_log = logging.getLogger("fikitd")

PAUSE_S: Final = 600.0  # between two times for one user
LONGEST_S: Final = 5.0
MOST_LOOKED_AT: Final = 50_000  # entries of a directory
MOST_REMOVED: Final = 500  # at a time


@dataclass(frozen=True)
class Kept:
    """How many of each a user has at most; 0 = all."""

    reports: int
    traces: int
    profiles: int

    def __bool__(self) -> bool:
        return bool(self.reports or self.traces or self.profiles)


class Pruner:
    def __init__(self, kept: Kept, report_dir: Path, profile_dir: Path, storage: Storage) -> None:
        self._kept, self._report_dir, self._profile_dir, self._storage = kept, report_dir, profile_dir, storage
        self._last_s: dict[int, float] = {}

    async def after(self, record: JobRecord) -> None:
        """One of the user's jobs has ended. Never raises; what cannot be removed is one line in the log."""
        now = time.monotonic()
        if not self._kept or now - self._last_s.get(record.uid, -PAUSE_S) < PAUSE_S:
            return
        self._last_s[record.uid] = now
        try:
            await self._storage.run(record.uid, lambda: self._prune(record.uid, record.gid), LONGEST_S)
        except OSError as error:
            _log.info("old files of uid %d could not be removed: %s", record.uid, reason(error))

    def _prune(self, uid: int, gid: int) -> None:
        status = self._report_dir.stat()
        open_to_users = status.st_uid != os.geteuid() or bool(status.st_mode & 0o022)
        if open_to_users:
            become(uid, gid)
        prune_reports(self._report_dir, uid, self._kept)
        if not open_to_users:
            become(uid, gid)
        profiles = self._profile_dir / str(uid)
        prune_profiles(profiles, uid, self._kept.profiles)
        prune_peaks(profiles / PEAKS, uid, self._kept.profiles)


def prune_reports(directory: Path, uid: int, kept: Kept) -> None:
    """Remove the user's oldest reports and traces. Raises OSError when the directory cannot be read."""
    with os.scandir(directory) as entries:
        own = [entry for entry in itertools.islice(entries, MOST_LOOKED_AT) if _belongs(entry, uid)]
    traces = [entry for entry in own if entry.name.endswith(SUFFIX)]
    reports = [entry for entry in own if entry.name.endswith(".json")]
    old = [*_oldest(reports, kept.reports), *_oldest(traces, kept.traces)]
    for entry in old[:MOST_REMOVED]:
        with suppress(FileNotFoundError):
            os.unlink(entry.path)  # noqa: PTH108


def prune_profiles(directory: Path, uid: int, kept: int) -> None:
    """Remove the profiles (with all their runs) that were added to longest ago. Raises OSError when they cannot be read."""
    if not kept or not directory.is_dir():
        return
    with os.scandir(directory) as entries:
        own = [
            entry
            for entry in itertools.islice(entries, MOST_LOOKED_AT)
            if is_name(entry.name) and entry.name[0] != "." and _belongs(entry, uid, of=os.DirEntry.is_dir)
        ]
    for entry in _oldest(own, kept)[:MOST_REMOVED]:
        shutil.rmtree(entry.path, ignore_errors=True)


def prune_peaks(directory: Path, uid: int, kept: int) -> None:
    """As prune_profiles, of the files that say how much memory jobs of a name needed."""
    if not kept or not directory.is_dir():
        return
    with os.scandir(directory) as entries:
        own = [entry for entry in itertools.islice(entries, MOST_LOOKED_AT) if _belongs(entry, uid)]
    for entry in _oldest(own, kept)[:MOST_REMOVED]:
        with suppress(FileNotFoundError):
            os.unlink(entry.path)  # noqa: PTH108


def _belongs(entry: os.DirEntry[str], uid: int, of: Callable[..., bool] = os.DirEntry.is_file) -> bool:
    try:
        return (
            entry.name[0] != "."
            and of(entry, follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_uid == uid
        )
    except OSError:
        return False


def _oldest(entries: Iterable[os.DirEntry[str]], kept: int) -> list[os.DirEntry[str]]:
    """All but the `kept` that were written last; none for 0."""
    by_age = sorted(entries, key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns)
    return by_age[:-kept] if kept else []
