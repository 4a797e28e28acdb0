"""Priorities that were changed while their jobs ran: RUN_DIR/priorities/JOB, for the fikitd after this one.

A job's record stays what slurmctld approved: these files are fikitd's own, and it alone reads them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fikitd.base import priorities, schema
from fikitd.base.schema import whole
from fikitd.store.storage import read_bounded, reason, write_atomic

if TYPE_CHECKING:
    from fikitd.store.records import JobRecord

_log = logging.getLogger("fikitd")

DIRECTORY: Final = "priorities"
MAX_BYTES: Final = 4096
AUTO: Final = "auto"  # fikitd changed it (auto_priority)
USER: Final = "user"  # its owner or root did, by `fikit priority`
_FILE: Final = schema.fields(
    {"started_ns": whole(0, 2**63 - 1), "priority": whole(0, priorities.LOWEST)},
    {"by": schema.one_of(AUTO, USER)},  # files of before do not say it: a user's
)


@dataclass(frozen=True)
class _Change:
    started_ns: int  # of the job's record: a requeued job begins with what was approved
    priority: int
    by: str = USER


class ChangedPriorities:
    """Only the event loop changes them; the directory is a local one, and small."""

    def __init__(self, run_dir: Path) -> None:
        self._directory = run_dir / DIRECTORY
        self._read: dict[str, _Change] | None = None

    def in_force(self, record: JobRecord) -> JobRecord:
        """The record with the priority that its job has now; `approved` keeps what slurmctld approved."""
        approved = record.priority if record.approved is None else record.approved
        change = self._changes().get(record.job)
        if change is None or change.started_ns != record.started_ns or not _may(change, record):
            return replace(record, priority=approved, approved=None, chosen="")
        return replace(
            record,
            priority=change.priority,
            approved=None if change.priority == approved else approved,
            chosen=change.by if record.auto else "",
        )

    def change(self, record: JobRecord, priority: int, by: str = USER) -> JobRecord:
        """The record as it is from now on. OSError: nothing has changed."""
        change = _Change(record.started_ns, priority, by)
        with suppress(FileExistsError):
            self._directory.mkdir(mode=0o700)
        text = json.dumps({"started_ns": change.started_ns, "priority": change.priority, "by": by})
        write_atomic(self._directory / record.job, text.encode(), mode=0o600)
        self._changes()[record.job] = change
        return self.in_force(record)

    def take_back(self, record: JobRecord) -> JobRecord:
        """The record with what was approved. OSError: nothing has changed."""
        if record.job in self._changes():
            (self._directory / record.job).unlink(missing_ok=True)
            del self._changes()[record.job]
        return self.in_force(record)

    def keep_only(self, jobs: Container[str]) -> None:
        """Those of other jobs go."""
        for job in [job for job in self._changes() if job not in jobs]:
            del self._changes()[job]
            with suppress(OSError):
                (self._directory / job).unlink()

    def _changes(self) -> dict[str, _Change]:
        """By job. Read when the first is asked for: before that the fikitd before this one may write."""
        if self._read is None:
            self._read = dict(self._files())
        return self._read

    def _files(self) -> Iterator[tuple[str, _Change]]:
        try:
            paths = list(self._directory.iterdir())
        except OSError:
            return
        for path in paths:
            if path.name.startswith("."):
                continue  # being written when fikitd was killed
            try:
                said = _FILE(schema.document(read_bounded(path, MAX_BYTES)), "the file")
                yield path.name, _Change(said["started_ns"], said["priority"], said.get("by", USER))
            except (OSError, ValueError) as error:
                _log.warning(
                    "%s is left out, and job %s has the priority that was approved: %s", path, path.name, reason(error)
                )


def _may(change: _Change, record: JobRecord) -> bool:
    """fikitd chooses within the range that was approved."""
    if change.by == USER:
        return True
    return record.auto is not None and record.auto.highest <= change.priority <= record.auto.lowest
