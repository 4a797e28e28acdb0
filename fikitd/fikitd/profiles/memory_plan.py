"""From what a program's profile says of its kernels' memory to a plan of who is on the GPU when (docs/design/residency.md, case B). Pure.

What is learnt (profile_accesses) names places; a plan moves chunks of 2 MiB. `iteration` makes the sequence of one of the other, `points` what
each budget would cost, `Budgets` decides for several jobs that run at the same time, and plans anew where the rules say so, `orders` says a plan as
moves behind launches. Nobody here knows a clock, and nothing is moved. Plans of long iterations take seconds: work for a process with the user's rights.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fikitd.gpus.residency import (
    Again,
    BudgetPlan,
    Link,
    Sequence,
    least_bytes,
    peak_bytes,
    plan,
    plan_again,
    share_room,
)
from fikitd.profiles.profile_accesses import PAGE_BYTES

CHUNK_BYTES: Final = 2 * 2**20
"""What a GPU moves as a whole (open-gpu-kernel-modules 595.45.04)."""
MOST_CHUNKS: Final = 2**20
COUNTS_FROM: Final = 4
"""A place counts that one in so many of the passes has named in which its launch was looked at."""
BUDGETS: Final = (0.5, 0.6, 0.7, 0.8, 0.9)
"""That are tried, of what an iteration needs."""
MOVING_COSTS: Final = 0.01
"""Of a job's time, where its moves take all of the link's: of two budgets that cost the program nothing, the one that moves less."""
_SHORTEST_NS: Final = 1_000


class Range(NamedTuple):
    """A chunk in the program's terms: bytes from the begin of the allocation with that number."""

    allocation: int
    begin: int
    size: int


@dataclass(frozen=True)
class Iteration:
    """An iteration as the rules take it: kernel i of `sequence` is its launch i, and one behind the last is its pauses, of pause_ns.

    looked_at: share of the launches that were. peak_bytes: of all chunks that its launches touch. least_bytes: the most that one touches.
    """

    path: str
    sequence: Sequence
    ranges: list[Range]
    launches: int
    length_ns: int
    pause_ns: int
    looked_at: float
    peak_bytes: int
    least_bytes: int


