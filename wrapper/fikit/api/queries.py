"""Which reports: of one job, or of many."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fikitd.api.uses import Use

from fikit import jobs_known
from fikit.api import job_report
from fikit.api.job_report import State, TypedReport
from fikit.errors import UserError
from fikit.jobs_known import Warn

SLACK_S: Final = 3600.0  # by which the clocks of nodes and of the storage may differ
NAMED: Final = 10  # parts of an array


@dataclass(frozen=True)
class Choice:
    """Of many jobs those that ran since then, of one user, that run or have ended; the newest `limit`. None: any, all."""

    since: datetime | None = None
    uid: int | None = None
    state: State | None = None
    limit: int | None = None

    def takes(self, report: TypedReport) -> bool:
        if self.state not in (None, report.state):
            return False
        return report.state == "running" or self._is_since(report.started, report.ended)

    def takes_use(self, use: Use) -> bool:
        return self.state in (None, "ended") and self._is_since(
            job_report.moment(use["started"]), job_report.moment(use["ended"])
        )

    def since_s(self) -> float:
        """Files that were written before are of jobs that ended before `since`."""
        return 0.0 if self.since is None else self.since.timestamp() - SLACK_S

    def _is_since(self, started: datetime | None, ended: datetime | None) -> bool:
        last = ended or started
        return self.since is None or (last is not None and last >= self.since)


def chosen(choice: Choice, warn: Warn = jobs_known.warn_on_stderr) -> list[TypedReport]:
    """Those of `choice` that the caller may see: running ones first, then those that began last. `warn` hears one sentence where some could
    not be read.
    """
    any_ = choice.since is None and choice.state is None
    records = jobs_known.records(choice.limit if any_ else None, choice.uid, choice.since_s(), warn)
    return [report for report in map(job_report.of, records) if choice.takes(report)][: choice.limit]


def unseen(choice: Choice, reports: Iterable[TypedReport]) -> list[Use]:
    """Jobs of `choice` whose launches fikit did not see: they had GPUs alone, or asked for fikit and launched nothing through it. Those that began last first; none that is
    among `reports`, which say more."""
    reported = {(report.job, report.uid) for report in reports}
    found = jobs_known.uses(choice.since_s(), choice.uid)
    return [use for use in found if choice.takes_use(use) and (use["job"], use["uid"]) not in reported][: choice.limit]


def unseen_newest(uid: int | None) -> Use | None:
    """The job of which nothing else is known, where it began after every job that has a report, none of which runs."""
    newest = jobs_known.uses(uid=uid, limit=jobs_known.LISTED)
    if not newest:
        return None
    reported = jobs_known.records(jobs_known.LISTED, uid, warn=lambda text: None)
    if reported and (reported[0]["state"] == "running" or jobs_known.began(reported[0]) >= jobs_known.began(newest[0])):
        return None
    return newest[0]


def single(job: str | None, uid: int | None, warn: Warn = jobs_known.warn_on_stderr) -> TypedReport:
    """The report of one job (12, "12_3", "12+1"), None: of the newest one. `warn` as in chosen().

    NoReport where there is none that the caller may see; UserError for a number of several (an array), or for a report that cannot be read.
    """
    parts = jobs_known.parts(job, uid) if job is not None else []
    if job is not None and parts and not jobs_known.one_alone(parts, job):
        known, (what, part) = [jobs_known.place_of(record) for record in parts], jobs_known.whole(parts)
        more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
        raise UserError(f"job {job} is {what}: name one of its {part}s, {', '.join(known[:NAMED])}{more}")
    return one(job, uid, warn)


def one(job: str | None, uid: int | None, warn: Warn = jobs_known.warn_on_stderr) -> TypedReport:
    """As single(), of a job that is not several; `warn` as in chosen()."""
    if job is None:
        return job_report.of(jobs_known.newest(uid, warn))
    return job_report.of(jobs_known.find(jobs_known.own_number(job), uid))
