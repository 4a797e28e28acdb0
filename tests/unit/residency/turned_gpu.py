"""A GPU in manual time whose jobs do not fit together: fikitd.gpus.memory_turns decides, processes do what they are told at the rates of the link."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fikitd.gpus.memory_turns import Goal, MemoryTurns, MovableJob, Process, Step
from fikitd.gpus.residency import EpochRules, Link

GIB = 2**30
MS = 1_000_000
S = 1000 * MS


RULES = EpochRules(least_epoch_ns=30 * S, patience_ns=60 * S, max_wait_ns=300 * S)


@dataclass
class Gpu:
    """A GPU of 16 GiB with one process per job, which does what it is told at the rates of its link; or nothing at all (deaf)."""

    room: int
    deaf: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)  # they report just before nobody would wait for them any more
    turns: MemoryTurns = field(default_factory=lambda: MemoryTurns(RULES))
    jobs: dict[int, MovableJob] = field(default_factory=dict)
    now_ns: int = 0
    goals: dict[int, tuple[int, int]] = field(default_factory=dict)  # client: number and bytes
    ran_ns: dict[int, int] = field(default_factory=dict)
    nobody_ns: int = 0  # nobody ran
    link: Link = field(default_factory=Link)
    number: int = 0

    def add(self, job: int, bytes_: int, *, at_gate: bool = True, busy: bool = False) -> None:
        self.jobs[job] = MovableJob(job, [Process(job, bytes_, bytes_, 0, at_gate, busy, 0)], 64 * GIB)

    def change(self, job: int, **what: object) -> None:
        self.jobs[job] = replace(self.jobs[job], processes=[replace(self.jobs[job].processes[0], **what)])  # type: ignore[arg-type]

    def look(self) -> list[Goal]:
        goals = self.turns.look(self.now_ns, self.room, 16 * GIB, list(self.jobs.values()))
        for goal in goals:
            self.number += 1
            self.goals[goal.client] = self.number, goal.bytes
            self.turns.told(goal.client, self.number)
        return goals

    def pass_(self, seconds: float) -> None:
        for _ in range(round(seconds * 20)):
            self.look()
            away = self.turns.away(list(self.jobs.values()))
            self.nobody_ns += 50 * MS * (away >= self.jobs.keys())
            for job in self.jobs:
                if job not in away:
                    self.ran_ns[job] = self.ran_ns.get(job, 0) + 50 * MS
            self.now_ns += 50 * MS
            for client, (number, goal) in self.goals.items():
                if client in self.jobs and client not in self.deaf:
                    self._move(client, number, goal)

    def _move(self, client: int, number: int, goal: int) -> None:
        (process,) = self.jobs[client].processes
        goal = min(goal, process.movable_bytes)
        most_in, most_out = (round(rate * 0.05) for rate in (self.link.in_bytes_per_s, self.link.out_bytes_per_s))
        now = process.resident_bytes + max(-most_out, min(most_in, goal - process.resident_bytes))
        reports = now == goal and (client not in self.late or self.now_ns + 100 * MS >= self.turns._until_ns)
        self.change(client, resident_bytes=now, reached=number if reports else process.reached)

    def until(self, step: Step) -> None:
        for _ in range(4000):
            if self.turns.step is step:
                return
            self.pass_(0.05)
        raise AssertionError(f"never came to {step}")

    def running(self) -> set[int]:
        return set(self.jobs) - self.turns.away(list(self.jobs.values()))


def three(**first: bool) -> Gpu:
    """Of which one fits, and a part of another one beside it."""
    gpu = Gpu(10 * GIB)
    for job in (1, 2, 3):
        gpu.add(job, 8 * GIB, **first)
    gpu.pass_(200)
    return gpu
