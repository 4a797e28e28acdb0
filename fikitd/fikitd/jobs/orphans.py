"""Jobs that Slurm has forgotten on this node: their record is there, no process of theirs is, and no epilog comes.

Slurm 22.05 runs none for a job that it starts again while it still cleans up after the failed run. What the epilog does is done
here then. Two things of a job live as long as the job: the slurmstepd of its batch step, on its first node, and the extern step, on
each of its nodes, where PrologFlags has Contain. Where one of them was and is gone, so is the job. Without Contain a further node
of a job, and an allocation of salloc or srun, have no process between two steps and are left alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from fikitd.jobs.identify import is_of_extern_step, job_of_process
from fikitd.jobs.registry import Jobs
from fikitd.store.records import JobRecord, JobRecords
from fikitd.store.storage import Storage

_log = logging.getLogger("fikitd")

LOOKS: Final = 4  # in the time after which a job is over
ROOT_UID: Final = 0  # whose place the reading of /proc takes in Storage
PROC_S: Final = 10.0

Run = tuple[str, int]  # of a job: its id, and when it began


def _run(record: JobRecord) -> Run:
    return record.job, record.started_ns


class Orphans:
    """Looks while jobs share; `after_s` 0 = never."""

    def __init__(
        self,
        *,
        jobs: Jobs,
        records: JobRecords,
        storage: Storage,
        proc: Path,
        after_s: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs, self._records, self._storage = jobs, records, storage
        self._proc, self._after_s, self._clock = proc, after_s, clock
        self._ids: dict[str, str] = {}  # of the jobs, by Slurm's names
        self._shown_by: dict[str, int] = {}  # the process that showed a job to live at the last look
        self._missed: dict[Run, float] = {}  # since when (monotonic) a run has no process
        self._extern: dict[Run, bool] = {}  # of runs of which a process was seen: whether they have an extern step here
        self._can_tell = False  # some process was seen to be a job's: in a container of fikitd's own none may be

    async def watch(self) -> None:
        """Until cancelled."""
        while self._after_s:
            await asyncio.sleep(self._after_s / LOOKS)
            if self._records.any():
                await self.look()

    async def look(self) -> None:
        """End the jobs without a process that had none at any look for `after_s`."""
        records = self._records.all()
        self._ids = {name: record.job for record in records for name in (record.job, record.sluid)}
        self._extern = {run: self._extern[run] for record in records if (run := _run(record)) in self._extern}
        new = {record.job: record for record in records if not record.batch and _run(record) not in self._extern}
        quiet = {record.job: record for record in records if self._may_be_over(record)}
        try:
            found = await self._storage.run(ROOT_UID, partial(self._with_extern, set(new)), PROC_S) if new else {}
            self._extern |= {_run(new[job]): extern for job, extern in found.items()}
            self._shown_by = await self._storage.run(ROOT_UID, partial(self._living, set(quiet)), PROC_S)
        except OSError:
            return  # unknown is not gone
        self._can_tell = self._can_tell or bool(self._shown_by) or bool(self._jobs)
        if not self._can_tell:
            return
        now = self._clock()
        gone = {_run(record): record for job, record in quiet.items() if job not in self._shown_by}
        self._missed = {run: self._missed.get(run, now) for run in gone}
        for run, record in gone.items():
            if now - self._missed[run] >= self._after_s:
                self._missed[run] = now  # a record that cannot be removed is tried again then
                await self._end(record)

    def _may_be_over(self, record: JobRecord) -> bool:
        job = self._jobs.get(record.job)
        lives_as_long = record.batch or self._extern.get(_run(record), False)
        return lives_as_long and (job is None or job.quiet)

    def _with_extern(self, wanted: Collection[str]) -> dict[str, bool]:
        """Of these jobs those that have a process, and whether one is of an extern step, which is there before all others."""
        found: dict[str, bool] = {}
        for pid in self._pids():
            if (job := self._job(pid)) in wanted and not found.get(job):
                found[job] = is_of_extern_step(self._proc, pid)
        return found

    def _job(self, pid: int) -> str:
        """The id of a process's job, as far as that has a record; "" for every other process."""
        name = job_of_process(self._proc, pid)
        return self._ids.get(name, "") if name else ""

    def _pids(self) -> Iterator[int]:
        return (int(path.name) for path in self._proc.iterdir() if path.name.isdigit())

    def _living(self, wanted: Collection[str]) -> dict[str, int]:
        """Of these jobs those that have a process, and which; the one of the last look is tried first."""
        found: dict[str, int] = {}
        known = [pid for job, pid in self._shown_by.items() if job in wanted]
        for pids in (known, self._pids()):
            for pid in pids:
                if len(found) == len(wanted):
                    return found
                if (job := self._job(pid)) in wanted:
                    found.setdefault(job, pid)
        return found

    async def _end(self, record: JobRecord) -> None:
        now = self._records.get(record.job)  # it may have been started again while we looked
        if now is None or now.started_ns != record.started_ns or not self._may_be_over(now):
            return
        try:
            self._records.remove(record.job)
        except OSError as error:
            _log.warning("job %s: it is over, and its record could not be removed: %s", record.job, error.strerror)
            return
        _log.info("job %s: none of its processes is left on this node, and Slurm ran no epilog: it is over", record.job)
        await self._jobs.end(record.job)
