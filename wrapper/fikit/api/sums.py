"""What many jobs came to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from statistics import median

from fikit.api.job_report import TypedReport


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over jobs; each says of how many of them it is.

    elapsed_s = alone_s + waited_s + delayed_s + host_s + unexplained_s, of the `timed_jobs` whose reports say where their time went.
    gpu_time_s: without the `gpu_time_unknown_jobs`. Slowdowns: of the `compared_jobs`; None where there are none. kept, broken, undecided: of
    the jobs to which the policy had promised something.
    """

    jobs: int
    users: int
    running_jobs: int
    emulated_jobs: int
    kernels: int
    gpu_time_s: float
    gpu_time_unknown_jobs: int
    timed_jobs: int
    elapsed_s: float
    alone_s: float
    waited_s: float
    delayed_s: float
    host_s: float
    unexplained_s: float
    compared_jobs: int
    median_slowdown: float | None
    highest_slowdown: float | None
    kept_jobs: int
    broken_jobs: int
    undecided_jobs: int


def totals(reports: Iterable[TypedReport]) -> Totals:
    """Of `reports`, as from jobs()."""
    all_ = list(reports)
    timed = [each for each in all_ if each.elapsed_s is not None]
    slowdowns = [each.slowdown for each in all_ if each.slowdown is not None]
    known = [each.gpu_time_s for each in all_ if each.gpu_time_s is not None]
    kept = [each.kept for each in all_ if each.max_slowdown is not None]
    return Totals(
        jobs=len(all_),
        users=len({each.uid for each in all_}),
        running_jobs=sum(each.state == "running" for each in all_),
        emulated_jobs=sum(each.device.emulated for each in all_),
        kernels=sum(each.kernels for each in all_),
        gpu_time_s=fsum(known),
        gpu_time_unknown_jobs=len(all_) - len(known),
        timed_jobs=len(timed),
        elapsed_s=fsum(each.elapsed_s or 0.0 for each in timed),
        alone_s=fsum(each.alone_s or 0.0 for each in timed),
        waited_s=fsum(each.waited_s or 0.0 for each in timed),
        delayed_s=fsum(each.delayed_s or 0.0 for each in timed),
        host_s=fsum(each.host_s or 0.0 for each in timed),
        unexplained_s=fsum(each.unexplained_s or 0.0 for each in timed),
        compared_jobs=len(slowdowns),
        median_slowdown=median(slowdowns) if slowdowns else None,
        highest_slowdown=max(slowdowns, default=None),
        kept_jobs=kept.count(True),
        broken_jobs=kept.count(False),
        undecided_jobs=kept.count(None),
    )
