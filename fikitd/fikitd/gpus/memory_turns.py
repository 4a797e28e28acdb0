"""Turns of jobs whose memory does not fit on a GPU together: when each stops, whose memory leaves and comes, when the next ones go on.

Who runs next, and for how long, is fikitd.gpus.residency.next_epoch's; here is what happens in which order, for one GPU. Pure: it is told what there
is and what time it is, and says what to do. Nobody is relied upon: each step ends after a bounded time, whatever the processes report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from fikitd.gpus.link_rate import LinkRate
from fikitd.gpus.residency import Epoch, EpochRules, Move, Tenant, next_epoch

ALL: Final = 2**64 - 1
STOP_NS: Final = 1_000_000_000  # so long is waited for work that is on the device when a turn ends
STAND_NS: Final = 20_000_000  # and so long, once it has ended, for the process to come to its gate, where it moves
GRACE_NS: Final = 1_000_000_000  # a move may take twice as long as the link needs, and so much more
AGAIN_NS: Final = 1_000_000_000
IDLE_NS: Final = 2_000_000_000  # who has not asked for so long has nothing to do
LEAST_WORK: Final = 0.05  # of one that asks: so that its wait counts
LEAST_ROOM: Final = 1 / 16  # of the GPU: below that turns would gain nothing, and all run


@dataclass(frozen=True)
class Process:
    """A client of a job, as its dispatcher sees it. goal and reached: numbers of wishes about its memory (struct fikit_moves). enough_bytes: with so much
    on the GPU it loses little, by its plan (memory_budgets.py); None: it has none."""

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
class Seen:
    """A job below high that may have memory on the host, on one GPU. most_bytes: what it was approved for. gpu_time_ns: what it has used of the
    device so far, None where that is not known; asked when a turn begins and when it ends."""

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
class Want:
    """So much of a process's movable memory is to be on the GPU from now on."""

    client: int
    goal_bytes: int


@dataclass(frozen=True)
class Swap:
    """A change of turns. took_ns: so long was nothing granted to those that go or come; stop_ns: its beginning, in which work that they had been
    granted still ran; reckoned_ns: what the change was expected to take, moved_bytes: by so many bytes; after_ns: the turn that ended was so long;
    length_ns: the least length of the one that begins."""

    running: frozenset[int]  # jobs
    took_ns: int
    stop_ns: int
    reckoned_ns: int
    moved_bytes: int
    after_ns: int
    length_ns: int

    @property
    def lost_ns(self) -> int:
        """So long did the work of none of them run because of the change."""
        return self.took_ns - self.stop_ns


class Step(Enum):
    FITS = "fits"  # all run: their memory fits together, or there is one of them
    RUN = "run"
    CLEAR = "clear"  # what belongs to neither the old nor the new ones leaves, while the old ones run
    AHEAD = "ahead"  # into the room that is free now the new ones' memory comes, while the old ones run
    STOP = "stop"  # the old ones' work on the device ends; each process whose work has ended sends its memory away
    OUT = "out"  # the rest of it leaves
    IN = "in"


@dataclass
class _Known:
    """What is remembered of a job."""

    since_ns: int  # it came, or its last turn ended
    asked_ns: int
    launches: int = 0
    touched_bytes: int = 0  # in its turn: page faults have brought them, whatever its shim knows of it
    work: float = 1.0
    turn_ns: int = 0  # its turn began
    came_ns: int = 0  # it has run since, for some turns perhaps
    gpu_time_ns: int | None = None  # by then


