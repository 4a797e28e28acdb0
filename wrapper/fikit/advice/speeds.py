"""How fast jobs are beside each other: measured pairs where there are any, the closed form for everything else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fikitd.history.pairs import Name, Pair
from fikitd.placement import Device, Priorities, Slowdowns

from fikit.advice.facts import Facts, Neighbour

MOST_NAMES: Final = 1000


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
    kinds = {who: kind for kind, who in enumerate(busy)} if facts.pairs else {}
    device = Device.MPS if facts.mps else Device.SLICES
    speeds, form = Slowdowns(len(kinds), device), Slowdowns(device=device)
    for manner, first, second in _known(facts.pairs, kinds):
        said = _said(facts.pairs, manner, first, second)
        loads = [(busy[first], -1), (busy[second], -1)]
        ones = [slowdown or 1 / rate for slowdown, rate in zip(said, form.rates(manner, loads), strict=True)]
        speeds.measured(manner, kinds[first], kinds[second], *ones)
    own = facts.request.who
    beside = {each.who for gpu in facts.gpus for each in gpu.neighbours}
    pairs = {
        frozenset((pair.own, pair.other))
        for pair in facts.pairs
        if own in (pair.own, pair.other) and {pair.own, pair.other} <= beside | {own}
    }
    return Speeds(facts, speeds, kinds, len(pairs))


def _known(pairs: Iterable[Pair], kinds: Mapping[Name, int]) -> set[tuple[Priorities, Name, Name]]:
    """The pairs of these names of which something was measured, the one with the higher priority first."""
    found = set()
    for own, other, standing in pairs:
        if own in kinds and other in kinds:
            first, second = (
                (other, own) if standing == "below" or (standing == "equal" and own > other) else (own, other)
            )
            found.add((Priorities.EQUAL if standing == "equal" else Priorities.ORDERED, first, second))
    return found


def _said(
    pairs: Mapping[Pair, float], manner: Priorities, first: Name, second: Name
) -> tuple[float | None, float | None]:
    if manner is Priorities.EQUAL:
        return pairs.get(Pair(first, second, "equal")), pairs.get(Pair(second, first, "equal"))
    return pairs.get(Pair(first, second, "above")), pairs.get(Pair(second, first, "below"))
