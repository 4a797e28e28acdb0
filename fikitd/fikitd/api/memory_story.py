"""What became of a job's memory that may lie on the host: how much was moved and missed, and how much was on the GPU over time. Pure.

What is on the GPU the job's own shim says (`struct fikit_moves`), which sees no page fault: a driver that takes memory away by itself is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from fikitd.base import schema

Moves = Mapping[str, Any]  # as Dispatcher.moves() gives them

POINTS: Final = 240
STEP_S: Final = 1.0
MOST: Final = 2**60  # of a sum: each client's part is bounded, and nobody has so many


@dataclass(frozen=True)
class Moved:
    """Sums over clients. moving_ns: that its threads waited for moves."""

    in_bytes: int = 0
    out_bytes: int = 0
    missed_bytes: int = 0
    moving_ns: int = 0
    turns: int = 0
    failures: int = 0

    def plus(self, moves: Moves) -> Moved:
        return Moved(**{name: min(value + moves[name], MOST) for name, value in asdict(self).items()})


@dataclass(frozen=True)
class Point:
    """From t_s on, of the job's elapsed time: the most that was on the GPU of the job's and of other jobs' memory, and what was moved until its end."""

    t_s: float
    resident_bytes: int
    others_bytes: int
    moved_bytes: int
    turns: int

    def with_later(self, later: Point) -> Point:
        return replace(
            later,
            t_s=self.t_s,
            resident_bytes=max(self.resident_bytes, later.resident_bytes),
            others_bytes=max(self.others_bytes, later.others_bytes),
        )


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """By which a job's memory moves, or moved last: budget_bytes of the peak_bytes that its iteration touches are on the GPU. expected_loss: share by
    which the iteration becomes longer. passes, skipped: iterations gone by plans of the job so far, and moves of them that were due and not made.
    processes: so many went by plans at the same time; of several budget_bytes, peak_bytes, passes and skipped are sums, moved_bytes_per_pass the mean of
    all passes, expected_loss the greatest."""

    budget_bytes: int
    peak_bytes: int
    moved_bytes_per_pass: int
    expected_loss: float
    passes: int
    skipped: int
    processes: int = 1


def together(plans: Iterable[MemoryPlan]) -> MemoryPlan:
    """Of the processes of a job, at least one."""
    each = list(plans)
    weights = [max(one.passes, 1) for one in each]
    return MemoryPlan(
        min(sum(one.budget_bytes for one in each), MOST),
        min(sum(one.peak_bytes for one in each), MOST),
        sum(one.moved_bytes_per_pass * weight for one, weight in zip(each, weights, strict=True)) // sum(weights),
        max(one.expected_loss for one in each),
        min(sum(one.passes for one in each), MOST),
        min(sum(one.skipped for one in each), MOST),
        len(each),
    )


_COUNT: Final = schema.whole(0, MOST)
PLAN_NOW_CHECK: Final = schema.fields(
    {"budget_bytes": _COUNT, "peak_bytes": _COUNT}, {"expected_loss": schema.amount()}
)
"""What plan_now() makes."""
_POINT: Final = schema.fields(
    {"t_s": schema.amount(), "resident_bytes": _COUNT, "others_bytes": _COUNT, "moved_bytes": _COUNT, "turns": _COUNT}
)
CHECK: Final = schema.fields(
    {
        "host_limit_bytes": _COUNT, "resident_peak_bytes": schema.null_or(_COUNT), "in_bytes": _COUNT, "out_bytes": _COUNT,
        "missed_bytes": _COUNT, "moving_s": schema.amount(), "turns": _COUNT, "failures": _COUNT,
        "history": schema.several(_POINT, POINTS),
    }
)  # fmt: skip
"""The part of a report record that fields() makes."""
PLAN_CHECK: Final = schema.fields(
    {
        "budget_bytes": _COUNT, "peak_bytes": _COUNT, "moved_bytes_per_pass": _COUNT, "expected_loss": schema.amount(), "passes": _COUNT,
        "skipped": _COUNT,
    },
    {"processes": schema.whole(1, MOST)},
)  # fmt: skip
"""The part of it that plan_fields() makes."""


def host_limit_bytes(rows: Mapping[str, Any]) -> int | None:
    """Of what rows() has left: no rows are those of a job without memory on the host. None: a fikitd of before did not say."""
    if not rows:
        return 0
    limit = rows.get("host_limit_bytes")
    return limit if type(limit) is int and limit > 0 else None


