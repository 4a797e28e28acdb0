"""What the agent has set, on disk: written before it is set, so that `fikit place --clear` finds all of it after a crash."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final

from fikitd.base import schema
from fikitd.store.storage import read_bounded, reason, write_atomic

from fikit.placement.plan import HIGHEST, NOTHING, Mark

_log = logging.getLogger("fikit.place")

NAME: Final = "placed.json"
LOCK: Final = "lock"
VERSION: Final = 1
MOST: Final = 200_000
MOST_BYTES: Final = 2**26


def _factor(value: object, what: str) -> int:
    if type(value) is not int or not -HIGHEST <= value <= HIGHEST:
        raise ValueError(f"{what} is not a factor")
    return value


_MARK: Final = schema.row(
    _factor, schema.text(400), schema.text(255), schema.text(255), schema.whole(0, 10**9), schema.several(schema.whole(1, 2**32), 64)
)  # fmt: skip
"""As `Mark` has its fields."""
_CHECK: Final = schema.fields(
    {"version": schema.whole(VERSION, VERSION), "jobs": schema.by_name(_MARK, MOST, longest=10)}
)


def _mark(row: list[Any]) -> Mark:
    factor, comment, node, type_, shards, waits_for = row
    return Mark(factor, comment, node, type_, shards, tuple(waits_for))


class Journal:
    """In `directory`, which must be ours. Never raises: what cannot be read counts as empty, what cannot be written is a line in the log."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._complained = False
        self._written: dict[int, Mark] | None = None

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Whether it is ours meanwhile: an agent that runs holds it, and nobody else takes back what that has set. Where no lock can be
        made it is ours: a full disk stops no agent."""
        path = self._path.with_name(LOCK)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):  # what cannot be written there is said when there is something
                _log.warning("%s cannot be opened: %s; nothing keeps a second agent away", path, reason(error))
            yield True
            return
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True
        finally:
            os.close(file)

    def load(self) -> dict[int, Mark]:
        try:
            status = self._path.lstat()
            if status.st_uid not in {0, os.geteuid()} or not stat.S_ISREG(status.st_mode) or status.st_mode & 0o022:
                raise ValueError("others may write it")
            found = _CHECK(schema.document(read_bounded(self._path, MOST_BYTES)), "the journal")
            marks = {int(job): _mark(row) for job, row in found["jobs"].items() if job.isdecimal()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            _log.warning(
                "%s is not believed: %s; what it says is set stays set until those jobs begin",
                self._path,
                reason(error),
            )
            return {}
        self._written = dict(marks)
        return marks

    def save(self, marks: Mapping[int, Mark]) -> None:
        kept = {number: mark for number, mark in marks.items() if mark != NOTHING}
        if kept == self._written:
            return
        document = {"version": VERSION, "jobs": {str(job): astuple(mark) for job, mark in kept.items()}}
        try:
            write_atomic(self._path, json.dumps(document).encode(), mode=0o600)
            self._written, self._complained = kept, False
        except OSError as error:
            if not self._complained:
                _log.warning(
                    "%s cannot be written: %s; what is set cannot be taken back after a crash",
                    self._path,
                    reason(error),
                )
            self._complained = True
