"""A GPU in manual time whose jobs have less room than they need: fikitd.gpus.memory_budgets decides, workers answer as the test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fikitd.gpus.memory_budgets import (
    VALID_NS,
    Action,
    Ask,
    InPass,
    MemoryBudgets,
    Program,
    Renew,
    Send,
)
from fikitd.gpus.memory_outline import Outline, Planned, Point

GIB = 2**30
MS = 1_000_000
S = 1000 * MS
LENGTH_NS = 100 * MS
LAUNCHES = 50
GOOD = (
    Point(5 * GIB, 0.30, 6 * GIB),
    Point(6 * GIB, 0.05, 4 * GIB),
    Point(7 * GIB, 0.0, 2 * GIB),
    Point(8 * GIB, 0.0, 0),
)


def outline(path: str, points: Sequence[Point] = GOOD, looked_at: float = 1.0) -> Outline:
    return Outline(path, LAUNCHES, LENGTH_NS, looked_at, points[-1].budget_bytes, list(points))


@dataclass
class Gpu:
    """Of 16 GiB. Programs run passes of LENGTH_NS; workers answer at once with what `answers` has for a path, or not at all (deaf)."""

    room: int
    budgets: MemoryBudgets = field(default_factory=MemoryBudgets)
    programs: dict[int, Program] = field(default_factory=dict)
    answers: dict[str, Outline | None] = field(default_factory=dict)
    away: set[int] = field(default_factory=set)
    others: int = 0
    stretch: dict[int, float] = field(default_factory=dict)
    deaf: bool = False
    tries_room: bool = False  # answers have a budget of the room, too
    now_ns: int = 0
    actions: list[Action] = field(default_factory=list)
    plans: dict[int, tuple[Planned, int, int]] = field(default_factory=dict)  # client: plan, first launch, valid until
    needs: dict[int, int] = field(default_factory=dict)

    def add(
        self,
        client: int,
        bytes_: int = 8 * GIB,
        path: str = "a" * 16,
        points: Sequence[Point] = GOOD,
        job: int | None = None,
    ) -> None:
        self.programs[client] = Program(client if job is None else job, client, bytes_, InPass(path, LAUNCHES, 1, 0))
        self.answers.setdefault(path, outline(path, points))

    def change(self, job: int, **what: object) -> None:
        self.programs[job] = replace(self.programs[job], **what)  # type: ignore[arg-type]

    def look(self) -> list[Action]:
        everybody = list(self.programs.values())
        self.needs = self.budgets.needs(self.now_ns, self.room, 16 * GIB, everybody, self.others)
        running = {program.job for client, program in self.programs.items() if client not in self.away}
        actions = self.budgets.due(self.now_ns, everybody, running, self.others)
        for action in actions:
            self._do(action)
        self.actions += actions
        return actions

    def _do(self, action: Action) -> None:
        if isinstance(action, Ask):
            assert action.client not in self.away
            if not self.deaf:
                self.answer(action)
        elif isinstance(action, Send):
            self.plans[action.client] = action.planned, action.first_launch, self.now_ns + VALID_NS
        elif isinstance(action, Renew):
            planned, first, _ = self.plans[action.client]
            self.plans[action.client] = planned, action.first_launch or first, self.now_ns + VALID_NS
        else:
            del self.plans[action.client]

    def answer(self, ask: Ask) -> None:
        found = self.answers.get(ask.path)
        if found is not None and self.tries_room:
            tried = ask.room_bytes if ask.budget_bytes is None else ask.budget_bytes
            if tried not in {point.budget_bytes for point in found.points}:
                found = replace(found, points=sorted([*found.points, Point(tried, 0.2, 5 * GIB)]))
        if ask.budget_bytes is None:
            self.budgets.outlined(self.now_ns, ask, found)
            return
        planned = None
        if found is not None:
            (point,) = [each for each in found.points if each.budget_bytes == ask.budget_bytes]
            planned = Planned(
                ask.path, LAUNCHES, ask.budget_bytes, found.peak_bytes, point.moved_bytes, point.stretch, LENGTH_NS, 3
            )
        self.budgets.made(self.now_ns, ask, planned, b"moves")

    def pass_(self, seconds: float) -> list[Action]:
        """Programs that are not away go on by whole passes."""
        begin = len(self.actions)
        for _ in range(round(seconds * 20)):
            self.look()
            self.now_ns += 50 * MS
            for job, program in self.programs.items():
                if program.inside is None or job in self.away:
                    continue
                taken = self.plans.get(job)
                length_ns = int(LENGTH_NS * (1 + self.stretch.get(job, taken[0].stretch if taken else 0.0)))
                passes = self.now_ns // length_ns - (self.now_ns - 50 * MS) // length_ns
                first = program.inside.first_launch + passes * program.inside.launches
                self.change(job, inside=program.inside._replace(first_launch=first, latest_ns=length_ns))
        return self.actions[begin:]

    def budget(self, job: int) -> int | None:
        return self.plans[job][0].budget_bytes if job in self.plans else None


def asks(actions: Sequence[Action]) -> list[Ask]:
    return [each for each in actions if isinstance(each, Ask)]


def sends(actions: Sequence[Action]) -> list[Send]:
    return [each for each in actions if isinstance(each, Send)]
