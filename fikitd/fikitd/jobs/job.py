"""One job over all its processes and steps: who of it is there, what they did, what its report says."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from fikitd.api import elapsed, trace_format, traces
from fikitd.api.elapsed import About
from fikitd.api.held import Cost, Held, Owners
from fikitd.api.job_time import Edges, JobTime, SpentNow
from fikitd.api.memory_story import MOST, MemoryStory, Moves
from fikitd.api.report_format import FORMAT, MIXED, SLICES, VERSION, Report
from fikitd.api.traces import JobTrace
from fikitd.base import priorities
from fikitd.base.protocol import Device
from fikitd.base.shares import GPUS, WARNINGS, NoPlace
from fikitd.base.validation import printable
from fikitd.gpus.memory import MemoryPage
from fikitd.jobs.ledger import Entry
from fikitd.jobs.totals import Stats, Totals
from fikitd.store.records import JobRecord
from fikitd.store.storage import Storage

_log = logging.getLogger("fikitd")

StatsNow = Callable[[], Stats]
MovesNow = Callable[[], Moves]
MAX_WARNING: Final = 4096  # characters of one


class Borrowed(NamedTuple):
    """How much of a program's profile is of a run with other arguments.

    `run`: its command. Of the `kernels` that the program launched, each counted once, its profile knew `known`, and `borrowed` of
    these from such runs.
    """

    run: str
    kernels: int
    known: int
    borrowed: int


def iso(moment_ns: int) -> str:
    """A CLOCK_REALTIME moment as the reports and profiles write it."""
    return datetime.fromtimestamp(moment_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_numbers = itertools.count(1)  # of jobs, one after the other


class Job:
    """Only the event loop touches it."""

    def __init__(self, record: JobRecord, device: Device, policy: str, owners: Owners, host_bytes: int = 0) -> None:
        self.record = record
        self.number = next(_numbers)
        self.trace = JobTrace()
        self._owners = owners
        self._held = Held()
        self.device = device  # the first client's
        self.policy = policy
        self.started_ns = record.started_ns or time.time_ns()
        self._began_ns = time.monotonic_ns() - max(time.time_ns() - self.started_ns, 0)  # the same moment
        self.last_seen_ns = time.time_ns()
        self._seen_s = time.monotonic()
        self.ended = False
        self.processes = 0
        self.unmanaged = 0
        self._around: set[int] = set()  # programs around fikit that used its GPU
        self._beside_around = False  # there was one
        self.suspected = False  # one may, as of the last look
        self.profile_key = ""
        self.profile_found = False
        self.profile_stored: bool | None = None
        self.borrowed: Borrowed | None = None
        self.time = JobTime(self.started_ns, measured=record.measure)
        self.max_slowdown: float | None = None  # that lower jobs may cost it; None: its policy promises nothing
        self.places: Counter[str] = Counter()  # its clients, by the names under which their GPUs are shared
        self.beside_others = False  # of its own importance, or above it
        self.warnings: list[str] = []
        self.auto: dict[str, Any] = {}  # why it has its priority, where fikitd chooses it (auto_priority)
        self.modes: set[str] = set()  # in which its programs shared the GPU
        self.settled = asyncio.Event()  # no client connected and nothing of theirs still being saved
        self._settled_totals = Totals()
        self._clients: dict[int, StatsNow] = {}
        self.complete = asyncio.Event()  # no client of the fikitd before this one is still to be gone on with
        self.complete.set()
        self._expected = 0  # clients of the fikitd before this one, not gone on with yet
        self._unsettled = 0  # clients of the fikitd before this one, which took no counters of theirs
        self.taken: set[int] = (
            set()
        )  # clients whose counters are ours, and which a next fikitd may be handed all the same
        self._memory: dict[str, MemoryPage] = {}
        self.host_bytes = host_bytes  # of its memory that may lie on the host
        self._moves: dict[int, MovesNow] = {}  # by client
        self.memory_story = MemoryStory(host_bytes) if host_bytes else None
        self._pids: set[int] = set()
        self._saving: set[asyncio.Future[None]] = set()  # profiles on their way to storage
        self._most_kernels = -1
        self._peak_bytes = self._refused = 0  # before fikitd was restarted

    def entry(self) -> Entry:
        """What its ended clients did, for the ledger."""
        return Entry(
            started_ns=self.record.started_ns,
            began_ns=self._began_ns,
            last_seen_ns=self.last_seen_ns,
            device=self.device,
            totals=self._settled_totals,
            record=self.record.text(),
            running=len(self._pids),
            processes=self.processes - len(self._pids),
            unmanaged=self.unmanaged,
            beside_around=self._beside_around,
            peak_bytes=self.peak_memory_bytes,
            refused=self.refused,
            profile_key=self.profile_key,
            profile_found=self.profile_found,
            profile_stored=self.profile_stored,
            most_kernels=self._most_kernels,
            borrowed=list(self.borrowed or ()),
            taken=sorted(self.taken),
            held=self._held.rows(),
            warnings=list(self.warnings),
            modes=sorted(self.modes),
            time=self.time.rows(self._now_ns()),
            max_slowdown=self.max_slowdown,
            beside_others=self.beside_others,
            moved=self.memory_story.rows() if self.memory_story else {},
        )

    def go_on_from(self, entry: Entry) -> None:
        """Its clients of an earlier fikitd, instead of none."""
        self.last_seen_ns, self._unsettled = entry.last_seen_ns, entry.running
        if type(entry.began_ns) is int and entry.began_ns <= time.monotonic_ns():
            self._began_ns = entry.began_ns
        self.processes, self._settled_totals = entry.processes, entry.totals
        self.taken = set(entry.taken)
        self.unmanaged = entry.unmanaged
        self._beside_around = bool(entry.beside_around)
        self._held = Held.from_rows(entry.held)
        self._peak_bytes, self._refused = entry.peak_bytes, entry.refused
        self.profile_key, self._most_kernels = entry.profile_key, entry.most_kernels
        self.profile_found, self.profile_stored = entry.profile_found, entry.profile_stored
        self.borrowed = Borrowed(*entry.borrowed) if entry.borrowed else None
        self.warnings = list(entry.warnings)
        self.modes = set(entry.modes)
        self.time.go_on_from(entry.time)
        self.max_slowdown, self.beside_others = entry.max_slowdown, entry.beside_others
        if self.memory_story:
            self.memory_story.go_on_from(entry.moved)
        self._changed()

    @property
    def pids(self) -> frozenset[int]:
        """Its processes that are clients."""
        return frozenset(self._pids)

    @property
    def quiet(self) -> bool:
        return not self._clients and not self._expected

    def _now_ns(self) -> int:
        """So long after its start, on a clock that nobody sets."""
        return self.started_ns + time.monotonic_ns() - self._began_ns

    @property
    def quiet_s(self) -> float:
        """How long ago its last client went, whatever is done to the clock."""
        return time.monotonic() - self._seen_s

    def give_up_lost(self) -> None:
        """Say that nobody takes the counters of clients that the fikitd before this one did not leave to it."""
        lost, self._unsettled = self._unsettled - self._expected, 0
        if not self._expected:
            self.time.give_up()
        if lost > 0:
            self.processes += lost
            who, what = ("a process", "it") if lost == 1 else (f"{lost} processes", "they")
            self.warn(f"fikitd ended under {who} of the job, and what {what} did then is not in its report")

    def expects(self, change: int) -> None:
        """One more (+1) client of the fikitd before this one is to come, or one less (-1)."""
        self._expected += change
        if self._expected:
            self.complete.clear()
        else:
            self.complete.set()
        self._changed()

    def client_came(
        self,
        client_id: int,
        pid: int,
        stats_now: StatsNow,
        spent_now: SpentNow | None = None,
        moves_now: MovesNow | None = None,
    ) -> None:
        """`spent_now`, `moves_now`: the parts of `stats_now` that say where its time went and what was moved of its memory, where these can be
        had for less."""
        self._clients[client_id] = stats_now
        self._moves[client_id] = moves_now or (lambda: stats_now()["moves"])
        self.time.came(client_id, spent_now or (lambda: stats_now()["spent"]), self._now_ns())
        self._owners.note(client_id, self.record)
        if pid not in self._pids:  # a process with several GPUs has a client for each
            self._pids.add(pid)
            self.processes += 1
        self._changed()

    def change_priority(self, record: JobRecord) -> None:
        """Waits for it are waits for that from now on; what others have waited for it before stays as it was noted."""
        before, now = priorities.name(self.record.priority), priorities.name(record.priority)
        if not record.automatic:  # what fikitd chooses may be another one soon
            self.warn(f"its priority was {before} until {iso(time.time_ns())}, and {now} from then on")
        self.record = record
        for client_id in self._clients:
            self._owners.note(client_id, record)

    def ran_in(self, mode: str) -> None:
        """One of its programs shares the GPU in this device mode."""
        self.modes.add(mode)

    @property
    def device_mode(self) -> str:
        """In which mode its programs shared the GPU; `mixed` where not all in one."""
        return next(iter(self.modes)) if len(self.modes) == 1 else MIXED if self.modes else SLICES

    def client_went(self, client_id: int, pid: int, stats: Stats) -> Edges:
        """How long its start and its end took, for its profile."""
        self._clients.pop(client_id, None)
        self._moves.pop(client_id, None)
        if self.memory_story:
            self.memory_story.went(stats["moves"])
        edges = self.time.went(client_id, stats["spent"], self._now_ns())
        self._pids.discard(pid)
        self._settled_totals = self._settled_totals.plus(stats)
        self._held = self._held.plus(stats["held"], self._owners)
        self.last_seen_ns, self._seen_s = time.time_ns(), time.monotonic()
        self._changed()
        return edges

    @property
    def memory_limit_bytes(self) -> int | None:
        """What its processes may hold on a GPU, and on the host where it has memory there; None: no limit."""
        return self.record.mem_bytes + self.host_bytes or None

    def memory(self, uuid: str) -> MemoryPage:
        """The page that the job's processes on this GPU share; OSError when none can be made."""
        if uuid not in self._memory:
            if len(self._memory) >= GPUS.job:
                raise NoPlace(f"job {self.record.job} has programs on {GPUS.job} GPUs already, which is the limit")
            self._memory[uuid] = MemoryPage(self.record.mem_bytes, host_bytes=self.host_bytes)
        return self._memory[uuid]

    def memory_of_before(self, uuid: str, kept: int) -> MemoryPage:
        """The same, of an earlier fikitd's clients: the page that they have."""
        if uuid not in self._memory:
            self._memory[uuid] = MemoryPage(self.record.mem_bytes, kept)
        return self._memory[uuid]

    def bytes_on_gpu(self, uuid: str) -> int:
        """What of its memory is on this GPU now, as its processes say, and no more than the GPU has: they do not see what the driver takes away."""
        page = self._memory.get(uuid)
        if page is None:
            return 0
        if self.memory_story is None:
            return page.held_bytes
        said = page.plain_bytes + sum(int(moves()["resident_bytes"]) for moves in self._moves.values())
        return min(said, self._gpu_bytes)

    @property
    def memory_plan(self) -> dict[str, Any] | None:
        """By which its memory moves now (`memory_plan` of a client in the answer to `node`); None: by none."""
        return self.memory_story.plan_now() if self.memory_story else None

    def look_at_memory(self, others_bytes: int) -> None:
        """Note how much of its memory is on the GPU now, beside so much of other jobs'. Only of a job that may have some on the host."""
        if self.memory_story and (page := self._memory.get(self.device.uuid)):
            t_s = max(time.monotonic_ns() - self._began_ns, 0) / 1e9
            there = [moves() for moves in self._moves.values()]
            self.memory_story.look(t_s, page.plain_bytes, others_bytes, there, self._gpu_bytes)

    @property
    def _gpu_bytes(self) -> int:
        return self.device.memory_bytes or MOST

    def close_memory(self) -> None:
        """Nobody of the job is there any more: its pages go now, whoever still holds the job (an error's traceback does)."""
        self._peak_bytes, self._refused = self.peak_memory_bytes, self.refused
        self._memory.clear()

    @property
    def peak_memory_bytes(self) -> int:
        """Most that the job's processes held at a time on one GPU."""
        return max([self._peak_bytes, *(page.peak_bytes for page in self._memory.values())])

    @property
    def refused(self) -> int:
        """How many requests for memory were beyond the job's limit."""
        return self._refused + sum(page.refused for page in self._memory.values())

    def unmanaged_process(self, pid: int) -> None:
        """One of its processes uses the GPU without us."""
        self.unmanaged += 1
        self._around.add(pid)
        self.warn(
            f"process {pid} uses the GPU around fikit: it is not scheduled, and what it does is not in this report"
        )

    def was_beside(self, pid: int) -> None:
        """This program, of whichever job or none, uses its GPU around fikit: what that costs the job is in no figure of the others."""
        self._beside_around = True
        if pid in self._around:
            return
        self._around.add(pid)
        self.warn(
            f"process {pid} used its GPU around fikit: nobody knows what that cost this job, and its times teach no profile"
        )

    @property
    def beside_around(self) -> bool:
        """A program around fikit used its GPU, or as of the last look may do so."""
        return self._beside_around or self.suspected

    def uses_profile(self, key: str, kernels: int = 0, borrowed: Borrowed | None = None) -> None:
        """`key` is the profile of one client; the report names the one of the client with the most kernels."""
        if kernels > self._most_kernels:
            self.profile_key, self._most_kernels, self.borrowed = key, kernels, borrowed

    def saves(self, task: asyncio.Future[None]) -> None:
        """`task` brings a profile to storage: the job is not settled before it has ended, in whatever way."""

        def ended(task: asyncio.Future[None]) -> None:
            self._saving.discard(task)
            self._changed()

        self._saving.add(task)
        task.add_done_callback(ended)
        self._changed()

    def warn(self, sentence: str) -> None:
        """Say something once for this job: in the log and in its report. Names of files and reasons in it may be anything."""
        sentence = printable(sentence)[:MAX_WARNING]
        if sentence not in self.warnings and len(self.warnings) < WARNINGS:
            self.warnings.append(sentence)
            _log.warning("job %s: %s", self.record.job, sentence, extra={"uid": self.record.uid})

    def about(self) -> dict[str, Any]:
        """What its report and its trace begin with."""
        return {
            "job": self.record.job,
            "name": self.record.name,
            "uid": self.record.uid,
            "node": socket.gethostname().partition(".")[0],
            "state": "ended" if self.ended or self.quiet else "running",
            "priority": self.record.priority,
            "policy": self.policy,
            "device": _device(self.device),
            "device_mode": self.device_mode,
        }

    def report(self) -> Report:
        """The report record as of now (docs/design/contracts.md, "Report records")."""
        totals, held = self._so_far()
        over = self.ended or self.quiet
        return {
            "format": FORMAT,
            "version": VERSION,
            **self.about(),
            "array": self.record.array,
            "het": self.record.het,
            "priority_name": priorities.name(self.record.priority),
            "auto": self.auto_said(),
            "measured": self.record.measure,
            "started": iso(self.started_ns),
            "ended": iso(self.last_seen_ns) if over else None,
            "processes": self.processes,
            "unmanaged": self.unmanaged,
            **totals.fields(),
            **held.fields(),
            **self._time_fields(totals, held),
            "memory": {
                "limit_bytes": self.memory_limit_bytes,
                "peak_bytes": self.peak_memory_bytes,
                "refused": self.refused,
                **self._moved(),
            },
            "profile": {
                "key": self.profile_key,
                "found": self.profile_found,
                "stored": self.profile_stored,
                "borrowed": self.borrowed._asdict() if self.borrowed else None,
            },
            "warnings": list(self.warnings),
        }

    def _moved(self) -> dict[str, Any]:
        """Nothing of a job whose memory stays on the GPU."""
        if self.memory_story is None:
            return {}
        moved = {"moved": self.memory_story.fields([moves() for moves in self._moves.values()])}
        plan = self.memory_story.plan_fields()
        return moved if plan is None else {**moved, "plan": plan}

    def auto_said(self) -> dict[str, Any] | None:
        """Its range and why it has its priority; None where it has no range."""
        if (allowed := self.record.auto) is None:
            return None
        chosen = {"state": "alone", "rest_s": None, "runs": 0, **self.auto}
        if not self.record.automatic:
            chosen["state"] = "user"
        return {"highest": allowed.highest, "lowest": allowed.lowest, **chosen}

    def costs(self) -> list[Cost]:
        """What waits and delays cost it so far, by whom."""
        return self._so_far()[1].costs()

    def _so_far(self) -> tuple[Totals, Held]:
        totals, held = self._settled_totals, self._held
        for stats_now in self._clients.values():
            stats = stats_now()
            totals, held = totals.plus(stats, gone=False), held.plus(stats["held"], self._owners)
        return totals, held

    def _time_fields(self, totals: Totals, held: Held) -> dict[str, Any]:
        """Where its time went, and what follows from it."""
        about = About(
            priority=self.record.priority,
            measured=self.record.measure,
            kernels=totals.kernels,
            max_slowdown=self.max_slowdown,
            beside_others=self.beside_others,
            beside_around=self.beside_around,
        )
        return elapsed.fields(self.time.sums(), held.costs(), about)

    def time_so_far(self) -> dict[str, Any]:
        """Where its time went so far, as its report says it."""
        return self._time_fields(*self._so_far())

    async def trace_so_far(self, storage: Storage) -> AsyncIterator[bytes] | None:
        """The blocks of its trace (`traces.pieces`), each taken from its dispatcher when it is asked for; None: it has none."""
        blocks = self._blocks(storage)
        first = await anext(blocks, None)
        return None if first is None else _with(first, blocks)

    async def _blocks(self, storage: Storage) -> AsyncIterator[bytes]:
        begun = False
        tellers = self.trace.tellers()
        for tell in tellers:
            try:
                story = await storage.run(self.record.uid, tell)  # it waits for the dispatcher, which others need too
            except (IndexError, KeyError):
                continue  # its client went meanwhile
            if not story.journal["events"]:
                continue
            if not begun:
                yield traces.begin(self.about())
            begun = True
            yield traces.block(story, self.record.uid, self._owners, trace_format.MAX_EVENTS // len(tellers))

    def _changed(self) -> None:
        if self._clients or self._expected or self._saving:
            self.settled.clear()
        else:
            self.settled.set()


async def _with(first: bytes, others: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for other in others:
        yield other


def _device(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "uuid": device.uuid,
        "memory_bytes": device.memory_bytes,
        "emulated": device.emulated,
    }