@dataclass
class MemoryTurns:
    """Of one GPU."""

    rules: EpochRules
    link: LinkRate = field(default_factory=LinkRate)
    step: Step = Step.FITS
    running: set[int] = field(default_factory=set)  # jobs
    swaps: int = 0
    moved_ns: int = 0  # so long did nobody run because of moves
    newest: Swap | None = None
    beside_ns: int = 0  # what a change takes beside its moves, as changes so far show
    _known: dict[int, _Known] = field(default_factory=dict)
    _next: set[int] = field(default_factory=set)
    _epoch: Epoch | None = None
    _jobs: list[int] = field(default_factory=list)  # of which the epoch speaks
    _awaited: dict[int, int] = field(default_factory=dict)  # client: number of its wish
    _began_ns: int = 0  # the step
    _until_ns: int = 0  # it ends at the latest
    _stopped_ns: int = 0  # nothing is granted any more to those that go
    _idle_ns: int = 0  # the last of their work had ended
    _outs: dict[int, int] = field(default_factory=dict)  # client that is to leave, and was not told yet: what it keeps
    _moving_ns: int = 0  # the first one was told; 0: nobody was
    _steps_ns: int = 0  # so long took the steps of this change that moved
    _arrived_ns: int = 0  # the turn began
    _again_ns: int = 0  # before that nobody is asked again whether the turn is over early
    _spilt: dict[int, int] = field(default_factory=dict)  # client: what it was told to keep while others run
    _goals: dict[int, int] = field(default_factory=dict)  # client: what was wanted of it last

    def away(self, seen: Sequence[Seen]) -> set[int]:
        """Clients that are not to run now."""
        if self.step is Step.FITS:
            return set()
        allowed = {
            Step.RUN: self.running,
            Step.CLEAR: self.running,
            Step.AHEAD: self.running,
        }.get(self.step, self.running & self._next)
        return {each.client for job in seen if job.job not in allowed for each in job.processes}

    def look(self, now_ns: int, room_bytes: int, total_bytes: int, seen: Sequence[Seen]) -> list[Want]:
        """What is wanted from now on. Afterwards tell `told` the number of each wish, and ask `away`."""
        wants = self._look(now_ns, room_bytes, total_bytes, seen)
        self._goals |= {want.client: want.goal_bytes for want in wants}
        return wants

    def _look(self, now_ns: int, room_bytes: int, total_bytes: int, seen: Sequence[Seen]) -> list[Want]:
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
        """Some wait for a step of the change to be over."""
        return self.step not in {Step.FITS, Step.RUN}

    def told(self, client: int, goal: int) -> None:
        """The number of the wish about a client; 0: its shim moves nothing."""
        if goal:
            self._awaited[client] = goal

    # ---- what is known of the jobs

    def _notice(self, now_ns: int, here: dict[int, Seen]) -> None:
        for gone in self._known.keys() - here.keys():
            del self._known[gone]
        self.link.keep_jobs(here)
        clients = {each.client for job in here.values() for each in job.processes}
        self._goals = {client: goal for client, goal in self._goals.items() if client in clients}
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

    def _tenant(self, job: Seen, room_bytes: int, now_ns: int) -> Tenant:
        known, runs = self._known[job.job], job.job in self.running
        work = max(known.work, LEAST_WORK) if self._has_work(job.job, now_ns) else 0.0
        waited_ns = 0 if runs else max(now_ns - known.since_ns, 0)
        needed = min(job.needed_bytes, room_bytes)  # more than that comes by page faults in its turn
        ran_ns = max(now_ns - known.came_ns, 0) if runs else 0
        return Tenant(needed, min(self._there(job), room_bytes), work, waited_ns, runs, ran_ns)

    def _there(self, job: Seen) -> int:
        """What it has on the GPU, beyond its need, too: that is no free room. Its shim sees no page fault."""
        return max(job.resident_bytes, min(self._known[job.job].touched_bytes, job.bytes))

    # ---- the steps

    def _all_run(self, here: dict[int, Seen]) -> list[Want]:
        was, self.step = self.step, Step.FITS
        self.running, self._next, self._awaited = set(here), set(), {}
        return [] if was is Step.FITS else [want for job in here.values() for want in self._towards(job, ALL)]

    def _fitting(self, here: dict[int, Seen], room_bytes: int) -> set[int]:
        """Those that came first, as far as they fit; the first one in any case."""
        chosen: set[int] = set()
        left = room_bytes
        for number in sorted(here, key=lambda job: self._known[job].since_ns):
            needed = min(here[number].needed_bytes, room_bytes)
            if needed <= left:
                chosen.add(number)
                left -= needed
        return chosen

    def _run(self, now_ns: int, here: dict[int, Seen], length_ns: int) -> None:
        self.step, self._began_ns, self._until_ns = Step.RUN, now_ns, now_ns + length_ns
        self._awaited, self._spilt = {}, {}
        for job in self.running & here.keys():
            known = self._known[job]
            known.turn_ns, known.gpu_time_ns = now_ns, here[job].gpu_time_ns()

    def _is_over(self, now_ns: int, room_bytes: int, here: dict[int, Seen]) -> bool:
        """At its end, when one of them has nothing to do while others ask, when they have grown out of the room, or there is room for another."""
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

    def _plan(self, now_ns: int, room_bytes: int, here: dict[int, Seen]) -> list[Want]:
        self._jobs = sorted(here)
        self._learn(now_ns, here)
        rules = EpochRules(
            link=self.link.link, beside_ns=self.beside_ns, most_lost=self.rules.most_lost, hysteresis=self.rules.hysteresis,
            least_epoch_ns=self.rules.least_epoch_ns, patience_ns=self.rules.patience_ns, max_wait_ns=self.rules.max_wait_ns,
        )  # fmt: skip
        tenants = [self._tenant(here[job], room_bytes, now_ns) for job in self._jobs]
        self._epoch = next_epoch(rules, room_bytes, tenants)
        self._next = {self._jobs[number] for number in self._epoch.runs}
        if not self._next or self._next == self.running:  # nobody has work, or nothing is gained by a change
            if now_ns >= self._until_ns:
                self._run(now_ns, here, self._epoch.length_ns)
            self._again_ns = now_ns + AGAIN_NS
            return []
        wants = self._clear(now_ns, here)
        return wants or self._step_on(now_ns, room_bytes, here)

    def _learn(self, now_ns: int, here: dict[int, Seen]) -> None:
        """How much of the device each has used in its turn; a turn that was cut short says as much less."""
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

    def _step_on(self, now_ns: int, room_bytes: int, here: dict[int, Seen]) -> list[Want]:
        """Through all steps that are over."""
        wants: list[Want] = []
        if self.step is Step.STOP:
            wants = self._stopping(now_ns, here)
        while not wants and self._step_is_over(now_ns, here):
            match self.step:
                case Step.CLEAR:
                    wants = self._ahead(now_ns, room_bytes, here)
                case Step.AHEAD:
                    self._stop(now_ns, here)
                case Step.STOP:
                    wants = self._out(now_ns, here)
                case Step.OUT:
                    self._measure(now_ns, here, inward=False)
                    wants = self._in(now_ns, here)
                case _:
                    self._measure(now_ns, here, inward=True)
                    self._arrive(now_ns, here)
                    break
        return wants

    def _step_is_over(self, now_ns: int, here: dict[int, Seen]) -> bool:
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

    def _clear(self, now_ns: int, here: dict[int, Seen]) -> list[Want]:
        wants = [
            want
            for move in self._moves()
            if move.ahead and not move.inward and (job := here[self._jobs[move.tenant]])
            for want in self._towards(job, self._there(job) - move.bytes)
            if _stands(job, want)
        ]
        self._begin(Step.CLEAR, now_ns, self._bytes(inward=False, ahead=True) if wants else 0)
        return wants

    def _ahead(self, now_ns: int, room_bytes: int, here: dict[int, Seen]) -> list[Want]:
        """No more than there is room for, whatever has been cleared: the driver would take it from those who run."""
        free = max(room_bytes - sum(map(self._there, here.values())), 0)
        wants: list[Want] = []
        coming = 0
        for move in self._moves():
            job = here.get(self._jobs[move.tenant])
            if job is None or not (move.ahead and move.inward):
                continue
            more = min(move.bytes, free - coming)
            found = [want for want in self._towards(job, job.resident_bytes + more) if more > 0 and _stands(job, want)]
            wants += found
            coming += more if found else 0
        self._begin(Step.AHEAD, now_ns, coming)
        return wants

    def _stop(self, now_ns: int, here: dict[int, Seen]) -> None:
        self._stopped_ns = self._idle_ns = now_ns
        self._moving_ns = self._steps_ns = 0
        self._outs = {want.client: want.goal_bytes for want in self._leaving(here)}
        self._begin(Step.STOP, now_ns, 0)

    def _going(self, here: dict[int, Seen]) -> list[Process]:
        return [each for job in here.values() if job.job in self.running - self._next for each in job.processes]

    def _going_busy(self, here: dict[int, Seen]) -> bool:
        return any(each.busy for each in self._going(here))

    def _stopping(self, now_ns: int, here: dict[int, Seen]) -> list[Want]:
        """Each process moves as soon as its own work has ended; until the last one's has, some of them still work."""
        if now_ns > self._stopped_ns and self._idle_ns == self._stopped_ns and not self._going_busy(here):
            self._idle_ns = now_ns
        ready = {each.client for each in self._going(here) if each.at_gate and not each.busy} & self._outs.keys()
        if now_ns == self._stopped_ns or not ready:
            return []
        self._moving_ns = self._moving_ns or now_ns
        return [Want(client, self._outs.pop(client)) for client in sorted(ready)]

    def _out(self, now_ns: int, here: dict[int, Seen]) -> list[Want]:
        """Those that stopped have begun to move; whoever stands at a gate moves too, though its work has not ended."""
        begun, began_ns, self._moving_ns = dict(self._awaited), self._moving_ns or now_ns, 0
        wants = [
            want
            for job in here.values()
            for each in job.processes
            if each.client in self._outs and _stands(job, want := Want(each.client, self._outs[each.client]))
        ]
        self._outs = {}
        self._begin(Step.OUT, began_ns, self._bytes(inward=False) if wants or begun else 0)
        self._awaited = begun
        return wants

    def _in(self, now_ns: int, here: dict[int, Seen]) -> list[Want]:
        wants = [
            want
            for job in self._next - self.running
            if job in here
            for want in self._towards(here[job], ALL)
            if _stands(here[job], want)
        ]
        self._begin(Step.IN, now_ns, self._bytes(inward=True) if wants else 0)
        return wants

    def _arrive(self, now_ns: int, here: dict[int, Seen]) -> None:
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

    def _leaving(self, here: dict[int, Seen]) -> list[Want]:
        """By all moves out but those ahead."""
        return [
            want
            for move in self._moves()
            if not move.inward and not move.ahead and (job := here.get(self._jobs[move.tenant])) is not None
            for want in self._towards(job, self._there(job) - move.bytes)
        ]

    @staticmethod
    def _towards(job: Seen, bytes_: int) -> list[Want]:
        """Of several processes each keeps the same share of what it needs."""
        bytes_ = min(bytes_, job.needed_bytes)
        if bytes_ >= job.bytes:
            return [Want(each.client, ALL) for each in job.processes]
        share = max(bytes_, 0) / max(job.needed_bytes, 1)
        return [Want(each.client, int(each.needed_bytes * share)) for each in job.processes]

    def _spill(self, room_bytes: int, here: dict[int, Seen]) -> list[Want]:
        """What those who do not run have beyond the room: they began to wait with it there, or came to their gates late."""
        over = sum(job.resident_bytes for job in here.values()) - room_bytes
        wants = []
        for job in here.values():
            if over <= 0:
                break
            if job.job in self.running or not job.resident_bytes:
                continue
            keeps = max(job.resident_bytes - over, 0)
            over -= job.resident_bytes - keeps
            for want in self._towards(job, keeps):
                if _stands(job, want) and self._spilt.get(want.client) != want.goal_bytes:
                    self._spilt[want.client] = want.goal_bytes
                    wants.append(want)
        return wants

    def _grow(self, here: dict[int, Seen]) -> list[Want]:
        """Those who run and have come to need more than was brought: page faults bring it, and their shims are told of it."""
        wants = (want for job in self.running for want in self._towards(here[job], ALL))
        return [want for want in wants if self._goals.get(want.client, ALL) < want.goal_bytes]

    def _measure(self, now_ns: int, here: dict[int, Seen], *, inward: bool) -> None:
        """The link's rate, by a step that moved something and ended by itself."""
        took_ns, moved_bytes = now_ns - self._began_ns, self._bytes(inward=inward)
        movers = [job.job for job in here.values() if any(each.client in self._awaited for each in job.processes)]
        if movers and moved_bytes and took_ns > 0 and now_ns < self._until_ns:
            self._steps_ns += took_ns
            self.link.moved(movers, moved_bytes, took_ns, inward=inward)

    def _learn_beside(self, lost_ns: int) -> None:
        """What a change took beside those steps."""
        steps_ns, self._steps_ns = self._steps_ns, 0
        if steps_ns:
            self.beside_ns += (max(lost_ns - steps_ns, 0) - self.beside_ns) // 4


def _stands(job: Seen, want: Want) -> bool:
    """Somebody is there to move: a thread of the process stands at its gate."""
    return any(each.client == want.client and each.at_gate for each in job.processes)
