"""Turns of jobs whose memory does not fit on a GPU together: when each stops, whose memory leaves and comes, when the next ones go on.

Which jobs run next, and for how long, is decided by fikitd.gpus.residency.next_epoch; this module carries that out for one GPU, step by step. Pure: it
is told what there is and what time it is, and says what to do. Each step ends after a bounded time, whatever the processes report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from fikitd.gpus.link_rate import LinkRate
from fikitd.gpus.residency import Epoch, EpochRules, Move, Tenant, next_epoch

ALL: Final = 2**64 - 1
STOP_NS: Final = 1_000_000_000  # the longest wait, at the end of a turn, for work that is on the device
STAND_NS: Final = 20_000_000  # the longest wait, once that work has ended, for the process to come to its gate, where it moves its memory
GRACE_NS: Final = 1_000_000_000  # moves are waited for twice as long as the link needs, and so much longer
AGAIN_NS: Final = (
    1_000_000_000  # between two looks whether a turn should end early, where the first has changed nothing
)
IDLE_NS: Final = 2_000_000_000  # a job that has not asked for so long has no work
LEAST_WORK: Final = 0.05  # of a job that asks: without work its wait would not count
LEAST_ROOM: Final = 1 / 16  # of the GPU: below that turns would gain nothing, and all run


@dataclass(frozen=True)
class Process:
    """A client of a job, as its dispatcher sees it. reached: number of the newest goal that it has reported as reached (struct fikit_moves). enough_bytes:
    with so much on the GPU it loses little, by its plan (memory_budgets.py); None: it has no plan."""

    client: int
    movable_bytes: int
    resident_bytes: int
    reached: int
    at_gate: bool
    busy: bool
    launches: int
    enough_bytes: int | None = None

    @property
    def needed_bytes(self) -> int:
        return self.movable_bytes if self.enough_bytes is None else min(self.movable_bytes, self.enough_bytes)


@dataclass(frozen=True)
class MovableJob:
    """A job below high that may have memory on the host, as it is on one GPU. most_bytes: what it was approved for. gpu_time_ns: device time that it has
    used so far, None where that is not known; called when a turn begins and when it ends."""

    job: int
    processes: Sequence[Process]
    most_bytes: int
    gpu_time_ns: Callable[[], int | None] = lambda: None

    @property
    def bytes(self) -> int:
        return min(sum(each.movable_bytes for each in self.processes), self.most_bytes)

    @property
    def needed_bytes(self) -> int:
        return min(sum(each.needed_bytes for each in self.processes), self.bytes)

    @property
    def resident_bytes(self) -> int:
        return min(sum(each.resident_bytes for each in self.processes), self.bytes)

    @property
    def launches(self) -> int:
        return sum(each.launches for each in self.processes)

    @property
    def asks(self) -> bool:
        return any(each.at_gate or each.busy for each in self.processes)


@dataclass(frozen=True)
class Goal:
    """So much of a client's movable memory is to be on the GPU from now on."""

    client: int
    bytes: int


@dataclass(frozen=True)
class Swap:
    """A change from one turn to the next. took_ns: for so long no job that goes or comes was granted anything; stop_ns: the first part of that, in which
    granted work still ran on the device; reckoned_ns: the expected time of the change, for moved_bytes; after_ns: length of the turn that ended;
    length_ns: least length of the turn that begins."""

    running: frozenset[int]  # jobs
    took_ns: int
    stop_ns: int
    reckoned_ns: int
    moved_bytes: int
    after_ns: int
    length_ns: int

    @property
    def lost_ns(self) -> int:
        """For so long no work ran, because of the change."""
        return self.took_ns - self.stop_ns


