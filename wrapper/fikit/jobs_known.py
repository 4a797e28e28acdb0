"""Which jobs a user can see, and which of them a number means: 15, or 12_3, task 3 of array 12, or 12+1, a component."""

from __future__ import annotations

import pwd
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fikitd.api import reports
from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.api.reports import ReportError, ReportStore
from fikitd.api.traces import TraceError
from fikitd.api.uses import Use, UseError, UseStore
from fikitd.base.validation import AHEAD_S

from fikit.errors import NoReport, UserError, nearest
from fikit.site_paths import Place, elsewhere, looked_in, places
from fikit.slurm import jobs as slurm_jobs
from fikit.wording.line import say

LISTED = 20
MOST_USES = 200_000
COMPARED = 1000  # of the newest numbers, with one that is not there

Warn = Callable[[str], None]


def warn_on_stderr(text: str) -> None:
    """What the command line does with a warning."""
    say(f"warning: {text}")


def records(
    limit: int | None = None,
    uid: int | None = None,
    since_s: float = 0.0,
    warn: Warn = warn_on_stderr,
) -> list[dict[str, Any]]:
    """The newest `limit` reports that this user can see, of user `uid` alone; running jobs first, then those that began last.

    since_s: reports of jobs that have ended were written since (Unix time). `warn` hears one sentence where some could not be read.
    """
    found: dict[tuple[str, int], dict[str, Any]] = {}
    damaged: list[str] = []
    for place in places():
        running: list[dict[str, Any]] = []
        with suppress(DaemonUnreachable, ControlError):
            running = Control(place.run_dir).jobs()
        of_user = [record for record in running if uid in (None, record["uid"])]
        for record in [*of_user, *ReportStore(place.report_dir).newest(limit, uid, damaged.append, since_s)]:
            found.setdefault((record["job"], record["uid"]), record)
    if damaged:
        more = f", and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        warn(f"{damaged[0]}{more}")

    def age(record: dict[str, Any]) -> tuple[bool, str]:
        return record["state"] == "running", began(record)

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


def find(jobid: str, uid: int | None = None) -> dict[str, Any]:
    """The report of one job, by its own number, of user `uid`'s. NoReport names those that may have been meant."""
    if (found := stored(jobid, uid)) is not None:
        return found
    ids = numbers()
    close = nearest(jobid, ids[:COMPARED])
    near = f"; the nearest are {', '.join(close)}" if close else f"; the newest are {', '.join(ids[:3])}"
    raise NoReport(
        f"there is no report of job {jobid}{near if ids else f' in {looked()}'}{elsewhere(jobid, 'fikit-report')}"
    )


def newest(uid: int | None = None, warn: Warn = warn_on_stderr) -> dict[str, Any]:
    """The report of the job that runs, or began last; `warn` as of records(). NoReport: there is none."""
    for record in records(LISTED, uid, warn=warn):
        return record
    raise NoReport(f"there is no report in {looked()}; only jobs that ran with a fikit option, or had shards, have one")


def looked() -> str:
    """Where there is no report, as the end of a sentence."""
    return looked_in(place.report_dir for place in places())


def stored(jobid: str, uid: int | None = None) -> dict[str, Any] | None:
    """The report of one job, by its own number, of user `uid`'s: from fikitd while it runs, else the stored one; None: there is none."""

    def load(place: Place) -> dict[str, Any] | None:
        with suppress(DaemonUnreachable, ControlError):
            running = Control(place.run_dir).job(jobid)
            if uid in (None, running["uid"]):
                return running
        return ReportStore(place.report_dir).load(jobid, uid)

    return first(load)


def use(jobid: str, uid: int | None = None) -> Use | None:
    """What NVML saw of a job without a report, by its own number."""
    for place in places():
        try:
            if (found := UseStore(place.report_dir).load(jobid, uid)) is not None:
                return found
        except UseError as error:
            raise UserError(str(error)) from None
    return None


def uses(since_s: float = 0.0, uid: int | None = None, limit: int = MOST_USES) -> list[Use]:
    """The newest `limit` of jobs whose launches fikit did not see, of user `uid` alone, written since (Unix time); those that began last first."""
    found: dict[tuple[str, int], Use] = {}
    for place in places():
        for use in UseStore(place.report_dir).newest(since_s, uid, limit):
            found.setdefault((use["job"], use["uid"]), use)
    return sorted(found.values(), key=began, reverse=True)[:limit]


def began(record: dict[str, Any]) -> str:
    """When the job of a report or a use began, to compare; nothing where that is yet to come: a clock was wrong, or the record's owner lies."""
    latest = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + AHEAD_S))
    return str(record["started"]) if record["started"] <= latest else ""


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
