"""Files of jobs, each in its user's own directory: DIR/<uid>/<job>SUFFIX; those that fikitds of before wrote are in DIR itself.

Whoever reads sees what is their own; root sees everybody's. Whose a file is, its owner says, never its name or what is in it:
a user may write anything into a file, and any file into an open directory.
"""

from __future__ import annotations

import itertools
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from fikitd.base.validation import AHEAD_S, is_name
from fikitd.store import own_directory
from fikitd.store.storage import read_bounded, unreadable, write_atomic

MOST_LOOKED_AT: Final = 200_000  # files of a user: a second

Document = dict[str, Any]


class UserFile(NamedTuple):
    path: Path
    job: str
    uid: int  # whose it must be


@dataclass(frozen=True)
class Kind:
    """What the files are: `report`, ends in `.json`, has so many bytes at most, is understood by `parse` (ValueError), else is an `error`."""

    what: str
    suffix: str
    max_bytes: int
    parse: Callable[[bytes], Document]
    error: type[Exception]


class UserFiles:
    """Reads and writes in the calling thread with its rights."""

    def __init__(self, directory: Path, kind: Kind) -> None:
        self.directory, self._kind = directory, kind

    def load(self, job: str, uid: int | None = None) -> Document | None:
        """The one of `job`, of user `uid`'s where several have one; None when there is none. Raises the kind's error."""
        if not is_name(job):
            return None
        found: dict[int, Document] = {}
        damaged = None
        for file in self._of(job):
            try:
                document = self.read(file)
            except FileNotFoundError:
                continue
            except self._kind.error as error:
                damaged = damaged or error
            else:
                if uid in (None, document["uid"]):
                    found.setdefault(document["uid"], document)
        if len(found) > 1:  # numbers of jobs do not repeat: all but one are invented, and which, nobody can see
            whose = ", ".join(map(str, sorted(found)))
            raise self._kind.error(
                f"job {job} has a {self._kind.what} of each of the uids {whose} in {self.directory}: say whose with --user"
            )
        if not found and damaged is not None:
            raise damaged
        return next(iter(found.values()), None)

    def newest(self, since_s: float = 0.0) -> Iterator[UserFile]:
        """All that the caller may see and that were written since (Unix time), the newest first. One from the future comes last: a clock
        was wrong, or its owner lies.
        """
        latest = time.time() + AHEAD_S
        found: list[tuple[float, str, int, Path]] = []  # there may be very many of them
        with suppress(OSError):
            for uid, directory in [*self._directories(), (None, self.directory)]:
                with os.scandir(directory) as entries:
                    for entry in itertools.islice(entries, MOST_LOOKED_AT):
                        job = entry.name.removesuffix(self._kind.suffix)
                        if job == entry.name or not is_name(job):
                            continue
                        with suppress(OSError):
                            status = entry.stat(follow_symlinks=False)
                            owner = _owner(status) if uid is None else uid
                            written_s = status.st_mtime
                            if stat.S_ISREG(status.st_mode) and status.st_uid in (0, owner) and written_s >= since_s:
                                when = written_s if written_s <= latest else 0.0
                                found.append((when, job, owner, directory))
        found.sort(key=itemgetter(0), reverse=True)
        for _, job, owner, directory in found:
            yield UserFile(directory / f"{job}{self._kind.suffix}", job, owner)

    def has(self, job: str, uid: int | None = None) -> bool:
        """Whether there is one, or one of user `uid`'s, readable or not. OSError: nobody can say."""
        try:
            return any(file.path.exists() for file in self._candidates(job, uid))
        except FileNotFoundError:  # the directory is made with the first
            return False

    def save(self, document: Document, data: bytes) -> Path:
        """Replaces an earlier one of the same job. OSError: it could not be stored."""
        if not is_name(document["job"]):
            raise ValueError("job is not a job id")
        if len(data) > self._kind.max_bytes:
            raise ValueError(f"it has {len(data)} bytes, and no reader takes more than {self._kind.max_bytes}")
        own = own_directory.make(self.directory, document["uid"])
        path = own / f"{document['job']}{self._kind.suffix}"
        write_atomic(path, data, mode=0o600)
        return path

    def bytes_of(self, file: UserFile) -> bytes:
        """Raises FileNotFoundError, and the kind's error."""
        try:
            return read_bounded(file.path, self._kind.max_bytes, file.uid)
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise self._error(file.path, error) from None

    def read(self, file: UserFile, data: bytes | None = None) -> Document:
        """What it says, which must be about its job and its owner. Raises FileNotFoundError, and the kind's error."""
        data = self.bytes_of(file) if data is None else data
        try:
            document = self._kind.parse(data)
            if document["job"] != file.job or (file.uid != 0 and document["uid"] != file.uid):
                raise ValueError(
                    f"it says that it is of job {document['job']} of uid {document['uid']}, and belongs to uid {file.uid}"
                )
        except ValueError as error:
            raise self._error(file.path, error) from None
        return document

    def _of(self, job: str) -> list[UserFile]:
        try:
            return self._candidates(job)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._error(self.directory / (job + self._kind.suffix), error) from None

    def _candidates(self, job: str, of: int | None = None) -> list[UserFile]:
        """Where one of `job` may be; for root, once for each user, unless it asks for those of one user: a thread that has taken that user's
        rights can look into no other's directory."""
        name = job + self._kind.suffix
        files = [UserFile(directory / name, job, uid) for uid, directory in self._directories(of)]
        before = self.directory / name
        with suppress(FileNotFoundError):
            files.append(UserFile(before, job, _owner(before.lstat())))
        return files

    def _directories(self, of: int | None = None) -> Iterable[tuple[int, Path]]:
        uid = (os.geteuid() or None) if of is None else of
        if uid is None:
            return own_directory.everybodys(self.directory)
        return [(uid, directory) for directory in own_directory.of(self.directory, uid)]

    def _error(self, path: Path, error: BaseException) -> Exception:
        return self._kind.error(f"{self._kind.what} {path} could not be read: {unreadable(path, error)}")


def _owner(status: os.stat_result) -> int:
    """Whose a file must be that lies where everybody's are: the caller's, or for root its owner's."""
    return status.st_uid if os.geteuid() == 0 else os.geteuid()
