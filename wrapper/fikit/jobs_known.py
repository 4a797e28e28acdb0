"""Which jobs a user can see, and which of them a number means: 15, or 12_3, task 3 of array 12, or 12+1, a component."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fikitd.client import Control, ControlError, DaemonUnreachable
from fikitd.reports import ReportError, ReportStore
from fikitd.traces import TraceError

from fikit import slurm_jobs
from fikit.errors import UserError
from fikit.places import Place, places
from fikitd import reports


def records() -> list[dict[str, Any]]:
    """Every report this user can see, running jobs first, then the newest."""
    found: dict[str, dict[str, Any]] = {}
    for place in places():
        running: list[dict[str, Any]] = []
        with suppress(DaemonUnreachable, ControlError):
            running = Control(place.run_dir).jobs()
        for record in [*running, *ReportStore(place.report_dir).list()]:
            found.setdefault(str(record["job"]), record)
    return sorted(found.values(), key=lambda record: (record["state"] == "running", record["started"]), reverse=True)


def own_number(jobid: str) -> str:
    """A job's own number: of a task or component by its report, which Slurm forgets and we do not; `jobid` itself where nobody knows."""
    number = slurm_jobs.number(jobid)
    if number != jobid or not slurm_jobs.is_task(jobid):
        return number
    return next((str(record["job"]) for record in records() if place_of(record) == jobid), jobid)


def place_of(record: dict[str, Any]) -> str:
    """`12_3` or `12+1`; nothing: of no array and no heterogeneous job, or from a fikitd that did not say it."""
    text = reports.place_of(record)  # a stored report is its user's file
    return text if slurm_jobs.is_task(text) else ""


def stored(jobid: str) -> dict[str, Any] | None:
    """The report of one job, by its own number: from fikitd while it runs, else the stored one; None: there is none."""

    def load(place: Place) -> dict[str, Any] | None:
        with suppress(DaemonUnreachable, ControlError):
            return Control(place.run_dir).job(jobid)
        return ReportStore(place.report_dir).load(jobid)

    return first(load)


def first(load: Callable[[Place], dict[str, Any] | None]) -> dict[str, Any] | None:
    """What the first place has. One that cannot be read hides no other; it is a UserError where nobody else has anything."""
    hidden = None
    for place in places():
        try:
            found = load(place)
        except (ReportError, TraceError) as error:
            hidden = hidden or error
        else:
            if found is not None:
                return found
    if hidden is not None:
        raise UserError(str(hidden)) from hidden
    return None


def parts(jobid: str) -> list[dict[str, Any]]:
    """The reports of the tasks of array `jobid`, or of the components of heterogeneous job `jobid`, in their order; else none."""
    if not jobid.isdecimal():
        return []
    with suppress(UserError):
        own = stored(jobid)
        if own is not None and not place_of(own):
            return []  # without a look at all reports
    found = [record for record in records() if slurm_jobs.split(place_of(record))[0] == jobid]
    return sorted(found, key=lambda record: int(slurm_jobs.split(place_of(record))[1]))


def one_alone(found: list[dict[str, Any]], jobid: str) -> bool:
    """Of all of it one part has a report, and it has the number of the whole: then people who say 12 mean that."""
    return [str(record["job"]) for record in found] == [jobid]


def whole(found: list[dict[str, Any]]) -> tuple[str, str]:
    """What these are parts of, and what one of them is called."""
    return ("a heterogeneous job", "component") if "+" in place_of(found[0]) else ("an array", "task")
