"""Traces: the newest events of a job's clients, kept by the dispatcher, stored beside the report as REPORT_DIR/<job>.trace.gz.

Only what concerns the job itself is in it. Others that held it are named by their priority, and by their job id where they
are the same user's; their kernels never are.
"""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from fikitd._core import JOURNAL_KINDS, REASONS
from fikitd.held import Owners
from fikitd.storage import read_bounded, unreadable, write_atomic
from fikitd.untrusted import is_name, no_constant

FORMAT: Final = "fikit-trace"
VERSION: Final = 1
SUFFIX: Final = ".trace.gz"
MAX_FILE_BYTES: Final = 2**26
MAX_BYTES: Final = 2**28
KEPT_CLIENTS: Final = 4  # of those that are gone, the newest: a job may have thousands of short processes

_EVENT: Final = struct.Struct("<qqqIHBB")  # struct JournalEvent, fikitd/core/dispatcher/journal.hpp

Trace = dict[str, Any]


class TraceError(Exception):
    """A stored trace that cannot be used; one sentence names the file."""


class Event(NamedTuple):
    """One event; meanings in fikitd/core/dispatcher/journal.hpp. Times in ns of CLOCK_MONOTONIC."""

    t_ns: int
    length_ns: int
    predicted_ns: int
    by: int
    slot: int
    kind: str
    reason: str


def events_of(journal: bytes) -> list[Event]:
    """The events of a dispatcher's journal, in the order in which they became known."""
    return [
        Event(t_ns, length_ns, predicted_ns, by, slot, JOURNAL_KINDS[kind], REASONS[why])
        for t_ns, length_ns, predicted_ns, by, slot, kind, why in _EVENT.iter_unpack(journal)
    ]


class Story(NamedTuple):
    """What the dispatcher remembers of one client."""

    pid: int
    gpu: str
    journal: Mapping[str, Any]  # as Dispatcher.journal() gives it


class JobTrace:
    """The journals of one job's clients: of those that are there, and of the newest of those that are gone."""

    def __init__(self) -> None:
        self._live: dict[int, Callable[[], Story]] = {}
        self._gone: deque[Story] = deque(maxlen=KEPT_CLIENTS)

    def came(self, number: int, pid: int, gpu: str, journal: Callable[[], Mapping[str, Any]]) -> None:
        self._live[number] = lambda: Story(pid, gpu, journal())

    def went(self, number: int) -> None:
        """The client is about to leave its dispatcher."""
        tell = self._live.pop(number, None)
        if tell is not None and (story := tell()).journal["events"]:
            self._gone.append(story)

    def forget(self, number: int) -> None:
        """The client is about to leave its dispatcher, if it has not left already, and nothing of it is kept."""
        self._live.pop(number, None)

    def stories(self) -> list[Story]:
        """What is known now, empty when the dispatcher keeps no journals."""
        now = [story() for story in self._live.values()]
        return [story for story in [*self._gone, *now] if story.journal["events"]]


def document(report: Mapping[str, Any], stories: list[Story], owners: Owners) -> Trace:
    """The trace of a job as it is stored and sent. `report`: the job's report record, for what the trace is about."""
    others: dict[str, dict[str, Any]] = {}

    def row(event: Event) -> list[Any]:
        by: int | None = None
        if event.kind == "wait":
            by = event.by
            others.setdefault(str(by), owners.seen_by(by, report["uid"]))
        return [event.kind, event.t_ns, event.length_ns, event.predicted_ns, event.slot, event.reason, by]

    clients = [
        {
            "pid": story.pid,
            "gpu": story.gpu,
            "lost": story.journal["lost"],
            "kernels": {str(slot): name for slot, name in story.journal["kernels"].items()},
            "events": [row(event) for event in events_of(story.journal["events"])],
        }
        for story in stories
    ]
    about = {key: report[key] for key in ("job", "name", "uid", "node", "priority", "policy", "device", "state")}
    return {"format": FORMAT, "version": VERSION, **about, "clients": clients, "others": others}


class TraceStore:
    """Stored traces. Reads and writes in the calling thread with its rights."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)

    def save(self, trace: Trace, owner: tuple[int, int] | None = None) -> Path:
        """Store a trace, replacing an earlier one of the same job; `owner` (uid, gid) gets the file when root writes it."""
        if not is_name(trace["job"]):
            raise ValueError("job is not a job id")
        path = self.directory / f"{trace['job']}{SUFFIX}"
        data = gzip.compress(json.dumps(trace, separators=(",", ":")).encode(), compresslevel=6, mtime=0)
        write_atomic(path, data, mode=0o600, owner=owner)
        return path

    def load(self, job: str) -> Trace | None:
        """The trace of `job`; None when there is none, TraceError when it cannot be read."""
        if not is_name(job):
            return None
        path = self.directory / f"{job}{SUFFIX}"
        try:
            trace = json.loads(_inflate(read_bounded(path, MAX_FILE_BYTES)), parse_constant=no_constant)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError, zlib.error) as error:
            raise TraceError(f"trace {path} could not be read: {unreadable(path, error)}") from None
        if not isinstance(trace, dict) or trace.get("format") != FORMAT or trace.get("version") != VERSION:
            raise TraceError(f"trace {path} is not a version {VERSION} {FORMAT} file")
        return trace


def _inflate(data: bytes) -> bytes:
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    plain = inflater.decompress(data, MAX_BYTES)
    if not inflater.eof:
        raise ValueError("it is cut off, or larger than any trace")
    return plain
