"""The jobs fikitd knows: which clients each has, what they did, and when its report is written."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from fikitd import priorities
from fikitd.held import Held, Owners
from fikitd.ledger import Entry, Ledger
from fikitd.memory import MemoryPage
from fikitd.peaks import Peaks
from fikitd.protocol import Device
from fikitd.pruning import Pruner
from fikitd.records import JobRecord, JobRecords
from fikitd.reports import FORMAT, VERSION, Report, ReportStore
from fikitd.storage import Storage, become, reason
from fikitd.totals import Stats, Totals
from fikitd.traces import JobTrace, Trace, TraceStore, document
from fikitd.untrusted import is_name

_log = logging.getLogger("fikitd")

StatsNow = Callable[[], Stats]
QUIET_S: Final = 2.0  # so long without a client, then the report so far is stored
MAX_WARNINGS: Final = 50
TRACE_TIMEOUT_S: Final = 5.0
ENDING_S: Final = 3.0  # so long the report of a job that is over waits for its profiles
LEAVING_S: Final = 1.0  # and that of any job, when fikitd leaves


def iso(moment_ns: int) -> str:
    """A CLOCK_REALTIME moment as the reports and profiles write it."""
    return datetime.fromtimestamp(moment_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_numbers = itertools.count(1)  # of jobs, one after the other


class Job:
    """One job over all its processes and steps. Only the event loop touches it."""

    def __init__(self, record: JobRecord, device: Device, policy: str, owners: Owners) -> None:
        self.record = record
        self.number = next(_numbers)
        self.trace = JobTrace()
        self._owners = owners
        self._held = Held()
        self.device = device  # the first client's
        self.policy = policy
        self.started_ns = record.started_ns or time.time_ns()
        self.last_seen_ns = time.time_ns()
        self._seen_s = time.monotonic()
        self.ended = False
        self.processes = 0
        self.unmanaged = 0
        self.profile_key = ""
        self.profile_found = False
        self.profile_stored: bool | None = None
        self.warnings: list[str] = []
        self.settled = asyncio.Event()  # no client connected and nothing of theirs still being saved
        self._settled_totals = Totals()
        self._clients: dict[int, StatsNow] = {}
        self._expected = 0  # clients of the fikitd before this one, not gone on with yet
        self._unsettled = 0  # clients of the fikitd before this one, which took no counters of theirs
        self._memory: dict[str, MemoryPage] = {}
        self._pids: set[int] = set()
        self._saving = 0
        self._most_kernels = -1
        self._peak_bytes = self._refused = 0  # before fikitd was restarted

    def entry(self) -> Entry:
        """What its ended clients did, for the ledger."""
        return Entry(
            started_ns=self.record.started_ns,
            last_seen_ns=self.last_seen_ns,
            device=self.device,
            totals=self._settled_totals,
            record=self.record.text(),
            running=len(self._pids),
            processes=self.processes - len(self._pids),
            unmanaged=self.unmanaged,
            peak_bytes=self.peak_memory_bytes,
            refused=self.refused,
            profile_key=self.profile_key,
            profile_found=self.profile_found,
            profile_stored=self.profile_stored,
            most_kernels=self._most_kernels,
            held=self._held.rows(),
            warnings=list(self.warnings),
        )

    def go_on_from(self, entry: Entry) -> None:
        """Its clients of an earlier fikitd, instead of none."""
        self.last_seen_ns, self._unsettled = entry.last_seen_ns, entry.running
        self.processes, self._settled_totals = entry.processes, entry.totals
        self.unmanaged = entry.unmanaged
        self._held = Held.from_rows(entry.held)
        self._peak_bytes, self._refused = entry.peak_bytes, entry.refused
        self.profile_key, self._most_kernels = entry.profile_key, entry.most_kernels
        self.profile_found, self.profile_stored = entry.profile_found, entry.profile_stored
        self.warnings = list(entry.warnings)
        self._changed()

    @property
    def pids(self) -> frozenset[int]:
        """Its processes that are clients."""
        return frozenset(self._pids)

    @property
    def quiet(self) -> bool:
        return not self._clients and not self._expected

    @property
    def quiet_s(self) -> float:
        """How long ago its last client went, whatever is done to the clock."""
        return time.monotonic() - self._seen_s

    def give_up_lost(self) -> None:
        """Say that nobody takes the counters of clients that the fikitd before this one did not leave to it."""
        lost, self._unsettled = self._unsettled - self._expected, 0
        if lost > 0:
            self.processes += lost
            who, what = ("a process", "it") if lost == 1 else (f"{lost} processes", "they")
            self.warn(f"fikitd ended under {who} of the job, and what {what} did then is not in its report")

    def expects(self, change: int) -> None:
        """One more (+1) client of the fikitd before this one is to come, or one less (-1)."""
        self._expected += change
        self._changed()

    def client_came(self, client_id: int, pid: int, stats_now: StatsNow) -> None:
        self._clients[client_id] = stats_now
        self._owners.note(client_id, self.record)
        if pid not in self._pids:  # a process with several GPUs has a client for each
            self._pids.add(pid)
            self.processes += 1
        self._changed()

    def client_went(self, client_id: int, pid: int, stats: Stats) -> None:
        del self._clients[client_id]
        self._pids.discard(pid)
        self._settled_totals = self._settled_totals.plus(stats)
        self._held = self._held.plus(stats["held"], self._owners)
        self.last_seen_ns, self._seen_s = time.time_ns(), time.monotonic()
        self._changed()

    def memory(self, uuid: str) -> MemoryPage:
        """The page that the job's processes on this GPU share; OSError when none can be made."""
        if uuid not in self._memory:
            self._memory[uuid] = MemoryPage(self.record.mem_bytes)
        return self._memory[uuid]

    def memory_of_before(self, uuid: str, kept: int) -> MemoryPage:
        """The same, of an earlier fikitd's clients: the page that they have."""
        if uuid not in self._memory:
            self._memory[uuid] = MemoryPage(self.record.mem_bytes, kept)
        return self._memory[uuid]

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
        self.warn(
            f"process {pid} uses the GPU around fikit: it is not scheduled, and what it does is not in this report"
        )

    def uses_profile(self, key: str, kernels: int = 0) -> None:
        """`key` is the profile of one client; the report names the one of the client with the most kernels."""
        if kernels > self._most_kernels:
            self.profile_key, self._most_kernels = key, kernels

    def saving(self, change: int) -> None:
        """One more (+1) or one less (-1) profile is on its way to storage."""
        self._saving += change
        self._changed()

    def warn(self, sentence: str) -> None:
        """Say something once for this job: in the log and in its report."""
        if sentence not in self.warnings and len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(sentence)
            _log.warning("job %s: %s", self.record.job, sentence)

    def report(self) -> Report:
        """The report record as of now (docs/design/contracts.md, "Report records")."""
        totals, held = self._settled_totals, self._held
        for stats_now in self._clients.values():
            stats = stats_now()
            totals, held = totals.plus(stats), held.plus(stats["held"], self._owners)
        over = self.ended or self.quiet
        return {
            "format": FORMAT,
            "version": VERSION,
            "job": self.record.job,
            "name": self.record.name,
            "uid": self.record.uid,
            "node": socket.gethostname().partition(".")[0],
            "state": "ended" if over else "running",
            "priority": self.record.priority,
            "priority_name": priorities.name(self.record.priority),
            "measured": self.record.measure,
            "policy": self.policy,
            "device": _device(self.device),
            "started": iso(self.started_ns),
            "ended": iso(self.last_seen_ns) if over else None,
            "processes": self.processes,
            "unmanaged": self.unmanaged,
            **totals.fields(),
            **held.fields(),
            "memory": {
                "limit_bytes": self.record.mem_bytes or None,
                "peak_bytes": self.peak_memory_bytes,
                "refused": self.refused,
            },
            "profile": {"key": self.profile_key, "found": self.profile_found, "stored": self.profile_stored},
            "warnings": list(self.warnings),
        }

    def _changed(self) -> None:
        if self._clients or self._expected or self._saving:
            self.settled.clear()
        else:
            self.settled.set()


