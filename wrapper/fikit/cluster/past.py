"""What ended jobs made of the GPUs that they held: how much was held nearly idle, what sharing would free, which promises were broken and why. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import fsum
from typing import Final, Literal

from fikitd.api.uses import Use

from fikit.api.job_report import TypedReport, moment
from fikit.wording.units import duration

IDLE: Final = 0.2  # held and less busy than that is nearly idle
SHARES: Final = 0.5  # who leaves so much of a GPU can share it (advice.use_rules)
SLIGHT: Final = 0.02  # of the elapsed time: less explains no broken promise

Kind = Literal["alone", "measured", "shared", "unused"]


@dataclass(frozen=True)
class Held:
    """A job that ended. Times are seconds, shares 0 to 1; None is what nobody knows.

    kind: it had its GPUs alone, measured alone, shared one, or asked for fikit and launched nothing through it ("unused"). held_s: elapsed time of all its GPUs together. busy: of that
    time (of a measured job: of its time alone). freed_s: what the GPU would have had for others at most, had it been shared; of jobs with one GPU
    alone that would share it. why: what a promise was broken by.
    """

    job: str
    uid: int
    name: str
    node: str
    kind: Kind
    ended: datetime | None
    gpus: int
    held_s: float
    busy: float | None
    memory_share: float | None
    freed_s: float | None
    emulated: bool
    priority: int | None = None
    kept: bool | None = None
    promised: bool = False
    slowdown: float | None = None
    max_slowdown: float | None = None
    delayed_s: float | None = None
    why: str = ""

    @property
    def alone(self) -> bool:
        return self.kind in ("alone", "measured")


@dataclass(frozen=True)
class Sums:
    """Of some jobs. watched_s: of held_s (GPUs that one job had alone), how much of it by jobs of which it is known how busy they kept them; idle_s: of that what none of their
    kernels used; nearly_idle_s: what jobs held that kept it less than a fifth busy; freed_s: what sharing would free at most.
    """

    jobs: int
    alone_jobs: int
    held_s: float
    watched_s: float
    idle_s: float
    nearly_idle_s: float
    freed_s: float
    shared_jobs: int
    unused_jobs: int
    kept: int
    broken: int
    unknown: int
    emulated_jobs: int


@dataclass(frozen=True)
class Past:
    """users: by uid, who holds most nearly idle first. broken: the newest first."""

    since: datetime
    until: datetime
    jobs: tuple[Held, ...]
    sums: Sums
    users: tuple[tuple[int, Sums], ...]
    broken: tuple[Held, ...]


def of(reports: Iterable[TypedReport], uses: Iterable[Use], since: datetime, until: datetime) -> Past:
    """Of jobs that ended since then; a job that has a report counts by that."""
    found = {(job.job, job.uid): job for job in map(_reported, reports) if job is not None}
    for use in uses:
        job = used(use)
        found.setdefault((job.job, job.uid), job)
    jobs = [job for job in found.values() if job.ended is not None and job.ended >= since]
    by_user: dict[int, list[Held]] = defaultdict(list)
    for job in jobs:
        by_user[job.uid].append(job)
    users = sorted(
        ((uid, sums(each)) for uid, each in by_user.items()),
        key=lambda pair: (-pair[1].nearly_idle_s, -pair[1].held_s, pair[0]),
    )
    newest = sorted(jobs, key=lambda job: job.ended or since, reverse=True)
    return Past(
        since, until, tuple(newest), sums(jobs), tuple(users), tuple(job for job in newest if job.kept is False)
    )


def sums(jobs: Sequence[Held]) -> Sums:
    alone = [job for job in jobs if job.alone]
    watched = [(job.held_s, job.busy) for job in alone if job.busy is not None]
    promised = [job.kept for job in jobs if job.promised]
    return Sums(
        jobs=len(jobs), alone_jobs=len(alone), held_s=fsum(job.held_s for job in alone), watched_s=fsum(held_s for held_s, _ in watched),
        idle_s=fsum(held_s * (1 - busy) for held_s, busy in watched), nearly_idle_s=fsum(held_s for held_s, busy in watched if busy < IDLE),
        freed_s=fsum(job.freed_s or 0.0 for job in alone), shared_jobs=sum(job.kind == "shared" for job in jobs),
        unused_jobs=sum(job.kind == "unused" for job in jobs), kept=promised.count(True), broken=promised.count(False), unknown=promised.count(None),
        emulated_jobs=sum(job.emulated for job in jobs),
    )  # fmt: skip


def _reported(report: TypedReport) -> Held | None:
    if report.state == "running" or report.elapsed_s is None:
        return None
    busy = None if report.gpu_time_s is None or not report.alone_s else min(report.gpu_time_s / report.alone_s, 1.0)
    whole = report.device.memory_bytes
    memory = None if report.memory is None or not whole else min(report.memory.peak_bytes / whole, 1.0)
    return Held(
        job=report.job, uid=report.uid, name=report.name, node=report.node, kind="measured" if report.measured else "shared", ended=report.ended, gpus=1,
        held_s=report.elapsed_s, busy=busy, memory_share=memory, freed_s=_freed_s(1, report.elapsed_s, busy, memory) if report.measured else None,
        emulated=report.device.emulated, priority=report.priority, kept=report.kept, promised=report.max_slowdown is not None and not report.measured,
        slowdown=report.slowdown, max_slowdown=report.max_slowdown, delayed_s=report.delayed_s, why=why(report) if report.kept is False else "",
    )  # fmt: skip


def used(use: Use) -> Held:
    """Of a job whose launches fikit did not see."""
    started, ended, gpus = moment(use["started"]), moment(use["ended"]), use["gpus"]
    elapsed_s = max((ended - started).total_seconds(), 0.0) if started is not None and ended is not None else 0.0
    whole = [gpu["memory_bytes"] for gpu in gpus if gpu["memory_bytes"]]
    memory = None if use["peak_bytes"] is None or not whole else min(use["peak_bytes"] / sum(whole), 1.0)
    shared = use["shared"]
    number = len(gpus) or use.get("whole", 0)
    return Held(
        job=use["job"], uid=use["uid"], name=use["name"], node=use["node"], kind="unused" if shared else "alone", ended=ended, gpus=number,
        held_s=0.0 if shared else elapsed_s * number, busy=use["busy"], memory_share=memory,
        freed_s=None if shared else _freed_s(number, elapsed_s, use["busy"], memory), emulated=any(gpu["emulated"] for gpu in gpus),
    )  # fmt: skip


def _freed_s(gpus: int, elapsed_s: float, busy: float | None, memory_share: float | None) -> float | None:
    """At most: of the time that it leaves, and of the memory; jobs beside it get neither more than it leaves, nor all of that."""
    if gpus != 1 or busy is None or busy >= SHARES:
        return None
    return elapsed_s * (1 - max(busy, memory_share or 0.0))


def why(report: TypedReport) -> str:
    """What lower jobs, and a late host, cost it: `24 s kernels of job 18 (priority 8), host late 17 s`."""
    lower = [each for each in report.delays if each.priority is not None and each.priority > report.priority]
    least_s = SLIGHT * (report.elapsed_s or 0.0)
    parts = []
    for each in sorted(lower, key=lambda delay: -delay.total_s)[:2]:
        if each.total_s > least_s:
            who = "another job" if each.job is None else f"job {each.job}"
            parts.append(f"{duration(each.total_s)} kernels of {who} (priority {each.priority})")
    if report.host is not None and report.host.late_s > least_s:
        parts.append(f"host late {duration(report.host.late_s)}")
    return ", ".join(parts) or "many short delays"
