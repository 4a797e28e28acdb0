"""`fikit report`, also installed as `fikit-report`: what fikit did for a job."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click
from fikitd.client import Control, ControlError, DaemonUnreachable
from fikitd.command_line import run_command
from fikitd.reports import ReportError, ReportStore

from fikit import slurm_jobs
from fikit.errors import UserError, nearest
from fikit.places import elsewhere, places
from fikit.reporters import json, table

LISTED = 20


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("jobid", required=False)
@click.option("--list", "list_", is_flag=True, help=f"One line for each of the {LISTED} newest jobs.")
@click.option("--json", "as_json", is_flag=True, help="The report record(s) as JSON.")
def command(jobid: str | None, list_: bool, as_json: bool) -> None:
    """What fikit did for job JOBID (12, or 12_3 of an array); for the newest job when none is named. Running jobs are reported as they stand."""
    if list_:
        records = _records()[:LISTED]
        if as_json:
            json.emit(records)
        elif records:
            table.show(table.reports(records))
        else:
            click.echo(f"no reports yet in {_looked()}; only jobs that ran with a fikit option have one")
        return
    record = _newest() if jobid is None else _find(slurm_jobs.number(jobid))
    json.emit(record) if as_json else table.show(table.report(record))


def _find(jobid: str) -> dict[str, Any]:
    """The report of one job: from fikitd while it runs, else the stored one."""
    for place in places():
        with suppress(DaemonUnreachable, ControlError):
            return Control(place.run_dir).job(jobid)
        try:
            stored = ReportStore(place.report_dir).load(jobid)
        except ReportError as error:
            raise UserError(str(error)) from error
        if stored is not None:
            return stored
    ids = [str(record["job"]) for record in _records()]
    close = nearest(jobid, ids)
    near = f"; the nearest are {', '.join(close)}" if close else f"; the newest are {', '.join(ids[:3])}"
    raise UserError(
        f"there is no report of job {jobid}{near if ids else f' in {_looked()}'}{elsewhere(jobid, 'fikit-report')}"
    )


def _newest() -> dict[str, Any]:
    for record in _records():
        return record
    raise UserError(f"there is no report in {_looked()}; only jobs that ran with a fikit option have one")


def _records() -> list[dict[str, Any]]:
    """Every report this user can see, running jobs first, then the newest."""
    found: dict[str, dict[str, Any]] = {}
    for place in places():
        running: list[dict[str, Any]] = []
        with suppress(DaemonUnreachable, ControlError):
            running = Control(place.run_dir).jobs()
        for record in [*running, *ReportStore(place.report_dir).list()]:
            found.setdefault(str(record["job"]), record)
    return sorted(found.values(), key=lambda record: (record["state"] == "running", record["started"]), reverse=True)


def _looked() -> str:
    return " and ".join(str(place.report_dir) for place in places())


def main() -> None:
    """Entry point of `fikit-report`."""
    run_command(command, "fikit-report")