def _device(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "uuid": device.uuid,
        "memory_bytes": device.memory_bytes,
        "emulated": device.emulated,
    }


class Jobs:
    """Every job with a client now or lately, by id."""

    def __init__(
        self,
        *,
        records: JobRecords,
        store: ReportStore,
        peaks: Peaks,
        storage: Storage,
        ledger: Ledger,
        policy: str,
        pruner: Pruner,
    ) -> None:
        self._pruner = pruner
        self._pruning: set[asyncio.Task[None]] = set()
        self._ledger = ledger
        self._records = records
        self._store = store
        self._peaks = peaks
        self._storage = storage
        self._policy = policy
        self._owners = Owners()
        self._traces = TraceStore(store.directory)
        self._jobs: dict[str, Job] = {}
        self._storing: dict[int, asyncio.Task[None]] = {}  # by job number, of jobs that went quiet

    def restore(self) -> None:
        """Go on with the jobs of an earlier fikitd; those that ended since, nobody noticing, get their reports."""
        for job_id, entry in self._ledger.entries():
            record = self._records.get(job_id)
            over = record is None and entry.record != ""
            if over:
                record = JobRecord.parse(entry.record)
            if record is None or record.started_ns != entry.started_ns:
                self._ledger.remove(job_id)
                continue
            job = self._jobs[job_id] = Job(record, entry.device, self._policy, self._owners)
            job.go_on_from(entry)
            job.ended = over
            self._went_quiet(job)

    def clients_are_back(self) -> None:
        """All clients that the fikitd before this one left are known."""
        for job in self.all():
            job.give_up_lost()

    def pids(self) -> set[int]:
        """Every process that is a client."""
        return {pid for job in self.all() for pid in job.pids}

    def gpus(self) -> set[str]:
        """The GPUs of jobs that have clients."""
        return {job.device.uuid for job in self.all() if not job.quiet}

    def client_came(self, job: Job) -> None:
        """A client's counters are the job's from now on."""
        self._note(job)

    def client_ended(self, job: Job) -> None:
        """One of its clients is gone, with its counters taken."""
        self._note(job)
        if job.quiet:
            self._went_quiet(job)

    def _note(self, job: Job) -> None:
        if self._jobs.get(job.record.job) is job:
            self._ledger.write(job.record.job, job.entry())

    async def finish(self) -> None:
        """fikitd leaves: store every report. The next one goes on with the jobs whose records are still there."""
        await asyncio.gather(*(self._close(job, LEAVING_S) for job in self.all()))
        for job in self.all():
            if self._records.get(job.record.job) is None:
                self._forget(job)

    def of(self, record: JobRecord, device: Device) -> Job:
        """The job of a record, made at its first client. A requeued job (same id, new record) begins anew."""
        job = self._jobs.get(record.job)
        if job is None or (job.quiet and job.record.started_ns != record.started_ns):
            job = self._jobs[record.job] = Job(record, device, self._policy, self._owners)
        job.record = record  # its first step has written the name into it
        return job

    def get(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

    def all(self) -> list[Job]:
        return list(self._jobs.values())

    def __bool__(self) -> bool:
        return bool(self._jobs)

    async def settle(self, job: Job, timeout_s: float) -> None:
        """Wait until the job's clients are gone and their profiles stored, but not longer than `timeout_s`."""
        try:
            await asyncio.wait_for(job.settled.wait(), timeout_s)
        except TimeoutError:
            return

    async def end(self, job_id: str) -> None:
        """The job is over: store its report and forget it. Clients still there stay managed and report at their end."""
        job = self._jobs.get(job_id)
        if job is None:
            return
        await self._close(job, ENDING_S)
        self._forget(job)
        task = asyncio.ensure_future(self._pruner.after(job.record))  # nobody waits for it
        self._pruning.add(task)
        task.add_done_callback(self._pruning.discard)

    async def _close(self, job: Job, timeout_s: float) -> None:
        await self.settle(job, timeout_s)
        job.ended = True
        await self.store(job)

    async def store(self, job: Job) -> None:
        """Write the job's report as far as it is known; a failure is one warning."""
        report = job.report()
        owner = (job.record.uid, job.record.gid)

        def save() -> None:
            self._store.prepare()
            if self._store.users_may_change():
                become(*owner)
                self._store.save(report)
            else:
                self._store.save(report, owner=owner)

        try:
            await self._storage.run(job.record.uid, save)
        except (OSError, ValueError) as error:
            job.warn(f"its report could not be stored in {self._store.directory}: {reason(error)}")
        await self._store_trace(job)
        await self._remember_peak(job)

    def trace(self, job: Job) -> Callable[[], Trace | None]:
        """What makes the job's trace as of now, None when it has none; may take a while, on any thread."""
        report, stories = job.report(), job.trace.stories()
        return lambda: document(report, stories, self._owners) if stories else None

    async def _store_trace(self, job: Job) -> None:
        """Beside its report and with the same rights; a failure is one warning."""
        owner = (job.record.uid, job.record.gid)
        make = self.trace(job)

        def save() -> None:
            if (trace := make()) is None:
                return
            if self._store.users_may_change():
                become(*owner)
                self._traces.save(trace)
            else:
                self._traces.save(trace, owner=owner)

        try:
            await self._storage.run(job.record.uid, save, TRACE_TIMEOUT_S)
        except (OSError, ValueError) as error:
            job.warn(f"its trace could not be stored in {self._traces.directory}: {reason(error)}")

    async def _remember_peak(self, job: Job) -> None:
        """For the next job of that name; a failure is one warning."""
        record, peak = job.record, job.peak_memory_bytes
        name = record.profile or record.name
        if not peak or not is_name(name):
            return

        def remember() -> None:
            self._peaks.prepare(record.uid, record.gid)
            become(record.uid, record.gid)
            self._peaks.remember(record.uid, name, record.job, peak)

        try:
            await self._storage.run(record.uid, remember)
        except OSError as error:
            job.warn(f"how much GPU memory it needed could not be stored: {reason(error)}")

    def _went_quiet(self, job: Job) -> None:
        """The job's last client is gone: store what is known, soon, in case nobody says `end`."""
        self._stop_storing(job)
        task = self._storing[job.number] = asyncio.ensure_future(self._store_when_still_quiet(job))

        def done(task: asyncio.Task[None]) -> None:
            if self._storing.get(job.number) is task:
                del self._storing[job.number]

        task.add_done_callback(done)

    def _stop_storing(self, job: Job) -> None:
        if task := self._storing.pop(job.number, None):
            task.cancel()

    async def _store_when_still_quiet(self, job: Job) -> None:
        seen_ns = job.last_seen_ns
        if not job.ended:
            await asyncio.sleep(QUIET_S)
        await self.settle(job, 5.0)
        if not job.quiet or job.last_seen_ns != seen_ns:
            return
        if not job.ended and self._jobs.get(job.record.job) is not job:
            return  # `end` came meanwhile and has stored it
        await self.store(job)
        if self._records.get(job.record.job) is None or self._jobs.get(job.record.job) is not job:
            self._forget(job)

    def sweep(self) -> None:
        """Forget quiet jobs whose record is gone although nobody said `end`; their reports are stored."""
        for job in self.all():
            if job.quiet and job.quiet_s > 10 * QUIET_S and self._records.get(job.record.job) is None:
                self._forget(job)

    def _forget(self, job: Job) -> None:
        """Nothing of it stays: a task that waits for more of the job would keep its memory pages open."""
        if self._jobs.get(job.record.job) is job:
            del self._jobs[job.record.job]
            self._ledger.remove(job.record.job)
            self._stop_storing(job)
        if job.quiet:
            job.close_memory()
