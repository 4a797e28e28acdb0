"""What a site does not want to keep: a user's oldest reports, traces and profiles, removed when one of the user's jobs ends. And what nobody
can want: temporary files of writers that were killed.

By number and not by age: a clock that is wrong for an hour would take everything. Only a temporary file goes by age, in the clock of
the file system that it is on. With the user's rights, for a bounded time, and not for every job.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from fikitd.api.traces import SUFFIX
from fikitd.api.uses import SUFFIX as USE
from fikitd.base.validation import integer, is_name
from fikitd.profiles.memory_history import DIRECTORY as PEAKS
from fikitd.store import own_directory, temporary
from fikitd.store.records import JobRecord
from fikitd.store.storage import Storage, reason
from fikitd.workers.pool import Call, Rights

_log = logging.getLogger("fikitd")

PAUSE_S: Final = 600.0  # between two times for one user
LOOK_S: Final = 86400.0  # between two looks for one user's temporary files
LONGEST_S: Final = 5.0
MOST_LOOKED_AT: Final = 50_000  # entries of a directory
MOST_REMOVED: Final = 500  # at a time


class Kept(NamedTuple):
    """How many of each a user has at most; 0 = all."""

    reports: int
    traces: int
    profiles: int

    @property
    def anything(self) -> bool:
        """Whether it says anything."""
        return any(self)


class Have(NamedTuple):
    """How many a user has in another place."""

    reports: int
    traces: int


NONE: Final = Have(0, 0)


class Pruner:
    def __init__(self, kept: Kept, report_dir: Path, profile_dir: Path, storage: Storage, work: Call) -> None:
        self._kept, self._report_dir, self._profile_dir = kept, report_dir, profile_dir
        self._storage, self._work = storage, work
        self._last_s: dict[int, float] = {}
        self._looked_s: dict[int, float] = {}  # for temporary files

    async def after(self, record: JobRecord) -> None:
        """One of the user's jobs has ended. Never raises; what cannot be removed is one line in the log."""
        now = time.monotonic()
        looks = now - self._looked_s.get(record.uid, -LOOK_S) >= LOOK_S
        if not (looks or self._kept.anything) or now - self._last_s.get(record.uid, -PAUSE_S) < PAUSE_S:
            return
        self._last_s[record.uid] = now
        try:
            have = await self._prune_own(record, looks)
            if looks:
                self._looked_s[record.uid] = now
            if self._kept.anything:
                await self._prune_before(record, have)
        except (OSError, ValueError) as error:
            _log.info(
                "old files of uid %d could not be removed: %s", record.uid, reason(error), extra={"uid": record.uid}
            )

    async def _prune_own(self, record: JobRecord, looks: bool) -> Have:
        """In the user's own directories. How many reports and traces are left there."""
        arguments = {
            "uid": record.uid, "kept": list(self._kept), "reports": str(self._report_dir),
            "profiles": str(self._profile_dir), "temporary": looks,
        }  # fmt: skip
        left, _ = await self._work(Rights(record.uid, record.gid), "prune_own", arguments, timeout_s=LONGEST_S)
        if not isinstance(left, list) or len(left) != len(Have._fields):
            raise ValueError("the answer is none")
        return Have(*(integer(number, "number of files", 0, 2**31) for number in left))

    async def _prune_before(self, record: JobRecord, have: Have) -> None:
        """What fikitds of before put where everybody's are: it is older than what the user has now. Where only fikitd may change
        that, with its rights, but at the user's expense."""
        users = await self._storage.run(record.uid, partial(own_directory.open_to_users, self._report_dir))
        rights = Rights(record.uid, record.gid) if users else Rights(os.geteuid(), os.getegid())
        arguments = {
            "uid": record.uid, "kept": list(self._kept), "have": list(have), "reports": str(self._report_dir),
        }  # fmt: skip
        await self._work(rights, "prune_before", arguments, timeout_s=LONGEST_S, user=record.uid)


def prune_own(report_dir: Path, profile_dir: Path, uid: int, kept: Kept) -> Have:
    """In the user's own directories. How many reports and traces are left there. OSError when they cannot be read."""
    have = NONE
    for own in own_directory.of(report_dir, uid):
        left = prune_reports(own, uid, kept)
        have = Have(have.reports + left.reports, have.traces + left.traces)
    for own in own_directory.of(profile_dir, uid):
        prune_profiles(own, uid, kept.profiles)
        prune_peaks(own / PEAKS, uid, kept.profiles)
    return have


def prune_temporary(report_dir: Path, profile_dir: Path, uid: int) -> None:
    """Remove the user's temporary files of writers that were killed. OSError when the directories cannot be read."""
    temporary.remove(own_directory.of(report_dir, uid), uid)
    temporary.remove(of_profiles(profile_dir, uid), uid)


def of_profiles(profile_dir: Path, uid: int) -> list[Path]:
    """Where files of the user's profiles, and of the memory that jobs needed, are. OSError: nobody can say."""
    found: list[Path] = []
    for own in own_directory.of(profile_dir, uid):
        with os.scandir(own) as entries:
            names = [
                entry.name
                for entry in itertools.islice(entries, MOST_LOOKED_AT)
                if entry.name == PEAKS or is_name(entry.name)
            ]
        found += [own, *(own / name for name in names if own_directory.belongs(own / name, uid))]
    return found


def prune_reports(directory: Path, uid: int, kept: Kept, have: Have = NONE) -> Have:
    """Remove the user's oldest reports and traces, of a user who has so many already; how many are left. OSError when the
    directory cannot be read.
    """
    with os.scandir(directory) as entries:
        own = [entry for entry in itertools.islice(entries, MOST_LOOKED_AT) if _belongs(entry, uid)]
    traces = [entry for entry in own if entry.name.endswith(SUFFIX)]
    reports = [entry for entry in own if entry.name.endswith((".json", USE))]
    old_reports = _oldest(reports, kept.reports, have.reports)
    old_traces = _oldest(traces, kept.traces, have.traces)
    for entry in [*old_reports, *old_traces][:MOST_REMOVED]:
        with suppress(FileNotFoundError):
            os.unlink(entry.path)  # noqa: PTH108
    return Have(len(reports) - len(old_reports), len(traces) - len(old_traces))


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


def _oldest(entries: Iterable[os.DirEntry[str]], kept: int, have: int = 0) -> list[os.DirEntry[str]]:
    """All but the ones that were written last and make it `kept` with those that the user `have`; none for 0."""
    by_age = sorted(entries, key=lambda entry: entry.stat(follow_symlinks=False).st_mtime_ns)
    return by_age[: max(0, len(by_age) - max(0, kept - have))] if kept else []
