"""Each GPU for the job: from when, beside whom, under which priority, what that costs it and them, or why not.

Reckoned with the rules of placement (fikitd.gpus.placement, docs/design/placement.md): ends are played through with and without the job. Where several
jobs have one priority and others another, those of one priority are taken one after the other, the job behind its equals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Final

from fikitd.gpus.placement import Priorities, Resident, replay

from fikit.advice import speeds
from fikit.advice.facts import Facts, Gpu, Neighbour
from fikit.advice.speeds import Speeds

MOST_ON_GPU: Final = 16  # that the library reckons with
NAMED: Final = (1, 5, 8)  # high, normal, low


@dataclass(frozen=True)
class Effect:
    """What a neighbour has of it: its slowdown, and how much later it ends (None: nobody knows when)."""

    job: str
    slowdown: float
    later_s: float | None


@dataclass(frozen=True)
class Choice:
    """The job with one priority on a GPU. end_s: from now. slowdown: at the beginning. sum_s: of the ends of all that are there then; inf: one is
    not known. gain_s: by how much the sum is smaller than by waiting for a whole GPU; None: not known, or it runs already."""

    priority: int
    end_s: float
    slowdown: float
    others: tuple[Effect, ...]
    sum_s: float
    gain_s: float | None


@dataclass(frozen=True)
class Offer:
    """verdict: "unshared" (its node has no shards), "idle", "shares", "later" (memory is free then), "slower" (the sum of ends is smaller by waiting), "whole" (a job has it alone),
    "no memory", "full". why: of those that are none, as the end of a sentence. start_s: from now; inf: nobody knows.
    """

    gpu: Gpu
    verdict: str
    why: str
    start_s: float
    choices: tuple[Choice, ...] = ()

    @property
    def soonest(self) -> Choice | None:
        """The priority with which the job ends first; of equals the lowest, which costs others least."""
        return min(self.choices, key=lambda each: (round(each.end_s, 3), -each.priority), default=None)

    @property
    def kindest(self) -> Choice | None:
        """The one with which the sum of all ends is smallest."""
        known = [each for each in self.choices if isfinite(each.sum_s)]
        return min(known, key=lambda each: (round(each.sum_s, 3), -each.priority), default=None)

    def choice(self, priority: int) -> Choice | None:
        return next((each for each in self.choices if each.priority == priority), None)


@dataclass(frozen=True)
class Alone:
    """The job with a GPU to itself. start_s inf: nobody knows; at_least: others wait before it, and how long they will run nobody knows."""

    gpu: str
    start_s: float
    end_s: float
    at_least: bool = False


def alone(facts: Facts) -> Alone:
    """On the first GPU that is free for it: of those that wait before it for whole ones, each has one that is free earlier."""
    here = speeds.of(facts)
    free = sorted((_last(_ends(here, gpu.neighbours)), gpu.name) for gpu in suitable(facts))
    if not free:
        return Alone("", inf, inf)
    start_s, name = free[min(facts.ahead_whole, len(free) - 1)]
    return Alone(name, start_s, start_s + facts.expected.rest_s, facts.ahead_whole >= len(free))


def suitable(facts: Facts) -> list[Gpu]:
    request = facts.request
    return [
        gpu for gpu in facts.gpus
        if request.type in ("", gpu.type) and (not request.nodes or gpu.node in request.nodes)
    ]  # fmt: skip


def offers(facts: Facts) -> list[Offer]:
    """Every GPU that it may get, the one where it ends soonest first."""
    waiting, here = alone(facts), speeds.of(facts)
    found = [_offer(here, gpu, waiting) for gpu in suitable(facts)]
    return sorted(found, key=lambda each: (each.soonest.end_s if each.soonest else inf, each.start_s, each.gpu.name))


def _offer(here: Speeds, gpu: Gpu, waiting: Alone) -> Offer:
    facts = here.facts
    shards = facts.request.shards
    if gpu.shards == 0:
        free_s = _last(_ends(here, gpu.neighbours))
        return Offer(
            gpu,
            "unshared",
            "no shards are configured for it, so nobody shares it",
            free_s,
            _choices(here, [], free_s, waiting),
        )
    if shards > gpu.shards:
        return Offer(gpu, "no memory", f"it has {gpu.shards} GiB, and the job asks for {shards}", inf)
    ends_s = _ends(here, gpu.neighbours)
    if any(each.whole for each in gpu.neighbours):
        holder = next(each for each in gpu.neighbours if each.whole)
        free_s = _last(ends_s)
        return Offer(gpu, "whole", f"job {holder.job} has it alone", free_s, _choices(here, [], free_s, waiting))
    start_s, stay = _room(gpu, ends_s, shards)
    if len(stay) >= MOST_ON_GPU:
        return Offer(gpu, "full", f"{len(stay)} jobs are there", start_s)
    choices = _choices(here, stay, start_s, waiting)
    if start_s > 0:
        return Offer(gpu, "later", f"{gpu.free} GiB are free now, and the job asks for {shards}", start_s, choices)
    return _now(gpu, stay, choices, waiting)


def _now(gpu: Gpu, stay: Sequence[Neighbour], choices: tuple[Choice, ...], waiting: Alone) -> Offer:
    if not stay:
        return Offer(gpu, "idle", "", 0.0, choices)
    gains = [each.gain_s for each in choices if each.gain_s is not None]
    if gains and max(gains) <= 0 and waiting.start_s > 0:
        return Offer(gpu, "slower", "the sum of all ends is smaller if it waits for a whole GPU", 0.0, choices)
    return Offer(gpu, "shares", "", 0.0, choices)


def _room(gpu: Gpu, ends_s: Sequence[float], shards: int) -> tuple[float, list[Neighbour]]:
    """When there are so many shards, and who is there then with how long to go."""
    free, start_s, gone = gpu.free, 0.0, set()
    for end_s, neighbour in sorted(zip(ends_s, gpu.neighbours, strict=True), key=lambda each: each[0]):
        if free >= shards:
            break
        start_s = end_s
        free += neighbour.shards
        gone.add(neighbour.job)
    there = [(end_s, each) for end_s, each in zip(ends_s, gpu.neighbours, strict=True) if each.job not in gone]
    return start_s, [
        each if start_s == 0 else _later(each, end_s - start_s if isfinite(end_s) else inf) for end_s, each in there
    ]


def _later(neighbour: Neighbour, rest_s: float) -> Neighbour:
    """Reckoned as if it were alone from then on: those that leave give it room."""
    return replace(neighbour, expected=replace(neighbour.expected, rest_s=max(rest_s, 0.0)))


def _choices(here: Speeds, stay: Sequence[Neighbour], start_s: float, waiting: Alone) -> tuple[Choice, ...]:
    facts = here.facts
    asked = facts.request.priority
    wanted = sorted({*NAMED, *([] if asked is None else [asked])})
    allowed = [each for each in wanted if each >= facts.highest] or [facts.highest]
    return tuple(_choice(here, stay, start_s, waiting, priority) for priority in (allowed if stay else allowed[-1:]))


def _choice(here: Speeds, stay: Sequence[Neighbour], start_s: float, waiting: Alone, priority: int) -> Choice:
    job = replace(_newcomer(here.facts), priority=priority)
    order = sorted([*stay, job], key=lambda each: (_level(here.facts, each), each is job))
    manner = Priorities.LISTED if len({_level(here.facts, each) for each in order}) > 1 else Priorities.EQUAL
    rates = here.slowdowns.rates(manner, [(each.busy.share, here.kind(each)) for each in order])
    ends_s = {each.job: end_s for each, end_s in zip(order, _played(here, manner, order), strict=True)}
    before_s = dict(zip((each.job for each in stay), _ends(here, stay), strict=True))
    slower = {each.job: 1 / rate for each, rate in zip(order, rates, strict=True)}
    others = tuple(
        Effect(each.job, slower[each.job], _difference(ends_s[each.job], before_s[each.job])) for each in stay
    )
    end_s, sum_s = start_s + ends_s[""], sum(start_s + each for each in ends_s.values())
    without_s = sum(start_s + each for each in before_s.values()) + waiting.end_s
    gains = isfinite(without_s) and isfinite(sum_s) and not here.facts.request.running
    return Choice(priority, end_s, slower[""], others, sum_s, without_s - sum_s if gains else None)


def _newcomer(facts: Facts) -> Neighbour:
    uid, name = facts.request.who
    return Neighbour("", uid, facts.request.shards, facts.expected, facts.busy, name=name)


def _level(facts: Facts, neighbour: Neighbour) -> int:
    return facts.default_priority if neighbour.priority is None else neighbour.priority


def _ends(here: Speeds, neighbours: Sequence[Neighbour]) -> list[float]:
    """When each of those who are on a GPU ends, if nobody comes."""
    order = sorted(neighbours, key=lambda each: _level(here.facts, each))
    manner = Priorities.LISTED if len({_level(here.facts, each) for each in order}) > 1 else Priorities.EQUAL
    ends_s = {each.job: end_s for each, end_s in zip(order, _played(here, manner, order), strict=True)}
    return [ends_s[each.job] for each in neighbours]


def _played(here: Speeds, manner: Priorities, jobs: Sequence[Neighbour]) -> list[float]:
    residents = [
        Resident(each.expected.rest_s, each.busy.share, each.shards, here.kind(each)) for each in jobs[:MOST_ON_GPU]
    ]
    found = replay(here.slowdowns, manner, residents) if residents else []
    ends_s = [
        inf if end_s == 0 and each.expected.rest_s > 0 else end_s for end_s, each in zip(found, jobs, strict=False)
    ]
    return ends_s + [inf] * (len(jobs) - len(ends_s))


def _last(ends_s: Iterable[float]) -> float:
    return max(ends_s, default=0.0)


def _difference(end_s: float, before_s: float) -> float | None:
    return max(end_s - before_s, 0.0) if isfinite(end_s) and isfinite(before_s) else None
