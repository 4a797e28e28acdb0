"""How much two jobs really slowed each other, from outcomes: who was on one GPU at the same time, and what that did to each.

An outcome says when a run ended, how long it took, how much longer than alone, and on which GPU. A run that was beside one other for most of
its time, and beside hardly anybody else, says how much that one slowed it while both were there:

    alone = (elapsed - together) + together / slowdown

The median of such runs is the pair's slowdown. docs/design/placement.md, "The rules": a measured pair is believed before the closed form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import Final, Literal, NamedTuple

from fikitd.api.outcomes import UNKNOWN, Outcome
from fikitd.history.known import MOST_SLOWED, alone_s

LEAST_TOGETHER: Final = 0.5  # of the run: of less, errors of the slowdown would count double
MOST_OF_OTHERS: Final = 0.05  # of the run, beside third jobs
LEAST_S: Final = 30.0  # ends are whole seconds
FEWEST: Final = 2  # runs
MOST_RUNS: Final = 16  # of a pair, the newest
LOOKED_BACK: Final = 64  # runs that began earlier on the same GPU

Name = tuple[int, int]
"""User and name of a job: uid, fikitd.api.outcomes.name_key()."""

Standing = Literal["above", "equal", "below"]


class Pair(NamedTuple):
    """`own` beside `other`, and where `own` stands in priority."""

    own: Name
    other: Name
    standing: Standing


def learn(outcomes: Iterable[Outcome]) -> dict[Pair, float]:
    """The slowdown of `own` in each pair of which enough is known, 1 to MOST_SLOWED."""
    found: dict[Pair, list[tuple[int, float]]] = defaultdict(list)
    for gpu in _by_gpu(outcomes).values():
        for run, together in _beside(gpu):
            if (measured := _measured(run, together)) is not None:
                found[measured[0]].append((run.ended_s, measured[1]))
    return {
        pair: median(slowdown for _, slowdown in sorted(runs)[-MOST_RUNS:])
        for pair, runs in found.items()
        if len(runs) >= FEWEST
    }


def _by_gpu(outcomes: Iterable[Outcome]) -> Mapping[int, list[Outcome]]:
    by_gpu: dict[int, list[Outcome]] = defaultdict(list)
    for each in outcomes:
        if each.gpu and each.elapsed_s > 0:
            by_gpu[each.gpu].append(each)
    for runs in by_gpu.values():
        runs.sort(key=_began)
    return by_gpu


def _began(outcome: Outcome) -> float:
    return outcome.ended_s - outcome.elapsed_s


def _beside(gpu: list[Outcome]) -> Iterator[tuple[Outcome, list[tuple[float, Outcome]]]]:
    """Each run with the others that were there, and for how long; `gpu`: by their begin."""
    there: dict[int, list[tuple[float, Outcome]]] = defaultdict(list)
    for at, run in enumerate(gpu):
        for before in range(max(at - LOOKED_BACK, 0), at):
            other = gpu[before]
            if (together_s := min(run.ended_s, other.ended_s) - _began(run)) > 0:
                there[at].append((together_s, other))
                there[before].append((together_s, run))
    return ((run, there[at]) for at, run in enumerate(gpu))


def _measured(run: Outcome, beside: list[tuple[float, Outcome]]) -> tuple[Pair, float] | None:
    """What it says of a pair, if anything."""
    if run.slowdown == UNKNOWN or not beside:
        return None
    together_s, other = max(beside, key=lambda each: each[0])
    third_s = sum(each for each, _ in beside) - together_s
    if together_s < max(LEAST_S, LEAST_TOGETHER * run.elapsed_s) or third_s > MOST_OF_OTHERS * run.elapsed_s:
        return None
    done_s = alone_s(run) - (run.elapsed_s - together_s)
    slowdown = min(max(together_s / done_s, 1.0), MOST_SLOWED) if done_s > 0 else MOST_SLOWED
    standing: Standing = (
        "equal" if run.priority == other.priority else "above" if run.priority < other.priority else "below"
    )
    return Pair((run.uid, run.name), (other.uid, other.name), standing), slowdown
