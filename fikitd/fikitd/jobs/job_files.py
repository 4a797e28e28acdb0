"""What stays of a job on storage: its report, its trace, how much memory it needed. And what no longer stays because of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from typing import Final

from fikitd.api import outcomes
from fikitd.api.outcomes import Outcome, Spool
from fikitd.api.reports import NOT_STORED, ReportStore
from fikitd.api.traces import TraceStore
from fikitd.api.uses import Use, UseStore
from fikitd.jobs.admin_comment import AdminComments
from fikitd.jobs.job import Job
from fikitd.profiles.memory_history import NAMELESS_BATCH
from fikitd.profiles.profile_store import ProfileStore
from fikitd.store import own_directory
from fikitd.store.records import JobRecord
from fikitd.store.storage import Storage, become, reason
from fikitd.workers.pool import Call, Rights
from fikitd.workers.retention import Pruner

_log = logging.getLogger("fikitd")

TRACE_TIMEOUT_S: Final = 5.0
PEAK_TIMEOUT_S: Final = 1.5


class JobFiles:
    """Written with the rights of the job's user; a failure is a warning of the job, never more."""

    def __init__(
        self,
        *,
        reports: ReportStore,
        store: ProfileStore,
        storage: Storage,
        work: Call,
        pruner: Pruner,
        comments: AdminComments,
        spool: Spool,
    ) -> None:
        self._reports = reports
        self._traces = TraceStore(reports.directory)
        self._uses = UseStore(reports.directory)
        self._store = store
        self._storage = storage
        self._work = work
        self._pruner = pruner
        self._comments = comments
        self._spool = spool
        self._pruning: set[asyncio.Task[None]] = set()

    def job_is_over(self, job: Job, given_ns: int) -> None:
        """Note what the controller may know, and remove what the site does not keep of its user's; nobody waits for it.

        `given_ns`: what the job cost others.
        """
        report = job.report()
        outcome = outcomes.of_report(report, given_ns / 1e9, job.last_seen_ns // 10**9)
        self._comments.note(report, outcome)
        for work in (self._pruner.after(job.record), *([self._spool_outcome(job, outcome)] if outcome else [])):
            self._begin(work)

    def used(self, record: JobRecord, use: Use) -> None:
        """Note how busy the GPU was of a job whose launches fikit did not see; nobody waits for it. A job that has a report has that."""
        self._begin(self._store_use(record, use))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._pruning.add(task)
        task.add_done_callback(self._pruning.discard)

    async def _store_use(self, record: JobRecord, use: Use) -> None:
        def save() -> None:
            own_directory.prepare(self._reports.directory, record.uid, record.gid)
            become(record.uid, record.gid)
            if not self._reports.has(record.job, record.uid):
                self._uses.save(use)

        try:
            await self._storage.run(record.uid, save)
        except (OSError, ValueError) as error:
            _log.warning(
                "job %s: how busy its GPU was cannot be stored: %s",
                record.job,
                reason(error),
                extra={"uid": record.uid},
            )
        await self._pruner.after(record)

    async def _spool_outcome(self, job: Job, outcome: Outcome) -> None:
        try:
            await self._storage.run(job.record.uid, partial(self._spool.add, outcome))
        except OSError as error:
            _log.warning("job %s: what it used is not told to the controller: %s", job.record.job, reason(error))

    async def store(self, job: Job) -> None:
        """Write the job's report as far as it is known; a failure is one warning."""
        report = job.report()
        uid, gid = job.record.uid, job.record.gid

        def save() -> None:
            own_directory.prepare(self._reports.directory, uid, gid)
            become(uid, gid)
            self._reports.save(report)

        try:
            await self._storage.run(job.record.uid, save)
        except (OSError, ValueError) as error:
            job.warn(f"{NOT_STORED} in {self._reports.directory}: {reason(error)}")
        await self._store_trace(job)
        await self._remember_peak(job)

    async def _store_trace(self, job: Job) -> None:
        """Beside its report and with the same rights; a failure is one warning."""
        try:
            blocks = await job.trace_so_far(self._storage)
            if blocks is not None:
                await self._write_trace(job.record, blocks)
        except (OSError, ValueError) as error:
            job.warn(f"its trace could not be stored in {self._traces.directory}: {reason(error)}")

    async def _write_trace(self, record: JobRecord, blocks: AsyncIterator[bytes]) -> None:
        rights, directory = Rights(record.uid, record.gid), self._traces.directory
        await self._storage.run(record.uid, partial(own_directory.prepare, directory, *rights))
        arguments = {"directory": str(directory), "about": {"job": record.job, "uid": record.uid}}
        await self._work(rights, "store_trace", arguments, chunks=blocks, timeout_s=TRACE_TIMEOUT_S)

    async def _remember_peak(self, job: Job) -> None:
        """For the next job of that name; a failure is one warning."""
        record, peak = job.record, job.peak_memory_bytes
        # Slurm's name for a script on standard input, which alone is in none of the job's variables.
        name = record.profile or record.name or (NAMELESS_BATCH if record.batch else "")
        if not peak or not name:
            return

        directory = str(self._store.directory)
        arguments = {"directory": directory, "uid": record.uid, "name": name, "job": record.job, "peak_bytes": peak}
        try:
            await self._storage.run(record.uid, partial(self._store.prepare, record.uid, record.gid))
            await self._work(Rights(record.uid, record.gid), "remember_peak", arguments, timeout_s=PEAK_TIMEOUT_S)
        except (OSError, ValueError) as error:
            job.warn(f"how much GPU memory it needed could not be stored: {reason(error)}")
