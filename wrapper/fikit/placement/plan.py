"""What the agent wants: the queue in, changes out. Pure: no clock, no Slurm, no file.

`order` is a number for each sharing job that waits, which Slurm adds to its priority (SiteFactor): the shorter a job is expected to run, the
larger, on a logarithmic scale, so that it depends on nobody else and is set once. Who has waited for max_wait_s has the largest of all, and
among those Slurm's own order holds: first come, first served. It is bounded: what a site's own factors say by more than `span` stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf, log
from typing import Final

from fikitd.gpus.placement import overdue

from fikit.placement.jobs import Job

SHORTEST_S: Final = 10.0
LONGEST_S: Final = 30 * 86_400.0
"""Jobs shorter and longer than these are alike."""
SLACK: Final = 0.01
"""An expectation that moves a job by less than this share of the span is no reason to change it."""
COMMENT: Final = "fikit:order"
WAITS: Final = "fikit:waits"
OURS: Final = (COMMENT, WAITS)
"""With one of them begins every AdminComment that the agent writes, and it writes over none that begins otherwise."""
HIGHEST: Final = 100_000_000
"""Slurm's priority has 32 bits; a span is at most this."""


@dataclass(frozen=True)
class Settings:
    """max_wait_s: who has waited so long is passed by nobody. span: how far order reaches, in points of Slurm's priority."""

    max_wait_s: float
    span: int


@dataclass(frozen=True)
class Mark:
    """What the agent has set of a job. factor: its SiteFactor. comment: its AdminComment; "" where none is ours. node, type: of the GPU that it
    was given, "" for none; shards: which it wants, where it was given one. waits_for: one of these has to end first."""

    factor: int = 0
    comment: str = ""
    node: str = ""
    type: str = ""
    shards: int = 0
    waits_for: tuple[int, ...] = ()


NOTHING: Final = Mark()


@dataclass(frozen=True)
class Change:
    """What to set of a job. before: what is set so far. why: for a log, the end of a sentence."""

    job: int
    before: Mark
    after: Mark
    why: str
    begins: bool = False
    """Whether it need not wait for its begin time any more."""

    @property
    def factor(self) -> int | None:
        """The new SiteFactor, where it changes."""
        return self.after.factor if self.after.factor != self.before.factor else None

    @property
    def comment(self) -> str | None:
        return self.after.comment if self.after.comment != self.before.comment else None


@dataclass(frozen=True)
class Plan:
    """changes: the most urgent first. gone: marks of jobs that there are no more."""

    changes: list[Change]
    gone: list[int]


Expect = Callable[[Job], float | None]
"""How long a job will run, seconds; None: nothing is known."""


def is_steered(job: Job, marks: Mapping[int, Mark]) -> bool:
    """Whether it waits and the agent may order it."""
    mark = marks.get(job.number, NOTHING)
    return job.waits and job.shards > 0 and not job.left_alone(mark.waits_for, mark.node)


def order_factor(expected_s: float | None, span: int) -> int:
    """From span / 2 for the shortest job to -span / 2 for the longest, or for one of which nothing is known."""
    if expected_s is None or expected_s >= LONGEST_S:
        return -(span // 2)
    place = log(max(expected_s, SHORTEST_S) / SHORTEST_S) / log(LONGEST_S / SHORTEST_S)
    return round(span * (0.5 - place))


def overdue_factor(span: int) -> int:
    """Above every other."""
    return span // 2 + 1


def comment_of(expected_s: float | None, late: bool) -> str:
    """Small letters, no quotes, no blanks: what scontrol and sacctmgr hand on as it is."""
    if late:
        return f"{COMMENT},first"
    return COMMENT if expected_s is None else f"{COMMENT},expected_s={expected_s:.0f}"


def plan(jobs: Iterable[Job], expect: Expect, marks: Mapping[int, Mark], settings: Settings, now_s: float) -> Plan:
    """What has to change so that the queue is as `order` wants it; marks: what is set now."""
    changes: list[tuple[float, Change]] = []
    seen = set()
    for job in sorted(jobs, key=lambda each: not is_steered(each, marks)):
        if job.number in seen:  # a task of an array that runs while others wait: those count
            continue
        if is_steered(job, marks):
            seen.add(job.number)
            change = _steer(job, expect(job), marks.get(job.number, NOTHING), settings, now_s)
            if change is not None:
                changes.append((-change.after.factor, change))
        elif job.number in marks:
            seen.add(job.number)
            change = _release(job, marks[job.number])
            if change is not None:
                changes.append((inf, change))
    changes.sort(key=lambda each: each[0])
    return Plan([change for _, change in changes], [number for number in marks if number not in seen])


def _steer(job: Job, expected_s: float | None, before: Mark, settings: Settings, now_s: float) -> Change | None:
    late = overdue(job.submit_s, now_s, settings.max_wait_s)
    factor = overdue_factor(settings.span) if late else order_factor(expected_s, settings.span)
    was_late = before.factor == overdue_factor(settings.span)
    if before != NOTHING and late == was_late and abs(factor - before.factor) <= settings.span * SLACK:
        return None
    comment = before.comment if before.waits_for else comment_of(expected_s, late)
    after = replace(before, factor=factor, comment=comment)
    if after.factor == before.factor and before != NOTHING:
        return None
    return Change(job.number, before, after, _why(expected_s, late))


def _why(expected_s: float | None, late: bool) -> str:
    if late:
        return "it has waited for max_wait_s"
    return "nothing is known of it" if expected_s is None else f"it is expected to run for {expected_s:.0f} s"


def _release(job: Job, before: Mark) -> Change | None:
    """A job that runs has no more use for what was set; one that its user has given a dependency, or holds, is left as it was found."""
    if not job.waits:
        after = replace(before, comment="")
        return None if after == before else Change(job.number, before, after, "it runs")
    return Change(job.number, _ours(job, before), NOTHING, job.left_alone() or "it shares no GPU")


def _ours(job: Job, mark: Mark) -> Mark:
    """What of the mark is still there: its owner may have put something else in its place, which is not taken back."""
    waits = bool(job.dependency) and not job.depends(mark.waits_for)
    return replace(mark, waits_for=mark.waits_for if waits else (), node=mark.node if job.wants == mark.node else "")


def undo(jobs: Iterable[Job], marks: Mapping[int, Mark]) -> list[Change]:
    """Everything taken back of the jobs that wait."""
    there = {job.number: job for job in jobs if job.waits}
    waiting = {number: mark for number, mark in marks.items() if number in there and mark != NOTHING}
    return [Change(number, _ours(there[number], mark), NOTHING, "the agent stops") for number, mark in waiting.items()]
