"""`pair` from one look at the queue to the next: who runs where, which jobs wait for a decision, and what was decided and did not happen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from fikitd.api.outcomes import name_key
from fikitd.gpus.placement import Device, overdue
from fikitd.history import JobHistory
from fikitd.history.pairs import Name, Pair, learn
from fikitd.history.speeds import MOST_NAMES, slowdowns

from fikit.placement.jobs import RUNNING, Job
from fikit.placement.pair import Board, Decision, Gpu, Sharer, decide
from fikit.placement.plan import NOTHING, WAITS, Change, Mark, Plan, Settings, is_steered

PINNED_S: Final = 30.0
"""A job that has not begun so long after it was given a GPU may have any again."""
NODES_S: Final = 30.0
"""The nodes are looked at again after so long."""
PAIRS_S: Final = 600.0
"""What jobs did to each other is learnt again after so long: with 100,000 runs that takes more than a second."""
USUAL_BUSY: Final = 0.5
"""Of a job of which nothing is known, where nothing is known of any."""
COMMENT_IDS: Final = 8


@dataclass(frozen=True)
class Place:
    """A GPU that a job has; alone: all of it."""

    node: str
    type: str
    alone: bool


class Nodes(Protocol):
    """What `pair` asks of Slurm besides. Each raises SlurmError."""

    def gpus(self) -> list[Gpu]:
        """Those with a type of their own, of nodes that take jobs."""

    def places(self, numbers: Iterable[int]) -> dict[int, list[Place]]:
        """Of running jobs; one of which it cannot be told has none."""


class Pairing:
    """Decides by what jobs did to each other on such a device, as far as that was measured. `clock` runs forward only."""

    def __init__(self, nodes: Nodes, device: Device, clock: Callable[[], float]) -> None:
        self._nodes, self._device, self._clock = nodes, device, clock
        self._pairs: dict[Pair, float] = {}
        self._learnt_at = -PAIRS_S
        self._gpus: list[Gpu] = []
        self._read_at = -NODES_S
        self._places: dict[int, list[Place]] = {}
        self._pinned_at: dict[int, float] = {}
        self._free: set[int] = (
            set()
        )  # jobs that Slurm places: their GPU did not come about, or their owner took them out

    def refine(
        self,
        ordered: Plan,
        jobs: list[Job],
        marks: Mapping[int, Mark],
        known: JobHistory,
        *,
        settings: Settings,
        now_s: float,
    ) -> Plan:
        """`ordered`, and where and after whom jobs run. Raises SlurmError."""
        self._look(jobs)
        self._learn(known)
        changes = {change.job: change for change in ordered.changes}
        steered = [job for job in jobs if is_steered(job, marks)]
        speeds, kinds = slowdowns(self._pairs, _busy(jobs, known) if self._pairs else {}, self._device)
        board = self._board(jobs, steered, marks, lambda job, elapsed_s: _sharer(job, known, elapsed_s, kinds), now_s)
        running = {job.number for job in jobs if job.state == RUNNING}

        def after(number: int) -> Mark:
            return changes[number].after if number in changes else marks.get(number, NOTHING)

        open_jobs = []
        for job in sorted(steered, key=lambda each: (-after(each.number).factor, each.submit_s)):
            let_go = self._let_go(job, after(job.number), running)
            if let_go is not None:
                changes[job.number] = self._change(job, marks, let_go, "it has any GPU again")
            elif job.number not in self._free and (job.gated or after(job.number).waits_for):
                open_jobs.append(job)
        late = {job.number for job in open_jobs if overdue(job.submit_s, now_s, settings.max_wait_s)}
        by_number = {job.number: job for job in open_jobs}
        # One that names a type itself has chosen.
        choosing = [_sharer(job, known, 0.0, kinds) for job in open_jobs if not job.type]
        decisions = [
            *decide(choosing, board, speeds),
            *(Decision(job.number) for job in open_jobs if job.type),
        ]
        for decision in decisions:
            job = by_number[decision.job]
            wanted = self._mark(job, after(job.number), decision, now_s, waits=job.number not in late)
            if wanted != marks.get(job.number, NOTHING) or job.gated:
                changes[job.number] = self._change(job, marks, wanted, _why(decision))
        urgent = sorted(changes.values(), key=lambda change: not change.begins)
        return Plan(urgent, ordered.gone)

    def _change(self, job: Job, marks: Mapping[int, Mark], wanted: Mark, why: str) -> Change:
        return Change(job.number, marks.get(job.number, NOTHING), wanted, why, begins=job.gated)

    def _look(self, jobs: list[Job]) -> None:
        now = self._clock()
        if now - self._read_at >= NODES_S:
            self._gpus, self._read_at = self._nodes.gpus(), now
        running = {job.number for job in jobs if job.state == RUNNING and job.has_gpu}
        self._places = {number: place for number, place in self._places.items() if number in running}
        self._places |= self._nodes.places(running - self._places.keys()) if running - self._places.keys() else {}
        there = {job.number for job in jobs}
        self._free &= there
        self._pinned_at = {number: since for number, since in self._pinned_at.items() if number in there}

    def _learn(self, known: JobHistory) -> None:
        if self._clock() - self._learnt_at >= PAIRS_S:
            self._pairs, self._learnt_at = learn(known.outcomes()), self._clock()

    def _board(
        self, jobs: list[Job], steered: list[Job], marks: Mapping[int, Mark], sharer: Callable[[Job, float], Sharer],
        now_s: float,
    ) -> Board:  # fmt: skip
        by_place = {(gpu.node, gpu.type): gpu for gpu in self._gpus}
        board = Board(self._gpus)
        for job in jobs:
            for place in self._places.get(job.number, []) if job.state == RUNNING else []:
                gpu = by_place.get((place.node, place.type))
                if gpu is not None and (place.alone or not job.shards):
                    board.taken.add(gpu)
                elif gpu is not None:
                    board.there.setdefault(gpu, []).append(sharer(job, max(0.0, now_s - job.start_s)))
        for job in steered:  # those that have been given a GPU and do not run yet
            mark = marks.get(job.number, NOTHING)
            gpu = by_place.get((mark.node, mark.type))
            if gpu is not None:
                board.there.setdefault(gpu, []).append(sharer(job, 0.0))
        return board

    def _let_go(self, job: Job, mark: Mark, running: set[int]) -> Mark | None:
        """What is left of the mark of a job that the agent lets go for good; None: it does not."""
        if mark.node:
            since = self._pinned_at.setdefault(job.number, self._clock())
            if self._clock() - since < PINNED_S:
                return None
            self._free.add(job.number)
            return replace(mark, node="", type="", shards=0)
        if mark.waits_for and not job.dependency and not running.isdisjoint(mark.waits_for):
            self._free.add(job.number)  # its owner does not want it to wait
            return _without_wait(mark)
        return None

    def _mark(self, job: Job, mark: Mark, decision: Decision, now_s: float, *, waits: bool) -> Mark:
        if decision.on is not None:
            self._pinned_at[job.number] = self._clock()
            return replace(_without_wait(mark), node=decision.on.node, type=decision.on.type, shards=job.shards)
        if not decision.waits_for or not waits:
            return _without_wait(mark)
        if set(mark.waits_for) == set(decision.waits_for):
            return mark
        names = ":".join(map(str, decision.waits_for[:COMMENT_IDS]))
        return replace(
            mark, waits_for=decision.waits_for, comment=f"{WAITS},for={names},until~{now_s + decision.until_s:.0f}"
        )


def _without_wait(mark: Mark) -> Mark:
    return replace(mark, waits_for=(), comment="" if mark.comment.startswith(WAITS) else mark.comment)


def _who(job: Job) -> Name:
    return job.uid, name_key(job.name)


def _busy_share(job: Job, known: JobHistory) -> float:
    summary = known.known(job.uid, job.name)
    busy = summary.busy if summary is not None and summary.busy is not None else known.usual_busy()
    return USUAL_BUSY if busy is None else busy


def _busy(jobs: list[Job], known: JobHistory) -> dict[Name, float]:
    """Of those that share a GPU, or want to; who runs comes first."""
    busy: dict[Name, float] = {}
    for job in sorted(jobs, key=lambda job: job.state != RUNNING):
        if job.shards and len(busy) < MOST_NAMES and _who(job) not in busy:
            busy[_who(job)] = _busy_share(job, known)
    return busy


def _sharer(job: Job, known: JobHistory, elapsed_s: float, kinds: Mapping[Name, int]) -> Sharer:
    rest = known.expected_rest(job.uid, job.name, elapsed_s, job.limit_s)
    return Sharer(
        job=job.number, rest_s=float("inf") if rest is None else rest.rest_s, busy=_busy_share(job, known),
        shards=job.shards, partitions=job.partitions, kind=kinds.get(_who(job), -1),
    )  # fmt: skip


def _why(decision: Decision) -> str:
    if decision.on is not None:
        return f"it is to run on {decision.on.type} of {decision.on.node}"
    return f"it is to wait for {' or '.join(map(str, decision.waits_for))}" if decision.waits_for else "Slurm decides"
