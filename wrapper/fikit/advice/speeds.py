"""How fast jobs are beside each other: measured pairs where there are any, the closed form for everything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fikitd.gpus.placement import Device, Slowdowns
from fikitd.history.pairs import Name
from fikitd.history.speeds import MOST_NAMES, slowdowns

from fikit.advice.facts import Facts, Neighbour


@dataclass(frozen=True)
class Speeds:
    """kinds: the row of each user and name among measured pairs. measured: how many pairs of the job and a neighbour have been measured."""

    facts: Facts
    slowdowns: Slowdowns
    kinds: Mapping[Name, int]
    measured: int

    def kind(self, job: Neighbour) -> int:
        return -1 if job.who is None else self.kinds.get(job.who, -1)


def of(facts: Facts) -> Speeds:
    busy = {facts.request.who: facts.busy.share}
    for neighbour in (each for gpu in facts.gpus for each in gpu.neighbours):
        if neighbour.who is not None and len(busy) < MOST_NAMES:
            busy.setdefault(neighbour.who, neighbour.busy.share)
    speeds, kinds = slowdowns(facts.pairs, busy, Device.MPS if facts.mps else Device.SLICES)
    own = facts.request.who
    beside = {each.who for gpu in facts.gpus for each in gpu.neighbours}
    pairs = {
        frozenset((pair.own, pair.other))
        for pair in facts.pairs
        if own in (pair.own, pair.other) and {pair.own, pair.other} <= beside | {own}
    }
    return Speeds(facts, speeds, kinds, len(pairs))
