"""Turns of jobs whose memory does not fit on a GPU together: when each stops, whose memory leaves and comes, when the next ones go on.

Who runs next, and for how long, is fikitd.gpus.residency.next_epoch's; here is what happens in which order, for one GPU. Pure: it is told what there
is and what time it is, and says what to do. Nobody is relied upon: each step ends after a bounded time, whatever the processes report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from fikitd.gpus.residency import Epoch, EpochRules, Move, Tenant, next_epoch

ALL: Final = 2**64 - 1
STOP_NS: Final = 1_000_000_000  # so long is waited for work that is on the device when a turn ends
GRACE_NS: Final = 1_000_000_000  # a move may take twice as long as the link needs, and so much more
AGAIN_NS: Final = 1_000_000_000
IDLE_NS: Final = 2_000_000_000  # who has not asked for so long has nothing to do
LEAST_WORK: Final = 0.05  # of one that asks: so that its wait counts
LEAST_RATE: Final = 1e9  # bytes per second, whatever reports say
MOST_RATE: Final = 200e9
LEAST_ROOM: Final = 1 / 16  # of the GPU: below that turns would gain nothing, and all run


@dataclass(frozen=True)
class Process:
    """A client of a job, as its dispatcher sees it. goal and reached: numbers of wishes about its memory (struct fikit_moves)."""

    client: int
    movable_bytes: int
    resident_bytes: int
    reached: int
    at_gate: bool
    busy: bool
    launches: int


@dataclass(frozen=True)
class Seen:
    """A job below high that may have memory on the host, on one GPU. most_bytes: what it was approved for."""

    job: int
    processes: Sequence[Process]
    most_bytes: int
    gpu_time_ns: int | None = None

    @property
    def bytes(self) -> int:
        return min(sum(each.movable_bytes for each in self.processes), self.most_bytes)

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
    """A change of turns. took_ns: so long did those that go or come not run; reckoned_ns: of that what the moves were expected to take; length_ns:
    the least length of the turn that begins."""

    running: frozenset[int]  # jobs
    took_ns: int
    reckoned_ns: int
    length_ns: int


class Step(Enum):
    FITS = "fits"  # all run: their memory fits together, or there is one of them
    RUN = "run"
    AHEAD = "ahead"  # into room that is free, while the old ones run
    STOP = "stop"  # the old ones' work on the device ends
    OUT = "out"
    IN = "in"


@dataclass
class _Known:
    """What is remembered of a job."""

    since_ns: int  # it came, or its last turn ended
    asked_ns: int
    launches: int = 0
    work: float = 1.0
    turn_ns: int = 0  # its turn began
    gpu_time_ns: int | None = None  # by then


@dataclass
class MemoryTurns:
    """Of one GPU."""

    rules: EpochRules
    step: Step = Step.FITS
    running: set[int] = field(default_factory=set)  # jobs
    swaps: int = 0
    moved_ns: int = 0  # so long did nobody run because of moves
    newest: Swap | None = None
    rate: float = 0.0
    _known: dict[int, _Known] = field(default_factory=dict)
    _next: set[int] = field(default_factory=set)
    _epoch: Epoch | None = None
    _jobs: list[int] = field(default_factory=list)  # of which the epoch speaks
    _awaited: dict[int, int] = field(default_factory=dict)  # client: number of its wish
    _began_ns: int = 0  # the step
    _until_ns: int = 0  # it ends at the latest
    _stopped_ns: int = 0
    _again_ns: int = 0  # before that nobody is asked again whether the turn is over early
    _spilt: dict[int, int] = field(default_factory=dict)  # client: what it was told to keep while others run

    def __post_init__(self) -> None:
        self.rate = self.rate or self.rules.link_bytes_per_s

    def away(self, seen: Sequence[Seen]) -> set[int]:
        """Clients that are not to run now."""
        if self.step is Step.FITS:
            return set()
        allowed = {
            Step.RUN: self.running,
            Step.AHEAD: self.running,
        }.get(self.step, self.running & self._next)
        return {each.client for job in seen if job.job not in allowed for each in job.processes}

    def look(self, now_ns: int, room_bytes: int, total_bytes: int, seen: Sequence[Seen]) -> list[Want]:
        """What is wanted from now on. Afterwards tell `told` the number of each wish, and ask `away`."""
        here = {job.job: job for job in seen}
        self._notice(now_ns, here)
        if len(here) < 2 or room_bytes < LEAST_ROOM * total_bytes or sum(j.bytes for j in seen) <= room_bytes:
            return self._all_run(here)
        if self.step is Step.FITS:
            self.running = self._fitting(here, room_bytes)
            self._run(now_ns, here, self.rules.least_epoch_ns)
        if self.step is Step.RUN:
            over = self._is_over(now_ns, room_bytes, here)
            return self._plan(now_ns, room_bytes, here) if over else self._spill(room_bytes, here)
        if self._step_is_over(now_ns, here):
            return self._go_on(now_ns, here)
        return []

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
        self.running &= here.keys()
        self._next &= here.keys()
        for number, job in here.items():
            known = self._known.setdefault(number, _Known(now_ns, now_ns))
            if job.asks or job.launches != known.launches:
                known.asked_ns = now_ns
            known.launches = job.launches

    def _has_work(self, job: int, now_ns: int) -> bool:
        return now_ns - self._known[job].asked_ns < IDLE_NS

    def _tenant(self, job: Seen, room_bytes: int, now_ns: int) -> Tenant:
        known, runs = self._known[job.job], job.job in self.running
        work = max(known.work, LEAST_WORK) if self._has_work(job.job, now_ns) else 0.0
        waited_ns = 0 if runs else max(now_ns - known.since_ns, 0)
        needed = min(job.bytes, room_bytes)  # more than that comes by page faults in its turn
        return Tenant(needed, min(job.resident_bytes, needed), work, waited_ns, runs)

    # ---- the steps

    def _all_run(self, here: dict[int, Seen]) -> list[Want]:
        was, self.step = self.step, Step.FITS
        self.running, self._next, self._awaited = set(here), set(), {}
        return [] if was is Step.FITS else [Want(each.client, ALL) for job in here.values() for each in job.processes]

    def _fitting(self, here: dict[int, Seen], room_bytes: int) -> set[int]:
        """Those that came first, as far as they fit; the first one in any case."""
        chosen: set[int] = set()
        left = room_bytes
        for number in sorted(here, key=lambda job: self._known[job].since_ns):
            needed = min(here[number].bytes, room_bytes)
            if needed <= left:
                chosen.add(number)
                left -= needed
        return chosen

    def _run(self, now_ns: int, here: dict[int, Seen], length_ns: int) -> None:
        self.step, self._began_ns, self._until_ns = Step.RUN, now_ns, now_ns + length_ns
        self._awaited, self._spilt = {}, {}
        for job in self.running & here.keys():
            known = self._known[job]
            known.turn_ns, known.gpu_time_ns = now_ns, here[job].gpu_time_ns

    def _is_over(self, now_ns: int, room_bytes: int, here: dict[int, Seen]) -> bool:
        """At its end, when one of them has nothing to do while others ask, when they have grown out of the room, or there is room for another."""
        if now_ns >= self._until_ns:
            return True
        if now_ns < self._again_ns:
            return False
        held = sum(min(here[job].bytes, room_bytes) for job in self.running)
        if held > room_bytes and len(self.running) > 1:
            return True
        others = [job for job in here if job not in self.running and self._has_work(job, now_ns)]
        if others and any(not self._has_work(job, now_ns) for job in self.running):
            return True
        return any(min(here[job].bytes, room_bytes) <= room_bytes - held for job in others)

    def _plan(self, now_ns: int, room_bytes: int, here: dict[int, Seen]) -> list[Want]:
        self._jobs = sorted(here)
        self._learn(now_ns, here)
        rules = EpochRules(
            link_bytes_per_s=self.rate, most_lost=self.rules.most_lost, hysteresis=self.rules.hysteresis,
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
        ahead = {self._jobs[m.tenant]: m.bytes for m in self._epoch.moves if m.ahead and m.inward}
        wants = [
            want
            for job, more in ahead.items()
            for want in self._towards(here[job], here[job].resident_bytes + more)
            if any(each.client == want.client and each.at_gate for each in here[job].processes)
        ]
        self._begin(Step.AHEAD, now_ns, sum(ahead.values()) if wants else 0)
        return wants

    def _learn(self, now_ns: int, here: dict[int, Seen]) -> None:
        """How much of the device each has used in its turn."""
        for job in self.running & here.keys():
            known, now = self._known[job], here[job].gpu_time_ns
            took_ns = now_ns - known.turn_ns
            if now is not None and known.gpu_time_ns is not None and took_ns > 0:
                known.work = min(1.0, max((now - known.gpu_time_ns) / took_ns, LEAST_WORK))

    def _begin(self, step: Step, now_ns: int, moved_bytes: int) -> None:
        self.step, self._began_ns, self._awaited = step, now_ns, {}
        takes_ns = int(2e9 * moved_bytes / self.rate) + GRACE_NS if moved_bytes else 0
        self._until_ns = now_ns + (STOP_NS if step is Step.STOP else takes_ns)

    def _step_is_over(self, now_ns: int, here: dict[int, Seen]) -> bool:
        if now_ns >= self._until_ns:
            return True
        processes = {each.client: each for job in here.values() for each in job.processes}
        if self.step is Step.STOP:
            going = [each for job in here.values() if job.job in self.running - self._next for each in job.processes]
            return not any(each.busy for each in going)
        return all(
            client not in processes or processes[client].reached == goal for client, goal in self._awaited.items()
        )

    def _go_on(self, now_ns: int, here: dict[int, Seen]) -> list[Want]:
        if self.step is Step.AHEAD:
            self._stopped_ns = now_ns
            self._begin(Step.STOP, now_ns, 0)
            return []
        if self.step is Step.STOP:
            wants = self._leaving(here)
            self._begin(Step.OUT, now_ns, self._bytes_out() if wants else 0)
            if wants:
                return wants
        if self.step is Step.OUT:
            self._measure(now_ns, self._bytes_out())
            wants = [
                w
                for job in self._next - self.running
                if job in here
                for w in self._towards(here[job], ALL)
                if _stands(here[job], w)
            ]
            coming = sum(m.bytes for m in self._moves() if m.inward and not m.ahead)
            self._begin(Step.IN, now_ns, coming if wants else 0)
            if wants:
                return wants
        else:
            self._measure(now_ns, sum(m.bytes for m in self._moves() if m.inward and not m.ahead))
        return self._arrive(now_ns, here)

    def _arrive(self, now_ns: int, here: dict[int, Seen]) -> list[Want]:
        for job in self.running - self._next:
            self._known[job].since_ns = self._stopped_ns
        self.running = set(self._next) & here.keys()
        self.swaps += 1
        self.moved_ns += now_ns - self._stopped_ns
        length_ns = self._epoch.length_ns if self._epoch else self.rules.least_epoch_ns
        reckoned_ns = self._epoch.swap_ns if self._epoch else 0
        self.newest = Swap(frozenset(self.running), now_ns - self._stopped_ns, reckoned_ns, length_ns)
        self._run(now_ns, here, length_ns)
        return []

    # ---- moves

    def _moves(self) -> list[Move]:
        return self._epoch.moves if self._epoch else []

    def _bytes_out(self) -> int:
        return sum(move.bytes for move in self._moves() if not move.inward)

    def _leaving(self, here: dict[int, Seen]) -> list[Want]:
        wants = []
        for move in self._moves():
            job = here.get(self._jobs[move.tenant])
            if job is not None and not move.inward:
                wants += [w for w in self._towards(job, job.resident_bytes - move.bytes) if _stands(job, w)]
        return wants

    @staticmethod
    def _towards(job: Seen, bytes_: int) -> list[Want]:
        """Of several processes each keeps the same share of its memory."""
        if bytes_ >= job.bytes:
            return [Want(each.client, ALL) for each in job.processes]
        share = max(bytes_, 0) / max(job.bytes, 1)
        return [Want(each.client, int(each.movable_bytes * share)) for each in job.processes]

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

    def _measure(self, now_ns: int, moved_bytes: int) -> None:
        """The link's rate, by a step that moved something and ended by itself."""
        took_ns = now_ns - self._began_ns
        if self._awaited and moved_bytes and took_ns > 0 and now_ns < self._until_ns:
            seen = min(max(moved_bytes / took_ns * 1e9, LEAST_RATE), MOST_RATE)
            self.rate = seen if self.rate == self.rules.link_bytes_per_s else self.rate + (seen - self.rate) / 4


def _stands(job: Seen, want: Want) -> bool:
    """Somebody is there to move: a thread of the process stands at its gate."""
    return any(each.client == want.client and each.at_gate for each in job.processes)
