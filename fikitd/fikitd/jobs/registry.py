"""The jobs fikitd knows: which there are, when their reports are written, and when they are forgotten."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fikitd.api.held import Owners
from fikitd.api.memory_story import host_limit_bytes
from fikitd.base.protocol import Device
from fikitd.jobs.gpu_use import use_of
from fikitd.jobs.job import Job
from fikitd.jobs.job_files import JobFiles
from fikitd.jobs.ledger import Ledger
from fikitd.store.records import JobRecord, JobRecords

QUIET_S: Final = 2.0  # so long without a client, then the report so far is stored
ENDING_S: Final = 3.0  # so long the report of a job that is over waits for its profiles
LEAVING_S: Final = 1.0  # and that of any job, when fikitd leaves
SETTLING_S: Final = 5.0  # that of a quiet job, before it is stored as far as it is known
PROFILES_S: Final = 20.0  # and once more for profiles on a slow file system: longer than storing one may take
BACK_S: Final = 1.0  # longer for clients of the fikitd before this one, as long as their counters are not taken over
NOTING_S: Final = 1.0  # so long `end` waits for the ledger


class Jobs:
    """Every job with a client now or lately, by id."""

    def __init__(
        self, *, records: JobRecords, files: JobFiles, ledger: Ledger, policy: str, changes: asyncio.Event | None = None,
        ended: Callable[[Job], None] = lambda job: None, host_memory: Callable[[JobRecord], tuple[int, str | None]] = lambda record: (0, None),
    ) -> None:  # fmt: skip
        """host_memory: of a job, what fikitd.config.oversubscribe says. changes: is set whenever a client comes or goes. ended: hears of each job that is forgotten."""
        self._records = records
        self._files = files
        self._ledger = ledger
        self._policy = policy
        self._changes = changes or asyncio.Event()
        self._ended = ended
        self._host_memory = host_memory
        self.memory_on_host = asyncio.Event()  # a job came that may have memory there
        self._owners = Owners()
        self._jobs: dict[str, Job] = {}
        self._gave: Counter[str] = Counter()  # ns that a job which is there cost jobs that are forgotten
        self._storing: dict[int, asyncio.Task[None]] = {}  # by job number, of jobs that went quiet

    def restore(self) -> None:
        """Go on with the jobs of an earlier fikitd; those that ended since, nobody noticing, get their reports."""
        for job_id, entry in self._ledger.entries():
            record = self._records.get(job_id)
            over = record is None and entry.record != ""
            if over:
                record = JobRecord.parse(entry.record)
            if record is None or record.started_ns != entry.started_ns:
                self._ledger.discard(job_id)
                continue
            host_bytes = host_limit_bytes(entry.moved)
            given = self.host_bytes(record) if host_bytes is None else host_bytes
            job = self._jobs[job_id] = Job(record, entry.device, self._policy, self._owners, given)
            job.go_on_from(entry)
            job.ended = over
            if over:
                self._files.job_is_over(job, 0)  # whom it cost what was not noted
            self._went_quiet(job)

    def clients_are_back(self) -> None:
        """All clients that the fikitd before this one left are known."""
        for job in self.all():
            job.give_up_lost()
            job.taken.clear()

    def host_bytes(self, record: JobRecord) -> int:
        """How much of the job's memory may lie in host memory: what it was given at its first client, whatever fikit.toml says meanwhile."""
        job = self._begun(record)
        return self._host_memory(record)[0] if job is None else job.host_bytes

    def no_host_memory(self, record: JobRecord) -> str | None:
        """Why none of it may, where the job asked for some: the end of a sentence."""
        job = self._begun(record)
        return None if job is not None and job.host_bytes else self._host_memory(record)[1]

    def _begun(self, record: JobRecord) -> Job | None:
        job = self._jobs.get(record.job)
        return job if job is not None and job.record.started_ns == record.started_ns else None

    def pids(self) -> set[int]:
        """Every process that is a client."""
        return {pid for job in self.all() for pid in job.pids}

    def gpus(self) -> set[str]:
        """The GPUs of jobs that have clients."""
        return {job.device.uuid for job in self.all() if not job.quiet}

    def client_came(self, job: Job, place: str) -> None:
        """A client on a GPU, by the name under which it is shared: its counters are the job's from now on."""
        job.places[place] += 1
        self._meet(job)
        self._changes.set()
        self._note(job)

    def _meet(self, job: Job) -> None:
        """The job is beside those of its GPUs, with the priorities that all have now."""
        for other in self.all():
            if other is not job and any(count > 0 and other.places[place] > 0 for place, count in job.places.items()):
                job.beside_others |= other.record.priority <= job.record.priority
                other.beside_others |= job.record.priority <= other.record.priority

    def client_ended(self, job: Job, place: str, then: Callable[[], None]) -> None:
        """One of its clients is gone, with its counters taken. `then` follows, on whatever thread, when that is noted."""
        job.places[place] -= 1
        self._changes.set()
        self._note(job, then)
        if job.quiet:
            self._went_quiet(job)

    def _note(self, job: Job, then: Callable[[], None] | None = None) -> None:
        if self._jobs.get(job.record.job) is job:
            self._ledger.write(job.record.job, job.entry(), then)
        elif then is not None:
            then()

    async def store(self) -> None:
        """Every report as far as it is known: fikitd leaves, and its jobs and clients go on under the next one."""
        self._note_all()
        await asyncio.gather(*(self._files.store(job) for job in self.all()))

    async def finish(self) -> None:
        """fikitd leaves: store every report. The next one goes on with the jobs whose records are still there."""
        await asyncio.gather(*(self._close(job, LEAVING_S) for job in self.all()))
        for job in self.all():
            if self._records.gone(job.record.job):
                self._forget(job)

    def of(self, record: JobRecord, device: Device) -> Job:
        """The job of a record, made at its first client. A requeued job (same id, new record) begins anew."""
        job = self._jobs.get(record.job)
        if job is None or (job.quiet and job.record.started_ns != record.started_ns):
            if job is not None:
                self._ended(job)
            job = self._jobs[record.job] = Job(record, device, self._policy, self._owners, self.host_bytes(record))
            if job.memory_story:
                self.memory_on_host.set()
            if why := self.no_host_memory(record):
                job.warnings.append(f"--fikit-mem-host has no effect: {why}")
        job.record = self._records.in_force(record)  # its first step has written the name into it
        return job

    def look_at_memory(self) -> bool:
        """Note how much memory is on the GPUs, for jobs that may have some on the host; False: there is no such job."""
        seen = [job for job in self.all() if job.memory_story]
        for job in seen:
            job.look_at_memory(sum(other.bytes_on_gpu(job.device.uuid) for other in self.all() if other is not job))
        return bool(seen)

    def change_priority(self, record: JobRecord) -> None:
        """The job of this record has the record's priority from now on."""
        job = self._jobs.get(record.job)
        if job is not None and job.record.started_ns == record.started_ns:
            job.change_priority(record)
            self._meet(job)

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
            self._used_nothing(self._records.get(job_id))
            return
        await self._close(job, ENDING_S)
        given_ns = self._given_ns(job)
        self._forget(job)
        self._files.job_is_over(job, given_ns)
        if job.quiet and not job.settled.is_set():
            self._went_quiet(job)  # a profile is still on its way: whether it could be stored belongs into the report
        await self._ledger.settle(NOTING_S)

    def _used_nothing(self, record: JobRecord | None) -> None:
        """No program of a job of Slurm's came, although it had a GPU."""
        if record is not None and record.gpus and not record.pid:
            gpus = record.gpus.count(",") + 1
            whole = gpus if record.measure or gpus > 1 else 0  # only jobs of one GPU share it
            self._files.used(record, use_of(record, time.time(), shared=True, whole=whole))

    async def _close(self, job: Job, timeout_s: float) -> None:
        await self.settle(job, timeout_s)
        # Of these not even the counters so far are known, and that takes us moments, which a starved fikitd may not have had.
        with suppress(TimeoutError):
            await asyncio.wait_for(job.complete.wait(), BACK_S)
        job.ended = True
        await self._files.store(job)

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
        for patience_s in (SETTLING_S, PROFILES_S):
            await self.settle(job, patience_s)
            if not job.quiet or job.last_seen_ns != seen_ns:
                return
            now = self._jobs.get(job.record.job)
            if now is not job and (now is not None or not job.ended):
                return  # `end` came meanwhile and stores it, or its report is that of a later run of its id
            await self._files.store(job)
            if job.settled.is_set():
                break
        if self._records.gone(job.record.job) or self._jobs.get(job.record.job) is not job:
            self._forget(job)

    def sweep(self) -> None:
        """Forget quiet jobs whose record is gone although nobody said `end`; their reports are stored. Note the others' times."""
        self._note_all()
        for job in self.all():
            if job.quiet and job.quiet_s > 10 * QUIET_S and self._records.gone(job.record.job):
                self._forget(job)

    def _given_ns(self, job: Job) -> int:
        """What it cost other jobs, as far as these have said by now."""
        others = (cost for other in self.all() if other is not job for cost in other.costs())
        return self._gave[job.record.job] + sum(cost.ns for cost in others if cost.job == job.record.job)

    def _note_all(self) -> None:
        """Where the time of running clients went: a next fikitd knows nothing of it but what is noted."""
        for job in self.all():
            if not job.quiet:
                self._note(job)

    def _forget(self, job: Job) -> None:
        """Nothing of it stays: a task that waits for more of the job would keep its memory pages open."""
        if self._jobs.get(job.record.job) is job:
            del self._jobs[job.record.job]
            self._ended(job)
            del self._gave[job.record.job]
            for cost in job.costs():
                if cost.job in self._jobs:
                    self._gave[cost.job] += cost.ns
            self._ledger.remove(job.record.job)
            self._stop_storing(job)
        if job.quiet:
            job.close_memory()
