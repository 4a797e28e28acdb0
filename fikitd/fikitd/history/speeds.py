"""Measured pairs as the rules want them: the closed form, and what earlier runs side by side said instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fikitd.gpus.placement import Device, Priorities, Slowdowns
from fikitd.history.pairs import Name, Pair

MOST_NAMES: Final = 1000
"""Of one table: it has a row for each."""


def slowdowns(
    pairs: Mapping[Pair, float], busy: Mapping[Name, float], device: Device
) -> tuple[Slowdowns, dict[Name, int]]:
    """For jobs of these users and names, with the share of the GPU that each keeps busy; and the row of each name, none without pairs.

    Of a pair of which one side was measured the other is the closed form's.
    """
    kinds = {who: kind for kind, who in enumerate(busy)} if pairs else {}
    speeds, form = Slowdowns(len(kinds), device), Slowdowns(device=device)
    for manner, first, second in _known(pairs, kinds):
        said = _said(pairs, manner, first, second)
        loads = [(busy[first], -1), (busy[second], -1)]
        ones = [slowdown or 1 / rate for slowdown, rate in zip(said, form.rates(manner, loads), strict=True)]
        speeds.measured(manner, kinds[first], kinds[second], *ones)
    return speeds, kinds


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