class MemoryStory:
    """Of one job. `host_limit_bytes`: how much of its memory may lie on the host."""

    def __init__(self, host_limit_bytes: int) -> None:
        self.host_limit_bytes = host_limit_bytes
        self._gone = Moved()  # of clients that are
        self._points: list[Point] = []
        self._step_s = STEP_S
        self._plan: MemoryPlan | None = None  # of the report
        self._plans: dict[int, MemoryPlan] = {}  # by client, of those that have one
        self._counts: dict[int, tuple[int, int]] = {}  # by client: passes and skipped moves
        self._before = (0, 0)  # of clients that are gone

    def planned(self, client: int, plan: MemoryPlan) -> None:
        """The newest plan of a client, and what came of the client's plans so far."""
        self._counts[client], self._plans[client] = (plan.passes, plan.skipped), plan
        now = together(self._plans.values())
        if self._plan is None or now.processes >= self._plan.processes:
            self._plan = now
        passes, skipped = (sum(count) for count in zip(self._before, *self._counts.values(), strict=True))
        self._plan = replace(self._plan, passes=min(passes, MOST), skipped=min(skipped, MOST))

    def without_plan(self, client: int) -> None:
        """The client has no plan any more."""
        self._plans.pop(client, None)

    def plans_ended(self, client: int) -> None:
        """The client is no more."""
        self._plans.pop(client, None)
        passes, skipped = self._counts.pop(client, (0, 0))
        self._before = self._before[0] + passes, self._before[1] + skipped

    def plan_now(self) -> dict[str, Any] | None:
        """The room that its memory has by the plans that its processes have now, and what that costs; None: they have none."""
        if not self._plans:
            return None
        now = together(self._plans.values())
        return {"budget_bytes": now.budget_bytes, "peak_bytes": now.peak_bytes, "expected_loss": now.expected_loss}

    def plan_fields(self) -> dict[str, Any] | None:
        """`memory.plan` of the report record; None: it never had one."""
        return None if self._plan is None else asdict(self._plan)

    def went(self, moves: Moves) -> None:
        """A client with these counters is no more."""
        self._gone = self._gone.plus(moves)

    def so_far(self, clients: Iterable[Moves]) -> Moved:
        """`clients`: of those that are there."""
        moved = self._gone
        for moves in clients:
            moved = moved.plus(moves)
        return moved

    def look(
        self, t_s: float, plain_bytes: int, others_bytes: int, clients: Iterable[Moves], gpu_bytes: int = MOST
    ) -> None:
        """How it is at t_s of the job's elapsed time. plain_bytes: what of the job's memory cannot leave the GPU. gpu_bytes: what the GPU has: the
        shim does not see what the driver takes away by itself. Of a shim that says nothing of its memory nothing is known."""
        there = list(clients)
        if not any(moves["movable_bytes"] for moves in there) and not self._points:
            return
        moved = self.so_far(there)
        resident = min(plain_bytes + sum(moves["resident_bytes"] for moves in there), gpu_bytes, MOST)
        now = Point(t_s, resident, min(others_bytes, MOST), moved.in_bytes + moved.out_bytes, moved.turns)
        if self._points and t_s < self._points[-1].t_s + self._step_s:
            self._points[-1] = self._points[-1].with_later(now)
            return
        self._points.append(now)
        if len(self._points) > POINTS:
            pairs = [self._points[n : n + 2] for n in range(0, len(self._points), 2)]
            self._points = [pair[0] if len(pair) == 1 else pair[0].with_later(pair[1]) for pair in pairs]
            self._step_s *= 2

    def fields(self, clients: Iterable[Moves]) -> dict[str, Any]:
        """`memory.moved` of the report record (docs/design/contracts.md, "Report records")."""
        moved = asdict(self.so_far(clients))
        return {
            "host_limit_bytes": self.host_limit_bytes,
            "resident_peak_bytes": max((point.resident_bytes for point in self._points), default=None),
            "moving_s": moved.pop("moving_ns") / 1e9,
            **moved,
            "history": [asdict(point) for point in self._points],
        }

    def rows(self) -> dict[str, Any]:
        """For the fikitd after this one."""
        return {
            "host_limit_bytes": self.host_limit_bytes,
            "gone": asdict(self._gone),
            "step_s": self._step_s,
            "points": [asdict(point) for point in self._points],
            "plan": self.plan_fields(),
        }

    def go_on_from(self, rows: Mapping[str, Any]) -> None:
        """ValueError, TypeError or KeyError: these are none."""
        if rows:
            self._gone = Moved(**rows["gone"])
            self._step_s = max(float(rows["step_s"]), STEP_S)
            self._points = [Point(**row) for row in rows["points"]][:POINTS]
            self._plan = MemoryPlan(**rows["plan"]) if rows.get("plan") else None
            self._before = (self._plan.passes, self._plan.skipped) if self._plan else (0, 0)
