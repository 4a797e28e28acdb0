"""What `import fikit` offers (docs/python.md). Names and fields that are here stay; new ones may come."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from datetime import UTC, datetime

from fikit import jobs_known
from fikit.api import moments, queries
from fikit.api.advice import Advice
from fikit.api.job_report import Delay, Device, HostTime, Memory, State, TypedReport, WaitReason, Waits
from fikit.api.moments import Since
from fikit.api.node_view import Gpu, GpuJob, Node, node
from fikit.api.queries import Choice
from fikit.api.sums import Totals, totals
from fikit.errors import NoDaemon, NoReport, UserError

__all__ = [
    "Advice",
    "Delay",
    "Device",
    "Gpu",
    "GpuJob",
    "HostTime",
    "JobReport",
    "Memory",
    "NoDaemon",
    "NoReport",
    "Node",
    "Totals",
    "UserError",
    "WaitReason",
    "Waits",
    "jobs",
    "node",
    "report",
    "totals",
]


@dataclass(frozen=True, slots=True)
class JobReport(TypedReport):
    __doc__ = TypedReport.__doc__

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What the run suggests, the most important first. Reads what is stored of the name's last runs, and fikit.toml, each time that it is asked."""
        from fikit.advice import reported  # noqa: PLC0415  # most who read a report ask for no advice

        return tuple(reported.advise(self))


def jobs(
    *,
    since: Since | None = None,
    user: str | int | None = None,
    state: State | None = None,
    limit: int | None = None,
) -> list[JobReport]:
    """The reports that the caller may see (root: everybody's): running jobs of this node first, then those that began last.

    since: jobs that ran since then: "1d", "90min", "2026-11-21T08:00" (local time), a timedelta or a datetime. user: a name or uid.
    limit: so many at most. Raises UserError; a RuntimeWarning names reports that could not be read.
    """
    if state not in (None, "running", "ended"):
        raise UserError(f'"{state}" is no state of a job; use "running" or "ended"')
    if limit is not None and limit < 0:
        raise UserError(f"there are no {limit} jobs; use a limit from 0 on")
    uid = None if user is None else jobs_known.user(str(user))
    try:
        moment = None if since is None else moments.since(since, datetime.now(UTC))
    except ValueError as error:
        raise UserError(str(error)) from None
    told: list[str] = []
    found = queries.chosen(Choice(moment, uid, state, limit), told.append)
    _warn(told)
    return [_with_advice(each) for each in found]


def report(job: int | str | None = None, *, user: str | int | None = None) -> JobReport:
    """The report of one job (12, "12_3", "12+1"), or of the newest one; of a running job of this node as it stands.

    NoReport where there is none that the caller may see; UserError for a number of several (an array), or for a report that cannot be read.
    A RuntimeWarning names reports that could not be read while the newest was looked for.
    """
    uid = None if user is None else jobs_known.user(str(user))
    told: list[str] = []
    try:
        return _with_advice(queries.single(None if job is None else str(job), uid, told.append))
    finally:
        _warn(told)


def _with_advice(found: TypedReport) -> JobReport:
    return JobReport(**{each.name: getattr(found, each.name) for each in fields(found)})


def _warn(told: list[str]) -> None:
    for text in told:
        warnings.warn(text, RuntimeWarning, stacklevel=3)  # of the line that called jobs() or report()
