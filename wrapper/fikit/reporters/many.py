"""Many jobs: a table, and below it what they came to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Final

from fikitd.api.uses import Use
from rich.console import RenderableType
from rich.text import Text

from fikit.api.job_report import TypedReport
from fikit.api.sums import Totals
from fikit.reporters import job_use, table
from fikit.wording import elapsed, units

MOST: Final = 1000  # lines: nobody reads more, and rich takes its time for each

ORDERS: Final[dict[str, Callable[[TypedReport], float | None]]] = {
    "slowdown": lambda report: report.slowdown,
    "elapsed": lambda report: report.elapsed_s,
    "waited": lambda report: report.waited_s,
    "delayed": lambda report: report.delayed_s,
    "gpu-time": lambda report: report.gpu_time_s,
    "memory": lambda report: None if report.memory is None else report.memory.peak_bytes,
    "started": lambda report: None if report.started is None else report.started.timestamp(),
}


def ordered(reports: list[TypedReport], by: str | None) -> list[TypedReport]:
    """Most of it first, unknown ones last; as they come without an order, and where they are equal."""
    if by is None:
        return reports
    key = ORDERS[by]

    def rank(report: TypedReport) -> tuple[bool, float]:
        value = key(report)
        return value is None, -(value or 0.0)

    return sorted(reports, key=rank)


def ordered_uses(uses: list[Use], by: str | None) -> list[Use]:
    """The same of jobs of which there is a record of use alone, which knows little to go by."""
    return sorted(uses, key=lambda use: use["peak_bytes"] or 0, reverse=True) if by == "memory" else uses


def view(reports: Sequence[TypedReport], totals: Totals, uses: Sequence[Use] = ()) -> Iterator[RenderableType]:
    """The tables, and lines below."""
    if reports:
        yield table.reports([dict(report.record) for report in reports[:MOST]])
        yield from _more(len(reports))
    if uses:
        yield job_use.grid(uses[:MOST])
        yield from _more(len(uses))
    yield from map(Text, every_line(totals, uses))


def every_line(totals: Totals, uses: Sequence[Use]) -> Iterator[str]:
    """What jobs came to that shared, and then what others did."""
    if totals.jobs or not uses:
        yield from lines(totals)
    yield from job_use.lines(job_use.sums(uses), beside=totals.jobs > 0)


def _more(number: int) -> Iterator[RenderableType]:
    if number > MOST:
        yield Text(f"and {units.count(number - MOST)} more; --csv and --json have them all", style="dim")


def lines(totals: Totals) -> Iterator[str]:
    """What they came to, in words: each sum with how many jobs it is of."""
    facts = [f"{_jobs(totals.jobs)} of {totals.users} user{'' if totals.users == 1 else 's'}"]
    facts += [f"{units.count(totals.running_jobs)} still running"] if totals.running_jobs else []
    facts += [f"{units.count(totals.emulated_jobs)} on an emulated GPU"] if totals.emulated_jobs else []
    yield f"total: {', '.join(facts)}"
    if totals.timed_jobs:
        yield f"elapsed: {elapsed.total(asdict(totals))}{_part(totals.timed_jobs, totals)}"
    if (known := totals.jobs - totals.gpu_time_unknown_jobs) > 0:
        yield f"GPU time: {units.duration(totals.gpu_time_s)}{_part(known, totals)}"
    if totals.compared_jobs:
        yield (
            f"against alone: median {units.ratio(totals.median_slowdown)}, highest {units.ratio(totals.highest_slowdown)}"
            f"{_part(totals.compared_jobs, totals)}"
        )
    if promised := totals.kept_jobs + totals.broken_jobs + totals.undecided_jobs:
        yield (
            f"promises kept: {totals.kept_jobs}, broken: {totals.broken_jobs}, not known: {totals.undecided_jobs}"
            f"{_part(promised, totals)}"
        )


def _jobs(number: int) -> str:
    return f"{units.count(number)} job{'' if number == 1 else 's'}"


def _part(number: int, totals: Totals) -> str:
    """Of how many it is, where not of all."""
    return "" if number == totals.jobs else f" (of {_jobs(number)})"
