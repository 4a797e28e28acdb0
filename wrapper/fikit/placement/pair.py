"""Which GPU a waiting job should share, or for whose end it should wait: the rules of `fikitd.gpus.placement` on what is where now. Pure.

As in the simulator (docs/design/placement.md): in the order of the queue, an idle GPU before all, else the one where the sum of all ends gains
most, else none, if waiting is better. A job for which no GPU has room is Slurm's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from fikitd.gpus.placement import PAIR, Priorities, Resident, Slowdowns, consider, replay

MOST_RESIDENTS: Final = 15
"""On one GPU: with the new one as many as the rules reckon with."""
MOST_WAITED_FOR: Final = 32


@dataclass(frozen=True)
class Gpu:
    """A GPU that Slurm can be told by a type of its own. partitions: of its node."""

    node: str
    type: str
    shards: int
    partitions: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Sharer:
    """A job that shares a GPU, or wants to. rest_s: expected run time that is left, alone; busy: its share of the GPU meanwhile; kind: its
    row among measured pairs, -1: none."""

    job: int
    rest_s: float
    busy: float
    shards: int
    partitions: frozenset[str] = frozenset()
    kind: int = -1

    @property
    def resident(self) -> Resident:
        return Resident(self.rest_s, self.busy, self.shards, self.kind)


@dataclass
class Board:
    """Who is where now. taken: GPUs that somebody has alone, or whose node takes no jobs."""

    gpus: Sequence[Gpu]
    there: dict[Gpu, list[Sharer]] = field(default_factory=dict)
    taken: set[Gpu] = field(default_factory=set)

    def on(self, gpu: Gpu) -> list[Sharer]:
        return self.there.get(gpu, [])

    def room(self, gpu: Gpu) -> int:
        return gpu.shards - sum(each.shards for each in self.on(gpu))


@dataclass(frozen=True)
class Decision:
    """on: the GPU that it gets now; waits_for: the jobs one of which has to end first, until about until_s from now. Neither: Slurm decides."""

    job: int
    on: Gpu | None = None
    waits_for: tuple[int, ...] = ()
    until_s: float = 0.0


def decide(waiting: Sequence[Sharer], board: Board, slowdowns: Slowdowns) -> Iterator[Decision]:
    """For each in the order of the queue; those that get a GPU are counted there for those behind them."""
    wanted = 0  # GPUs that become free sooner are for those before
    for job in waiting:
        decision = _decide(job, board, slowdowns, wanted)
        if decision.on is None:
            wanted += 1
        else:
            board.there.setdefault(decision.on, []).append(job)
        yield decision


def _decide(job: Sharer, board: Board, slowdowns: Slowdowns, wanted: int) -> Decision:
    allowed = [gpu for gpu in board.gpus if gpu not in board.taken and not gpu.partitions.isdisjoint(job.partitions)]
    with_room = [gpu for gpu in allowed if board.room(gpu) >= job.shards and len(board.on(gpu)) < MOST_RESIDENTS]
    if not with_room:
        return Decision(job.job)
    idle = next((gpu for gpu in with_room if not board.on(gpu)), None)
    if idle is not None:
        return Decision(job.job, on=idle)
    ends = {gpu: _free_s(board.on(gpu), slowdowns) for gpu in allowed}
    by_end = sorted(ends.values())
    wait_s = by_end[wanted] if wanted < len(by_end) else inf
    best, gain_s = None, -inf
    for gpu in with_room:
        residents = [each.resident for each in board.on(gpu)]
        offer = consider(slowdowns, PAIR, job.resident, residents, board.room(gpu), wait_s)
        if offer.accepted and offer.gain_s > gain_s:
            best, gain_s = gpu, offer.gain_s
    if best is not None:
        return Decision(job.job, on=best)
    soonest = min(with_room, key=ends.__getitem__)
    if ends[soonest] == inf:  # nobody knows: nothing to wait for
        return Decision(job.job)
    return Decision(
        job.job,
        waits_for=tuple(sorted(each.job for each in board.on(soonest)))[:MOST_WAITED_FOR],
        until_s=ends[soonest],
    )


def _free_s(there: Sequence[Sharer], slowdowns: Slowdowns) -> float:
    if any(each.rest_s == inf for each in there):
        return inf
    return max(replay(slowdowns, Priorities.AUTOMATIC, [each.resident for each in there]), default=0.0)