def iteration(accesses: Mapping[str, Any], number: int = 0) -> Iteration | None:
    """Of checked accesses; None where no launch of it touches anything. ValueError with a reason where it is more than can be planned."""
    found = accesses["iterations"][number]
    steps, pages = found["steps"], accesses["pages"]
    places = _places(found)
    begins = _begins(places, pages)
    chunks: dict[tuple[int, int], int] = {}
    touched = [sorted(_chunks(own, begins, chunks)) for own in places]
    if not chunks:
        return None
    sequence = Sequence()
    durations = [duration for _, duration, _ in steps]
    known = [duration for duration in durations if duration > 0]
    usual = max(sum(known) // max(len(known), 1), _SHORTEST_NS)
    for duration, own in zip(durations, touched, strict=True):
        sequence.add(duration or usual, own)
    pause_ns = max(found["length_ns"] - sequence.total_ns, _SHORTEST_NS)
    sequence.add(pause_ns, [])
    ranges = [
        Range(allocation, chunk * CHUNK_BYTES, min(CHUNK_BYTES, pages[allocation] * PAGE_BYTES - chunk * CHUNK_BYTES))
        for allocation, chunk in chunks
    ]
    return Iteration(
        found["path"], sequence, ranges, len(steps), sequence.total_ns, pause_ns,
        sum(scans > 0 for _, _, scans in steps) / len(steps),
        peak_bytes(sequence, CHUNK_BYTES), least_bytes(sequence, CHUNK_BYTES),
    )  # fmt: skip


def _places(found: Mapping[str, Any]) -> list[list[tuple[int, int]]]:
    """Of each step the places that count: (allocation, page)."""
    places: list[list[tuple[int, int]]] = [[] for _ in found["steps"]]
    for step, allocation, page, count in found["touches"]:
        if count * COUNTS_FROM >= found["steps"][step][2]:
            places[step].append((allocation, page))
    return places


def _begins(places: Items[Items[tuple[int, int]]], pages: Items[int]) -> dict[int, list[int]]:
    """Of each allocation the pages where something begins, and its end."""
    begins: dict[int, set[int]] = {}
    for own in places:
        for allocation, page in own:
            begins.setdefault(allocation, set()).add(page)
    if sum(-(-pages[each] * PAGE_BYTES // CHUNK_BYTES) for each in begins) > MOST_CHUNKS:
        raise ValueError("its iteration touches more memory than can be planned")
    return {allocation: [*sorted(found), pages[allocation]] for allocation, found in begins.items()}


def _chunks(
    own: Items[tuple[int, int]], begins: Mapping[int, list[int]], chunks: dict[tuple[int, int], int]
) -> set[int]:
    """The chunks of these places, up to where the next one begins; new ones get the next number."""
    found = set()
    for allocation, page in own:
        end = begins[allocation][bisect_right(begins[allocation], page)]
        for chunk in range(page * PAGE_BYTES // CHUNK_BYTES, (end * PAGE_BYTES - 1) // CHUNK_BYTES + 1):
            found.add(chunks.setdefault((allocation, chunk), len(chunks)))
    return found


class Point(NamedTuple):
    """A budget that an iteration can have: stretch is the share by which it becomes longer, moved_bytes what it moves each time."""

    budget_bytes: int
    stretch: float
    moved_bytes: int


def points(of: Iteration, link: Link, budgets: Items[float] = BUDGETS) -> list[Point]:
    """What each budget would cost, the smallest first, that of all of it last; budgets that no plan keeps are left out."""
    found = []
    for share in sorted(budgets):
        budget = int(share * of.peak_bytes) // CHUNK_BYTES * CHUNK_BYTES
        if budget < of.least_bytes:
            continue
        made = plan(of.sequence, link, CHUNK_BYTES, budget)
        if made.fits:
            found.append(Point(budget, made.stretch, made.moved_bytes))
    return [*found, Point(of.peak_bytes, 0.0, 0)]


class Order(NamedTuple):
    """A move of one range: delay_ns after the end of the launch with this number. inward: to the GPU."""

    launch: int
    delay_ns: int
    inward: bool
    range: Range


def orders(of: Iteration, made: BudgetPlan, first_launch: int) -> Iterator[Order]:
    """Those of the pass whose first launch has this number, in the order in which they begin. What begins before that launch has ended stands
    behind the last one of the pass before."""
    for transfer in made.transfers:
        pause = transfer.kernel >= of.launches
        yield Order(
            first_launch - 1 if pause else first_launch + transfer.kernel,
            transfer.delay_ns + (of.pause_ns if pause else 0), transfer.inward, of.ranges[transfer.chunk],
        )  # fmt: skip


@dataclass
class _Job:
    iteration: Iteration
    points: list[Point]
    budget_bytes: int = 0
    plan: BudgetPlan | None = None


class Budgets:
    """Of lower jobs that run at the same time on a GPU: which part of the room each has, and its plan. Jobs are called by any name.

    A plan is made anew when the program does something else, when the rules say so (30 % drift, 5 % of the bytes missed), and when the
    job's part has become another, as others come and go. What takes turns (case A) is here in its turn only.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._jobs: dict[str, _Job] = {}

    def budget_bytes(self, job: str) -> int:
        """What the job has of the room; 0: it does not fit beside the others, and is left to page faults."""
        return self._jobs[job].budget_bytes

    def plan(self, job: str) -> tuple[Iteration, BudgetPlan] | None:
        """None where it has no budget."""
        found = self._jobs[job]
        return None if found.plan is None else (found.iteration, found.plan)

    def learnt(self, job: str, of: Iteration) -> None:
        """What it does now; the same as before changes nothing. The next share() plans it."""
        known = self._jobs.get(job)
        if known is None or known.iteration.path != of.path:
            self._jobs[job] = _Job(of, points(of, self._link))

    def left(self, job: str) -> None:
        """Its memory, or its turn, is over."""
        self._jobs.pop(job, None)

    def observed(self, job: str, of: Iteration, iteration_ns: int, missed_bytes: int) -> Again:
        """Of the last passes, on the mean: how long one took and what of its memory was missing. `of`: what is learnt by now, by which it is
        planned anew where that is due, in the next share()."""
        known = self._jobs[job]
        if known.plan is None:
            return Again.NO
        again = plan_again(
            planned_iteration_ns=int(known.iteration.length_ns * (1 + known.plan.stretch)),
            planned_budget_bytes=known.budget_bytes,
            iteration_ns=iteration_ns,
            touched_bytes=known.iteration.peak_bytes,
            missed_bytes=missed_bytes,
            budget_bytes=known.budget_bytes,
        )
        if again is not Again.NO:
            self._jobs[job] = _Job(of, points(of, self._link))
        return again

    def share(self, room_bytes: int) -> list[str]:
        """Part so much among all jobs, so that they lose as little as possible together; the names of those that have a new plan, or none
        any more. Where not even the smallest budgets fit, nobody has one: those are for turns."""
        names = sorted(self._jobs)
        jobs = [self._jobs[name] for name in names]
        chosen = share_room(
            [[(point.budget_bytes, self._lost(job, point)) for point in job.points] for job in jobs], room_bytes
        )
        budgets = (
            [job.points[which].budget_bytes for job, which in zip(jobs, chosen, strict=True)]
            if chosen
            else [0] * len(jobs)
        )
        return [name for name, job, budget in zip(names, jobs, budgets, strict=True) if self._give(job, budget)]

    def _lost(self, job: _Job, point: Point) -> float:
        moving = point.moved_bytes / self._link.bytes_per_s / (job.iteration.length_ns / 1e9)
        return point.stretch + MOVING_COSTS * moving

    def _give(self, job: _Job, budget_bytes: int) -> bool:
        if job.budget_bytes == budget_bytes and (job.plan is not None or budget_bytes == 0):
            return False
        job.budget_bytes = budget_bytes
        job.plan = plan(job.iteration.sequence, self._link, CHUNK_BYTES, budget_bytes) if budget_bytes else None
        return True


class Allocation(NamedTuple):
    """What an iteration does with an allocation: launches that touch it, and the longest time between the end of one and the next."""

    number: int
    size: int
    launches: int
    longest_away_ns: int


def allocations(accesses: Mapping[str, Any], number: int = 0) -> list[Allocation]:
    """Those that are touched, the largest first."""
    found = accesses["iterations"][number]
    ends_ns, total_ns = [], 0
    for _, duration, _ in found["steps"]:
        total_ns += duration
        ends_ns.append(total_ns)
    length_ns = max(found["length_ns"], total_ns)
    users: dict[int, list[int]] = {}
    for step, own in enumerate(_places(found)):
        for allocation in dict.fromkeys(allocation for allocation, _ in own):
            users.setdefault(allocation, []).append(step)
    return sorted(
        (
            Allocation(
                allocation,
                accesses["pages"][allocation] * PAGE_BYTES,
                len(steps),
                _longest_ns(steps, ends_ns, length_ns),
            )
            for allocation, steps in users.items()
        ),
        key=lambda each: (-each.size, each.number),
    )


def _longest_ns(steps: Items[int], ends_ns: Items[int], length_ns: int) -> int:
    """Around the iteration."""
    begins_ns = [ends_ns[step - 1] if step else 0 for step in steps]
    following = [*begins_ns[1:], begins_ns[0] + length_ns]
    return max(begin_ns - ends_ns[step] for step, begin_ns in zip(steps, following, strict=True))
