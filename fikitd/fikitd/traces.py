"""Traces: the newest events of a job's clients, kept by the dispatcher, stored beside the report as <job>.trace.gz.

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

from fikitd import trace_format
from fikitd._core import JOURNAL_KINDS, REASONS
from fikitd.held import Owners
from fikitd.report_format import ABOUT
from fikitd.trace_format import Trace
from fikitd.user_files import Kind, UserFiles

SUFFIX: Final = ".trace.gz"
MAX_FILE_BYTES: Final = 2**26
MAX_BYTES: Final = 2**27
KEPT_CLIENTS: Final = 4  # of those that are gone, the newest: a job may have thousands of short processes

_EVENT: Final = struct.Struct("<qqqIHBB")  # struct JournalEvent, fikitd/core/dispatcher/journal.hpp


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

    def client(story: Story) -> dict[str, Any]:
        """As much of it as a reader takes: the newest."""
        journal = story.journal["events"]
        kept = journal[-(trace_format.MAX_EVENTS // len(stories) * _EVENT.size) :]
        return {
            "pid": story.pid,
            "gpu": story.gpu,
            "lost": story.journal["lost"] + (len(journal) - len(kept)) // _EVENT.size,
            "kernels": {str(slot): name for slot, name in story.journal["kernels"].items()},
            "events": [row(event) for event in events_of(kept)],
        }

    about = {key: report[key] for key in ABOUT}
    return {
        "format": trace_format.FORMAT,
        "version": trace_format.VERSION,
        **about,
        "clients": list(map(client, stories)),
        "others": others,
    }


class TraceStore:
    """Stored traces. Reads and writes in the calling thread with its rights."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self._files = UserFiles(self.directory, Kind("trace", SUFFIX, MAX_FILE_BYTES, _parse, TraceError))

    def save(self, trace: Trace) -> Path:
        """Store a trace beside its job's report, replacing an earlier one of the same job."""
        data = gzip.compress(json.dumps(trace, separators=(",", ":")).encode(), compresslevel=6, mtime=0)
        return self._files.save(trace, data)

    def load(self, job: str, uid: int | None = None) -> Trace | None:
        """The trace of `job`, of user `uid`'s where several have one; None when there is none, TraceError when it cannot be read."""
        return self._files.load(job, uid)


def _parse(data: bytes) -> Trace:
    try:
        return trace_format.parse(_inflate(data))
    except zlib.error as error:
        raise ValueError(str(error)) from None


def _inflate(data: bytes) -> bytes:
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    plain = inflater.decompress(data, MAX_BYTES)
    if not inflater.eof:
        raise ValueError("it is cut off, or larger than any trace")
    return plain
