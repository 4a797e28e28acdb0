"""Traces: the newest events of a job's clients, kept by the dispatcher, stored beside the report as <job>.trace.gz.

Only what concerns the job itself is in it. Others that held it are named by their priority, and by their job id where they
are the same user's; their kernels never are.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from fikitd._core import JOURNAL_KINDS, REASONS
from fikitd.api import trace_format
from fikitd.api.held import Owners
from fikitd.api.trace_format import Trace
from fikitd.store.user_files import Kind, UserFiles

SUFFIX: Final = ".trace.gz"
MAX_FILE_BYTES: Final = 2**26
MAX_BYTES: Final = 2**27
KEPT_CLIENTS: Final = 4  # of those that are gone, the newest: a job may have thousands of short processes

ROWS: Final = 256  # events in a piece

_LENGTH: Final = struct.Struct("<I")
_EVENT: Final = struct.Struct("<qqqIHBB")  # struct JournalEvent, fikitd/core/tracking/accounting/journal.hpp


class TraceError(Exception):
    """A stored trace that cannot be used; one sentence names the file."""


class Event(NamedTuple):
    """One event; meanings in fikitd/core/tracking/accounting/journal.hpp. Times in ns of CLOCK_MONOTONIC."""

    t_ns: int
    length_ns: int
    predicted_ns: int
    by: int
    slot: int
    kind: str
    reason: str


def events_of(journal: bytes) -> Iterator[Event]:
    """The events of a dispatcher's journal, in the order in which they became known."""
    for t_ns, length_ns, predicted_ns, by, slot, kind, why in _EVENT.iter_unpack(journal):
        yield Event(t_ns, length_ns, predicted_ns, by, slot, JOURNAL_KINDS[kind], REASONS[why])


class Story(NamedTuple):
    """What a dispatcher remembers of one client."""

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
        """The client is about to leave its dispatcher, or has left it."""
        self._live.pop(number, None)

    def keep(self, story: Story) -> None:
        """Of a client that is gone."""
        if story.journal["events"]:
            self._gone.append(story)

    def tellers(self) -> list[Callable[[], Story]]:
        """What gives one story each, with work for the dispatcher and of some length; an error for a client that is gone by then."""
        return [*(partial(_same, story) for story in self._gone), *self._live.values()]


def _same(story: Story) -> Story:
    return story


# A trace on its way to the process that writes it as JSON: a block about the job, then one for each story, as they become known.


def begin(about: Mapping[str, Any]) -> bytes:
    """The first block: what the trace is about (`Job.about`)."""
    return json.dumps({"format": trace_format.FORMAT, "version": trace_format.VERSION, **about}).encode()


def block(story: Story, uid: int, owners: Owners, most: int = trace_format.MAX_EVENTS) -> bytes:
    """One story's, of its newest events so many. What it says of others is what user `uid` may know."""
    journal = story.journal
    events = journal["events"][-most * _EVENT.size :]
    head = {
        "pid": story.pid,
        "gpu": story.gpu,
        "lost": journal["lost"] + (len(journal["events"]) - len(events)) // _EVENT.size,
        "events": len(events),
        "others": {str(by): owners.seen_by(by, uid) for by in journal["by"]},
    }
    data = json.dumps(head).encode()
    return b"".join((_LENGTH.pack(len(data)), data, events, journal["kernels"]))


def pieces(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The trace as it is stored and sent, piece by piece, so that nobody ever has the whole of it."""
    yield next(blocks).removesuffix(b"}") + b', "clients": ['
    others: dict[str, Any] = {}
    separator = b""
    for data in blocks:
        (length,) = _LENGTH.unpack_from(data)
        events = _LENGTH.size + length
        head = json.loads(data[_LENGTH.size : events])
        kernels = events + head.pop("events")
        others.update(head.pop("others"))
        names = (line.partition(" ") for line in data[kernels:].decode().split("\n") if line)
        head["kernels"] = {slot: name for slot, _, name in names}
        yield separator + json.dumps(head).encode().removesuffix(b"}") + b', "events": ['
        yield from _rows(data[events:kernels])
        yield b"]}"
        separator = b", "
    yield b'], "others": ' + json.dumps(others).encode() + b"}"


def _rows(journal: bytes) -> Iterator[bytes]:
    rows, separator = [], b""
    for event in events_of(journal):
        by = event.by if event.kind == "wait" else None
        rows.append([event.kind, event.t_ns, event.length_ns, event.predicted_ns, event.slot, event.reason, by])
        if len(rows) == ROWS:
            yield separator + json.dumps(rows, separators=(",", ":")).encode()[1:-1]
            rows, separator = [], b","
    if rows:
        yield separator + json.dumps(rows, separators=(",", ":")).encode()[1:-1]


class TraceStore:
    """Stored traces. Reads and writes in the calling thread with its rights."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self._files = UserFiles(self.directory, Kind("trace", SUFFIX, MAX_FILE_BYTES, _parse, TraceError))

    def save(self, about: Mapping[str, Any], text: Iterable[bytes]) -> Path:
        """Store a trace, which comes in pieces, beside its job's report, replacing an earlier one of the same job."""
        compressor = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        data = b"".join([*map(compressor.compress, text), compressor.flush()])
        return self._files.save({"job": about["job"], "uid": about["uid"]}, data)

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
