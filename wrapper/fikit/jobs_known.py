"""Which jobs a user can see, and which of them a number means: 15, or 12_3, task 3 of array 12, or 12+1, a component."""

from __future__ import annotations

import pwd
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fikitd.client import Control, ControlError, DaemonUnreachable
from fikitd.reports import ReportError, ReportStore
from fikitd.traces import TraceError
from fikitd.untrusted import AHEAD_S

from fikit import slurm_jobs
from fikit.errors import UserError
from fikit.places import Place, places
from fikit.reporters.line import say
from fikitd import reports


def records(limit: int | None = None, uid: int | None = None) -> list[dict[str, Any]]:
    """The newest `limit` reports that this user can see, of user `uid` alone; running jobs first, then those that began last.

    Of reports that are none, the first is named, once.
    """
    found: dict[tuple[str, int], dict[str, Any]] = {}
    damaged: list[str] = []
    for place in places():
        running: list[dict[str, Any]] = []
        with suppress(DaemonUnreachable, ControlError):
            running = Control(place.run_dir).jobs()
        of_user = [record for record in running if uid in (None, record["uid"])]
        for record in [*of_user, *ReportStore(place.report_dir).newest(limit, uid, damaged.append)]:
            found.setdefault((record["job"], record["uid"]), record)
    if damaged:
        more = f", and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        say(f"warning: {damaged[0]}{more}")
    latest = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + AHEAD_S))

    def age(record: dict[str, Any]) -> tuple[bool, str]:
        return record["state"] == "running", record["started"] if record["started"] <= latest else ""

    return sorted(found.values(), key=age, reverse=True)[:limit]


def numbers() -> list[str]:
    """The jobs of which this user can see a report, the newest first; without a look into them."""
    found: dict[str, None] = {}
    for place in places():
        with suppress(DaemonUnreachable, ControlError):
            found.update(dict.fromkeys(record["job"] for record in Control(place.run_dir).jobs()))
        found.update(dict.fromkeys(ReportStore(place.report_dir).jobs()))
    return list(found)


def own_number(jobid: str) -> str:
    """A job's own number: of a task or component by its report, which Slurm forgets and we do not; `jobid` itself where nobody knows."""
    number = slurm_jobs.number(jobid)
    if number != jobid or not slurm_jobs.is_task(jobid):
        return number
    whole, _ = slurm_jobs.split(jobid)
    return next((str(record["job"]) for record in _of_whole(whole) if place_of(record) == jobid), jobid)


def place_of(record: dict[str, Any]) -> str:
    """`12_3` or `12+1`; nothing: of no array and no heterogeneous job, or from a fikitd that did not say it."""
    text = reports.place_of(record)  # a stored report is its user's file
    return text if slurm_jobs.is_task(text) else ""


def stored(jobid: str, uid: int | None = None) -> dict[str, Any] | None:
    """The report of one job, by its own number, of user `uid`'s: from fikitd while it runs, else the stored one; None: there is none."""

    def load(place: Place) -> dict[str, Any] | None:
        with suppress(DaemonUnreachable, ControlError):
            running = Control(place.run_dir).job(jobid)
            if uid in (None, running["uid"]):
                return running
        return ReportStore(place.report_dir).load(jobid, uid)

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


def parts(jobid: str, uid: int | None = None) -> list[dict[str, Any]]:
    """The reports of the tasks of array `jobid`, or of the components of heterogeneous job `jobid`, in their order; else none."""
    if not jobid.isdecimal():
        return []
    with suppress(UserError):
        own = stored(jobid, uid)
        if own is not None and not place_of(own):
            return []  # without a look at all reports
    found = [record for record in _of_whole(jobid) if uid in (None, record["uid"])]
    return sorted(found, key=lambda record: int(slurm_jobs.split(place_of(record))[1]))


def _of_whole(whole: str) -> list[dict[str, Any]]:
    """Every report of a part of array or heterogeneous job `whole` that this user can see."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for place in places():
        running: list[dict[str, Any]] = []
        with suppress(DaemonUnreachable, ControlError):
            running = Control(place.run_dir).jobs()
        for record in [*running, *ReportStore(place.report_dir).parts(whole)]:
            if slurm_jobs.split(place_of(record))[0] == whole:
                found.setdefault((record["job"], record["uid"]), record)
    return list(found.values())


def user(name: str) -> int:
    """The uid of a user, by name or number."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        if name.isdecimal() and int(name) < 2**32:
            return int(name)
    raise UserError(f'there is no user "{name}"; use a name or a uid')


def one_alone(found: list[dict[str, Any]], jobid: str) -> bool:
    """Of all of it one part has a report, and it has the number of the whole: then people who say 12 mean that."""
    return [str(record["job"]) for record in found] == [jobid]


def whole(found: list[dict[str, Any]]) -> tuple[str, str]:
    """What these are parts of, and what one of them is called."""
    return ("a heterogeneous job", "component") if "+" in place_of(found[0]) else ("an array", "task")