class Step(Enum):
    FITS = "fits"  # all jobs run: their memory fits together, or there is one job
    RUN = "run"  # the jobs whose turn it is run
    CLEAR = "clear"  # the old jobs still run; memory of jobs that are neither old nor new leaves
    AHEAD = "ahead"  # the old jobs still run; memory of the new ones comes into the room that is free
    STOP = "stop"  # the old jobs' work on the device ends; each process whose work has ended sends its memory away
    OUT = "out"  # the rest of their memory leaves
    IN = "in"  # the rest of the new jobs' memory comes


@dataclass
class _Known:
    """What is remembered of a job."""

    since_ns: int  # when it came, or its last turn ended
    asked_ns: int  # when it last asked for the GPU, or launched
    launches: int = 0
    touched_bytes: int = 0  # in its turn: page faults have brought them, which its shim does not see
    work: float = 1.0  # share of its turns in which it uses the device
    turn_ns: int = 0  # when its turn began
    gpu_time_ns: int | None = None  # its device time at that moment
    came_ns: int = 0  # when the first of its turns without a pause began


@dataclass
class MemoryTurns:
    """Of one GPU."""

    rules: EpochRules
    link: LinkRate = field(default_factory=LinkRate)
    step: Step = Step.FITS
    running: set[int] = field(default_factory=set)  # jobs
    swaps: int = 0
    moved_ns: int = 0  # sum of all changes
    newest: Swap | None = None
    beside_ns: int = 0  # what a change takes beside its moves: a smoothed mean of the changes so far
    _known: dict[int, _Known] = field(default_factory=dict)
    _next: set[int] = field(default_factory=set)  # jobs of the turn that is to come
    _epoch: Epoch | None = None
    _jobs: list[int] = field(default_factory=list)  # by tenant number of the epoch
    _awaited: dict[int, int] = field(
        default_factory=dict
    )  # client: number of the goal that it has to report as reached
    _began_ns: int = 0  # when the step began
    _until_ns: int = 0  # when it ends at the latest
    _stopped_ns: int = 0  # since then nothing is granted to the old jobs
    _idle_ns: int = 0  # when the last of their work had ended
    _outs: dict[int, int] = field(
        default_factory=dict
    )  # client of an old job that was not told yet: the bytes that it keeps
    _moving_ns: int = 0  # when the first of them was told; 0: none was
    _steps_ns: int = 0  # what the steps of this change took in which memory moved
    _arrived_ns: int = 0  # when the turn began
    _again_ns: int = 0  # until then the turn does not end early
    _spilt: dict[int, int] = field(default_factory=dict)  # client: the bytes that it was told to keep while others run
    _given: dict[int, int] = field(default_factory=dict)  # client: bytes of its newest goal

    def away(self, seen: Sequence[MovableJob]) -> set[int]:
        """Clients that are not to run now."""
        if self.step is Step.FITS:
            return set()
        allowed = {
            Step.RUN: self.running,
            Step.CLEAR: self.running,
            Step.AHEAD: self.running,
        }.get(self.step, self.running & self._next)
        return {each.client for job in seen if job.job not in allowed for each in job.processes}

    def look(self, now_ns: int, room_bytes: int, total_bytes: int, seen: Sequence[MovableJob]) -> list[Goal]:
        """New goals of clients. The caller sets each, tells `told` its number, and then asks `away`."""
        goals = self._look(now_ns, room_bytes, total_bytes, seen)
        self._given |= {goal.client: goal.bytes for goal in goals}
        return goals

    def _look(self, now_ns: int, room_bytes: int, total_bytes: int, seen: Sequence[MovableJob]) -> list[Goal]:
        here = {job.job: job for job in seen}
        self._notice(now_ns, here)
        if len(here) < 2 or room_bytes < LEAST_ROOM * total_bytes or sum(j.needed_bytes for j in seen) <= room_bytes:
            return self._all_run(here)
        if self.step is Step.FITS:
            self.running, self._arrived_ns = self._fitting(here, room_bytes), now_ns
            for job in self.running:
                self._known[job].came_ns = now_ns
            self._run(now_ns, here, self.rules.least_epoch_ns)
        if self.step is Step.RUN:
            over = self._is_over(now_ns, room_bytes, here)
            return self._plan(now_ns, room_bytes, here) if over else self._spill(room_bytes, here) + self._grow(here)
        return self._step_on(now_ns, room_bytes, here)

    @property
    def changing(self) -> bool:
        """A change to the next turn is under way: its next step should not be seen late."""
        return self.step not in {Step.FITS, Step.RUN}

    def told(self, client: int, goal: int) -> None:
        """goal: the number under which the client's goal was set; 0: its shim moves nothing."""
        if goal:
            self._awaited[client] = goal

    # ---- what is known of the jobs

    def _notice(self, now_ns: int, here: dict[int, MovableJob]) -> None:
        for gone in self._known.keys() - here.keys():
            del self._known[gone]
        self.link.keep_jobs(here)
        clients = {each.client for job in here.values() for each in job.processes}
        self._given = {client: goal for client, goal in self._given.items() if client in clients}
        self.running &= here.keys()
        self._next &= here.keys()
        for number, job in here.items():
            known = self._known.setdefault(number, _Known(now_ns, now_ns))
            if job.asks or job.launches != known.launches:
                known.asked_ns = now_ns
            if number in self.running and job.launches != known.launches:
                known.touched_bytes = max(known.touched_bytes, job.needed_bytes)
            known.launches = job.launches

    def _has_work(self, job: int, now_ns: int) -> bool:
        return now_ns - self._known[job].asked_ns < IDLE_NS

    def _tenant(self, job: MovableJob, room_bytes: int, now_ns: int) -> Tenant:
        known, runs = self._known[job.job], job.job in self.running
        work = max(known.work, LEAST_WORK) if self._has_work(job.job, now_ns) else 0.0
        waited_ns = 0 if runs else max(now_ns - known.since_ns, 0)
        needed = min(job.needed_bytes, room_bytes)  # the rest comes by page faults in its turn
        ran_ns = max(now_ns - known.came_ns, 0) if runs else 0
        return Tenant(needed, min(self._there(job), room_bytes), work, waited_ns, runs, ran_ns)

    def _there(self, job: MovableJob) -> int:
        """What it has on the GPU, with what page faults have brought, which its shim does not see, and with what it does not need: none of it is free room."""
        return max(job.resident_bytes, min(self._known[job.job].touched_bytes, job.bytes))

    # ---- the steps

    def _all_run(self, here: dict[int, MovableJob]) -> list[Goal]:
        was, self.step = self.step, Step.FITS
        self.running, self._next, self._awaited = set(here), set(), {}
        return [] if was is Step.FITS else [goal for job in here.values() for goal in self._towards(job, ALL)]

    def _fitting(self, here: dict[int, MovableJob], room_bytes: int) -> set[int]:
        """The jobs that have waited longest, as far as they fit together; the first of them in any case."""
        chosen: set[int] = set()
        left = room_bytes
        for number in sorted(here, key=lambda job: self._known[job].since_ns):
            needed = min(here[number].needed_bytes, room_bytes)
            if needed <= left:
                chosen.add(number)
                left -= needed
        return chosen

    def _run(self, now_ns: int, here: dict[int, MovableJob], length_ns: int) -> None:
        self.step, self._began_ns, self._until_ns = Step.RUN, now_ns, now_ns + length_ns
        self._awaited, self._spilt = {}, {}
        for job in self.running & here.keys():
            known = self._known[job]
            known.turn_ns, known.gpu_time_ns = now_ns, here[job].gpu_time_ns()

    def _is_over(self, now_ns: int, room_bytes: int, here: dict[int, MovableJob]) -> bool:
        """Its time is over; or its jobs do not fit into the room any more; or one of them has no work while others have; or another job fits beside them."""
        if now_ns >= self._until_ns:
            return True
        if now_ns < self._again_ns:
            return False
        held = sum(min(here[job].needed_bytes, room_bytes) for job in self.running)
        if held > room_bytes and len(self.running) > 1:
            return True
        others = [job for job in here if job not in self.running and self._has_work(job, now_ns)]
        if others and any(not self._has_work(job, now_ns) for job in self.running):
            return True
        return any(min(here[job].needed_bytes, room_bytes) <= room_bytes - held for job in others)

    def _plan(self, now_ns: int, room_bytes: int, here: dict[int, MovableJob]) -> list[Goal]:
        self._jobs = sorted(here)
        self._learn(now_ns, here)
        rules = EpochRules(
            link=self.link.link, beside_ns=self.beside_ns, most_lost=self.rules.most_lost, hysteresis=self.rules.hysteresis,
            least_epoch_ns=self.rules.least_epoch_ns, patience_ns=self.rules.patience_ns, max_wait_ns=self.rules.max_wait_ns,
        )  # fmt: skip
        tenants = [self._tenant(here[job], room_bytes, now_ns) for job in self._jobs]
        self._epoch = next_epoch(rules, room_bytes, tenants)
        self._next = {self._jobs[number] for number in self._epoch.runs}
        if not self._next or self._next == self.running:  # no job has work, or a change gains nothing
            if now_ns >= self._until_ns:
                self._run(now_ns, here, self._epoch.length_ns)
            self._again_ns = now_ns + AGAIN_NS
            return []
        goals = self._clear(now_ns, here)
        return goals or self._step_on(now_ns, room_bytes, here)

    def _learn(self, now_ns: int, here: dict[int, MovableJob]) -> None:
        """How much of the device each job has used in its turn. A turn shorter than the least epoch counts in proportion."""
        for job in self.running & here.keys():
            known, now = self._known[job], here[job].gpu_time_ns()
            took_ns = now_ns - known.turn_ns
            if now is not None and known.gpu_time_ns is not None and took_ns > 0:
                seen = min(1.0, max((now - known.gpu_time_ns) / took_ns, LEAST_WORK))
                known.work += (seen - known.work) * min(took_ns / self.rules.least_epoch_ns, 1.0)

    def _begin(self, step: Step, now_ns: int, moved_bytes: int) -> None:
        self.step, self._began_ns, self._awaited = step, now_ns, {}
        link, inward = self.link.link, step in {Step.AHEAD, Step.IN}
        rate = link.in_bytes_per_s if inward else link.out_bytes_per_s
        takes_ns = int(2e9 * moved_bytes / rate) + GRACE_NS if moved_bytes else 0
        self._until_ns = now_ns + (STOP_NS if step is Step.STOP else takes_ns)

    def _step_on(self, now_ns: int, room_bytes: int, here: dict[int, MovableJob]) -> list[Goal]:
        """Ends the steps that are over, and begins the next one that takes time."""
        goals: list[Goal] = []
        if self.step is Step.STOP:
            goals = self._stopping(now_ns, here)
        while not goals and self._step_is_over(now_ns, here):
            match self.step:
                case Step.CLEAR:
                    goals = self._ahead(now_ns, room_bytes, here)
                case Step.AHEAD:
                    self._stop(now_ns, here)
                case Step.STOP:
                    goals = self._out(now_ns, here)
                case Step.OUT:
                    self._measure(now_ns, here, inward=False)
                    goals = self._in(now_ns, here)
                case _:
                    self._measure(now_ns, here, inward=True)
                    self._arrive(now_ns, here)
                    break
        return goals

    def _step_is_over(self, now_ns: int, here: dict[int, MovableJob]) -> bool:
        if now_ns >= self._until_ns:
            return True
        processes = {each.client: each for job in here.values() for each in job.processes}
        if self.step is Step.STOP:
            # Grants are seen to be over from the look behind the one that ended them.
            stood = not self._outs or now_ns - self._idle_ns >= STAND_NS
            return now_ns > self._stopped_ns and stood and not self._going_busy(here)
        return all(
            client not in processes or processes[client].reached == goal for client, goal in self._awaited.items()
        )

    def _clear(self, now_ns: int, here: dict[int, MovableJob]) -> list[Goal]:
        goals = [
            goal
            for move in self._moves()
            if move.ahead and not move.inward and (job := here[self._jobs[move.tenant]])
            for goal in self._towards(job, self._there(job) - move.bytes)
            if _stands(job, goal)
        ]
        self._begin(Step.CLEAR, now_ns, self._bytes(inward=False, ahead=True) if goals else 0)
        return goals

    def _ahead(self, now_ns: int, room_bytes: int, here: dict[int, MovableJob]) -> list[Goal]:
        """No more than there is free room for, whatever should have been cleared: the driver would take the rest from the jobs that run."""
        free = max(room_bytes - sum(map(self._there, here.values())), 0)
        goals: list[Goal] = []
        coming = 0
        for move in self._moves():
            job = here.get(self._jobs[move.tenant])
            if job is None or not (move.ahead and move.inward):
                continue
            more = min(move.bytes, free - coming)
            found = [goal for goal in self._towards(job, job.resident_bytes + more) if more > 0 and _stands(job, goal)]
            goals += found
            coming += more if found else 0
        self._begin(Step.AHEAD, now_ns, coming)
        return goals

    def _stop(self, now_ns: int, here: dict[int, MovableJob]) -> None:
        self._stopped_ns = self._idle_ns = now_ns
        self._moving_ns = self._steps_ns = 0
        self._outs = {goal.client: goal.bytes for goal in self._leaving(here)}
        self._begin(Step.STOP, now_ns, 0)

    def _going(self, here: dict[int, MovableJob]) -> list[Process]:
        return [each for job in here.values() if job.job in self.running - self._next for each in job.processes]

    def _going_busy(self, here: dict[int, MovableJob]) -> bool:
        return any(each.busy for each in self._going(here))

    def _stopping(self, now_ns: int, here: dict[int, MovableJob]) -> list[Goal]:
        """Tells each process of the old jobs whose own work has ended to move, while others still work."""
        if now_ns > self._stopped_ns and self._idle_ns == self._stopped_ns and not self._going_busy(here):
            self._idle_ns = now_ns
        ready = {each.client for each in self._going(here) if each.at_gate and not each.busy} & self._outs.keys()
        if now_ns == self._stopped_ns or not ready:
            return []
        self._moving_ns = self._moving_ns or now_ns
        return [Goal(client, self._outs.pop(client)) for client in sorted(ready)]

    def _out(self, now_ns: int, here: dict[int, MovableJob]) -> list[Goal]:
        """Tells the remaining processes of the old jobs that stand at a gate to move, though their work has not ended; the others have begun to."""
        begun, began_ns, self._moving_ns = dict(self._awaited), self._moving_ns or now_ns, 0
        goals = [
            goal
            for job in here.values()
            for each in job.processes
            if each.client in self._outs and _stands(job, goal := Goal(each.client, self._outs[each.client]))
        ]
        self._outs = {}
        self._begin(Step.OUT, began_ns, self._bytes(inward=False) if goals or begun else 0)
        self._awaited = begun
        return goals

    def _in(self, now_ns: int, here: dict[int, MovableJob]) -> list[Goal]:
        goals = [
            goal
            for job in self._next - self.running
            if job in here
            for goal in self._towards(here[job], ALL)
            if _stands(here[job], goal)
        ]
        self._begin(Step.IN, now_ns, self._bytes(inward=True) if goals else 0)
        return goals

    def _arrive(self, now_ns: int, here: dict[int, MovableJob]) -> None:
        for job in self.running - self._next:
            self._known[job].since_ns, self._known[job].touched_bytes = self._stopped_ns, 0
        came = self._next - self.running
        turn_ns = self._stopped_ns - self._arrived_ns
        self.running, self._arrived_ns = set(self._next) & here.keys(), now_ns
        self.swaps += 1
        length_ns = self._epoch.length_ns if self._epoch else self.rules.least_epoch_ns
        self.newest = Swap(
            frozenset(self.running), now_ns - self._stopped_ns, self._idle_ns - self._stopped_ns, self._epoch.swap_ns if self._epoch else 0,
            self._bytes(inward=False) + self._bytes(inward=True), turn_ns, length_ns,
        )  # fmt: skip
        self.moved_ns += self.newest.took_ns
        self._learn_beside(self.newest.lost_ns)
        self._run(now_ns, here, length_ns)
        for job in came & here.keys():
            self._known[job].came_ns = now_ns

    # ---- moves

    def _moves(self) -> list[Move]:
        return self._epoch.moves if self._epoch else []

    def _bytes(self, *, inward: bool, ahead: bool = False) -> int:
        return sum(move.bytes for move in self._moves() if move.inward == inward and move.ahead == ahead)

    def _leaving(self, here: dict[int, MovableJob]) -> list[Goal]:
        """The goals of the epoch's moves out, without those that were made ahead."""
        return [
            goal
            for move in self._moves()
            if not move.inward and not move.ahead and (job := here.get(self._jobs[move.tenant])) is not None
            for goal in self._towards(job, self._there(job) - move.bytes)
        ]

    @staticmethod
    def _towards(job: MovableJob, bytes_: int) -> list[Goal]:
        """Goals for a job to have so many bytes on the GPU: each of its processes the same share of what it needs."""
        bytes_ = min(bytes_, job.needed_bytes)
        if bytes_ >= job.bytes:
            return [Goal(each.client, ALL) for each in job.processes]
        share = max(bytes_, 0) / max(job.needed_bytes, 1)
        return [Goal(each.client, int(each.needed_bytes * share)) for each in job.processes]

    def _spill(self, room_bytes: int, here: dict[int, MovableJob]) -> list[Goal]:
        """Goals for jobs that do not run and hold more than the room that is left: they began to wait with it there, or came to their gates late."""
        over = sum(job.resident_bytes for job in here.values()) - room_bytes
        goals = []
        for job in here.values():
            if over <= 0:
                break
            if job.job in self.running or not job.resident_bytes:
                continue
            keeps = max(job.resident_bytes - over, 0)
            over -= job.resident_bytes - keeps
            for goal in self._towards(job, keeps):
                if _stands(job, goal) and self._spilt.get(goal.client) != goal.bytes:
                    self._spilt[goal.client] = goal.bytes
                    goals.append(goal)
        return goals

    def _grow(self, here: dict[int, MovableJob]) -> list[Goal]:
        """Goals for jobs that run and need more than they did when their turn began: page faults bring it, and their shims have to know."""
        goals = (goal for job in self.running for goal in self._towards(here[job], ALL))
        return [goal for goal in goals if self._given.get(goal.client, ALL) < goal.bytes]

    def _measure(self, now_ns: int, here: dict[int, MovableJob], *, inward: bool) -> None:
        """Learns the link's rate from a step that moved something and did not end by its time limit."""
        took_ns, moved_bytes = now_ns - self._began_ns, self._bytes(inward=inward)
        movers = [job.job for job in here.values() if any(each.client in self._awaited for each in job.processes)]
        if movers and moved_bytes and took_ns > 0 and now_ns < self._until_ns:
            self._steps_ns += took_ns
            self.link.moved(movers, moved_bytes, took_ns, inward=inward)

    def _learn_beside(self, lost_ns: int) -> None:
        """Learns what a change takes beside the steps that _measure() has counted."""
        steps_ns, self._steps_ns = self._steps_ns, 0
        if steps_ns:
            self.beside_ns += (max(lost_ns - steps_ns, 0) - self.beside_ns) // 4


def _stands(job: MovableJob, goal: Goal) -> bool:
    """A thread of the client stands at its gate: it can move memory."""
    return any(each.client == goal.client and each.at_gate for each in job.processes)
