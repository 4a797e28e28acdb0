"""What jobs have done so far, in run_dir: a fikitd that was killed or replaced goes on with their reports where they stood.

One small file per job, written when a client came or ended and removed with the job. Only the daemon writes here, and run_dir is a
local directory of its own: what cannot be written or read costs that job its earlier counters, nothing else. Files are written and
removed on a thread beside the event loop, one after the other, so a slow disk delays nobody's hello.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from fikitd.api import former_names
from fikitd.api.held import Held
from fikitd.api.job_time import JobTime
from fikitd.api.memory_story import MemoryStory
from fikitd.base.protocol import Device
from fikitd.base.threads import Thread
from fikitd.base.validation import is_name
from fikitd.jobs.totals import Totals
from fikitd.store.records import JobRecord
from fikitd.store.storage import SETTLE_LOOK_S, read_bounded

_log = logging.getLogger("fikitd")

DIRECTORY: Final = "ledger"
VERSION: Final = 1
MAX_BYTES: Final = 256 * 1024


@dataclass(frozen=True)
class Entry:
    """A job's clients that have ended, taken together, and how many had not.

    `started_ns`: of its record, so that a requeued job begins anew. `began_ns`: when that was by CLOCK_MONOTONIC, whatever is done to the other clock;
    None: a fikitd of before did not say. `record`: its text, for a job that ends while no fikitd runs.
    """

    started_ns: int
    last_seen_ns: int
    device: Device
    totals: Totals
    record: str = ""
    began_ns: int | None = None
    running: int = 0
    processes: int = 0
    unmanaged: int = 0
    beside_around: bool = False
    peak_bytes: int = 0
    refused: int = 0
    profile_key: str = ""
    profile_found: bool = False
    profile_stored: bool | None = None
    most_kernels: int = -1
    borrowed: list[Any] = field(default_factory=list)  # job.Borrowed, or nothing
    taken: list[int] = field(default_factory=list)  # clients in `totals` that whoever keeps descriptors may still have
    held: list[list[Any]] = field(default_factory=list)  # Held.rows()
    warnings: list[str] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)  # in which its programs shared the GPU
    time: dict[str, Any] = field(default_factory=dict)  # JobTime.rows()
    max_slowdown: float | None = None
    beside_others: bool = False
    moved: dict[str, Any] = field(default_factory=dict)  # MemoryStory.rows()


class Ledger:
    """The files of one run_dir."""

    def __init__(self, run_dir: Path) -> None:
        self._directory = run_dir / DIRECTORY
        self._lock = threading.Lock()
        self._due: dict[str, Entry | None] = {}  # by job, the latest only; None: to be removed
        self._then: dict[str, list[Callable[[], None]]] = {}  # by job, what waits for that
        self._thread: Thread | None = None  # that works off what is due; it has left, or lives

    def write(self, job: str, entry: Entry, then: Callable[[], None] | None = None) -> None:
        """Replace what is known of the job, soon; a failure is a line in the log. `then` follows on the ledger's thread."""
        self._put(job, entry, then)

    def remove(self, job: str) -> None:
        """Forget the job, soon."""
        self._put(job, None)

    def discard(self, job: str) -> None:
        """Forget the job at once, before anybody is served."""
        with suppress(OSError):
            (self._directory / job).unlink(missing_ok=True)

    async def settle(self, timeout_s: float) -> None:
        """Wait until all that was told has been done, but not longer than `timeout_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._working():
                    await asyncio.sleep(SETTLE_LOOK_S)

    def _put(self, job: str, entry: Entry | None, then: Callable[[], None] | None = None) -> None:
        with self._lock:
            self._due[job] = entry
            if then is not None:
                self._then.setdefault(job, []).append(then)
            if self._working():
                return
            self._thread = thread = Thread(self._work)
            try:
                thread.start()  # it waits for the lock
            except OSError:
                self._thread = None  # the system gives none
        if self._thread is None:
            self._work()  # here: the directory is a local one, and what is not noted is lost

    def _working(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._thread = None
                    return
                job = next(iter(self._due))
                entry, then = self._due.pop(job), self._then.pop(job, [])
            try:
                if entry is None:
                    self.discard(job)
                else:
                    self._store(job, entry)
                for each in then:
                    each()
            except Exception:  # one job's; the others' entries are still due
                _log.exception("job %s: a fault in fikitd while it was noted what the job did so far", job)

    def _store(self, job: str, entry: Entry) -> None:
        temporary = self._directory / f".{job}"
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            # Not synchronised: it is to outlive a process, not the node, with which the job's record ends too.
            document = {"version": VERSION, **asdict(entry)}
            document["totals"] = former_names.with_former("ledger", document["totals"])
            temporary.write_text(json.dumps(document))
            temporary.rename(self._directory / job)
        except OSError as error:
            _log.warning("job %s: what it did so far could not be noted: %s", job, error.strerror)

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """All that can be read, by job; the others are removed."""
        with suppress(FileNotFoundError):
            for path in sorted(self._directory.iterdir()):
                if path.name.startswith("."):
                    continue  # being written when fikitd was killed
                try:
                    yield path.name, _read(path)
                except (OSError, ValueError, TypeError, KeyError) as error:
                    _log.warning("job %s: what it did before fikitd was restarted is lost: %s", path.name, error)
                    self.discard(path.name)


def _read(path: Path) -> Entry:
    if not is_name(path.name):
        raise ValueError("not the name of a job")
    document: dict[str, Any] = json.loads(read_bounded(path, MAX_BYTES))
    if document.pop("version") != VERSION:
        raise ValueError("of another version of fikitd")
    Held.from_rows(document.get("held", []))  # or it cannot be used
    JobTime(0, measured=False).go_on_from(document.get("time", {}))
    MemoryStory(0).go_on_from(document.get("moved", {}))
    if document.get("record"):
        JobRecord.parse(document["record"])
    counted = former_names.renamed("ledger", document["totals"])
    counted.setdefault("gpu_time_at_most_ns", counted.get("span_ns", 0))  # notes of before have none
    device, totals = Device(**_known(Device, document["device"])), Totals(**_known(Totals, counted))
    return Entry(**{**_known(Entry, document), "device": device, "totals": totals})


def _known(kind: type[Entry | Device | Totals], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Without what a later fikitd counts besides: one that is taken back goes on with the rest."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in facts.items() if name in names}
