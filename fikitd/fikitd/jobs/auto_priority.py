"""--fikit-priority=auto: who of the jobs on a GPU goes first is chosen while they run, in the way of `fikit priority`.

Every few seconds, and when a job comes or goes. A job whose priority somebody has changed by `fikit priority` keeps that one, until
`fikit priority JOB auto`. The choice itself is fikitd.jobs.auto_levels'; here is what it goes by, and what is done.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from fikitd.api import elapsed
from fikitd.api.report_format import MPS, OTHER_MPS
from fikitd.base.priorities import Range
from fikitd.gpus.placement import Device, Precedence, Priorities, Slowdowns
from fikitd.history import JobHistory, SpoolHistory
from fikitd.jobs import auto_levels
from fikitd.jobs.auto_levels import Candidate, Decision
from fikitd.jobs.job import Job
from fikitd.jobs.registry import Jobs
from fikitd.store.changed_priorities import AUTO
from fikitd.store.records import JobRecord, JobRecords
from fikitd.store.storage import Storage, reason

_log = logging.getLogger("fikitd")

INTERVAL_S: Final = 5.0
PAUSE_S: Final = 0.2  # however many clients come and go
READ_S: Final = 5.0  # so long a decision waits for the history's files; then it goes by what was read before
BUSY: Final = 0.5  # of a job of which nothing is known
_SLICES, _OVERLAP = Slowdowns(0, Device.SLICES), Slowdowns(0, Device.MPS)


@dataclass
class _Standing:
    """A job between two decisions."""

    lost_s: float = 0.0  # to other jobs, since it began
    waited_s: float = 0.0  # of it below others, since it was first or had its turn


@dataclass
class _Gpu:
    order: list[int] = field(default_factory=list)  # numbers of its jobs
    precedence: Precedence = field(default_factory=Precedence)
    chosen_s: float = 0.0


class AutoPriorities:
    """Only the event loop touches it."""

    def __init__(
        self,
        *,
        jobs: Jobs,
        records: JobRecords,
        history: SpoolHistory,
        change_priority: Callable[[JobRecord], None],
        changes: asyncio.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """change_priority: of the clients of a record's job. changes: set whenever a client comes or goes."""
        self._jobs, self._records = jobs, records
        self._history = history
        self._storage = Storage(limit=1)  # of its own: files that hang take nobody else's place, and one thread at most
        self._change_priority, self._changes, self._clock = change_priority, changes, clock
        self._gpus: dict[str, _Gpu] = {}
        self._standing: dict[int, _Standing] = {}  # by number of the job

    async def watch(self) -> None:
        """Decide, for as long as fikitd runs. Without such a job it sleeps until one comes."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL_S if self._gpus else None):
                    await self._changes.wait()
            self._changes.clear()
            if self._gpus or self._candidates():
                await self.decide()
                await asyncio.sleep(PAUSE_S)

    async def decide(self) -> None:
        """Once, for all GPUs."""
        history = self._history.latest
        with suppress(OSError):  # storage that does not answer: what was read before counts
            history = await self._storage.run(os.geteuid(), self._history.history, READ_S)
        by_gpu = self._candidates()
        self._gpus = {place: self._gpus.get(place, _Gpu()) for place in by_gpu}
        numbers = {job.number for jobs in by_gpu.values() for job in jobs}
        self._standing = {number: self._standing.get(number, _Standing()) for number in numbers}
        for place, jobs in by_gpu.items():
            self._decide_on(self._gpus[place], jobs, history)

    def _candidates(self) -> dict[str, list[Job]]:
        """By the name under which a GPU is shared; a job with clients on several counts on the first."""
        found: dict[str, list[Job]] = {}
        for job in self._jobs.all():
            here = sorted(place for place, count in job.places.items() if count > 0)
            if here and job.record.automatic:
                found.setdefault(here[0], []).append(job)
        return found

    def _decide_on(self, gpu: _Gpu, jobs: list[Job], history: JobHistory) -> None:
        now_s = self._clock()
        last = gpu.precedence.later(now_s - gpu.chosen_s)
        known = {number: at for at, number in enumerate(gpu.order)}
        jobs = sorted(jobs, key=lambda job: (known.get(job.number, len(known)), job.record.priority, job.number))
        self._reckon(gpu, jobs)
        candidates, told = [], []
        for job in jobs:
            candidate, about = self._candidate(job, history, is_new=job.number not in known)
            candidates.append(candidate)
            told.append(about)
        overlap = all(job.device_mode in (MPS, OTHER_MPS) for job in jobs)
        decision = auto_levels.decide(_OVERLAP if overlap else _SLICES, candidates, last)
        if decision.state == "turn" and last.turn_s == 0:
            for job in jobs:
                self._standing[job.number].waited_s = 0.0
        gpu.order = [jobs[at].number for at in decision.order]
        gpu.precedence, gpu.chosen_s = decision.precedence, now_s
        self._apply(jobs, decision, told)

    def _reckon(self, gpu: _Gpu, jobs: list[Job]) -> None:
        """What each has lost to others since the last decision counts for its turn where it was below one."""
        ordered = gpu.precedence.priorities is Priorities.ORDERED
        for job in jobs:
            sums, standing = job.time.sums(), self._standing[job.number]
            lost_s = (sums.waited + sums.delayed) / 1e9
            if gpu.order[:1] == [job.number]:
                standing.waited_s = 0.0
            elif ordered and job.number in gpu.order:
                standing.waited_s += max(lost_s - standing.lost_s, 0.0)
            standing.lost_s = lost_s

    def _candidate(self, job: Job, history: JobHistory, *, is_new: bool) -> tuple[Candidate, dict[str, Any]]:
        """The job as the choice sees it, and what its report says of that. Only runs of its own name count as known."""
        record = job.record
        done_s = elapsed.alone_ns(job.time.sums()) / 1e9
        rest = history.expected_rest(record.uid, record.name, max(done_s, 0.0))
        known = history.known(record.uid, record.name)
        busy = known.busy if known is not None and known.busy is not None else BUSY
        own = rest if rest is not None and rest.source == "name" else None
        candidate = Candidate(
            allowed=record.auto or Range(record.priority, record.priority),
            rest_s=own.rest_s if own else math.inf,
            busy=min(max(busy, 0.0), 1.0),
            waited_s=self._standing[job.number].waited_s,
            # What the fikitd before this one chose stands, as far as hysteresis goes.
            is_new=is_new and record.chosen != AUTO,
        )
        return candidate, {"rest_s": own.rest_s if own else None, "runs": own.runs if own else 0}

    def _apply(self, jobs: list[Job], decision: Decision, told: list[dict[str, Any]]) -> None:
        for job, level, about in zip(jobs, decision.levels, told, strict=True):
            job.auto = {"state": decision.state, **about}
            record = job.record
            if level == record.priority:
                continue
            try:
                record = self._records.change_priority(record, level, AUTO)
            except OSError as error:
                _log.warning("the priority of job %s cannot be noted, so it stays: %s", record.job, reason(error))
                continue
            self._jobs.change_priority(record)
            self._change_priority(record)
            _log.info(
                "job %s: priority %d from now on, by itself (%s)",
                record.job,
                level,
                decision.state,
                extra={"uid": record.uid},
            )
