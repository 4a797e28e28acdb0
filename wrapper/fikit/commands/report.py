"""`fikit report`, also installed as `fikit-report`: what fikit did for a job."""

from __future__ import annotations

from typing import Any

import click
from fikitd.command_line import run_command, version_option

from fikit import jobs_known
from fikit.errors import UserError, nearest
from fikit.places import elsewhere, looked_in, places
from fikit.reporters import json, screen, table

LISTED = 20
COMPARED = 1000  # of the newest numbers, with one that is not there


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("jobid", required=False)
@click.option("--list", "list_", is_flag=True, help=f"One line for each of the {LISTED} newest jobs.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="The report record as JSON; a list of them with --list, of an array, and of a heterogeneous job.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also the policy, and what was made of the job's gaps.")
@click.option("--user", metavar="USER", help="Of this user's jobs; root sees everybody's.")
def command(jobid: str | None, list_: bool, as_json: bool, verbose: bool, user: str | None) -> None:
    """What fikit did for job JOBID; for the newest job when none is named. Running jobs are reported as they stand.

    JOBID is 12, 12_3 for a task of an array, or 12+1 for a component of a heterogeneous job; 12 lists all of them.
    """
    if jobid == "":  # fikit report "$JOB"
        raise click.UsageError("JOBID is empty")
    uid = None if user is None else jobs_known.user(user)
    if list_:
        records = jobs_known.records(LISTED, uid)
        if as_json:
            json.emit(records)
        elif records:
            table.show(table.reports(records))
        else:
            screen.echo(f"no reports yet in {_looked()}; only jobs that ran with a fikit option have one")
        return
    parts = [] if jobid is None else jobs_known.parts(jobid, uid)
    if parts and as_json:
        json.emit(parts)  # also of one: what a program gets must not depend on how many have begun
        return
    if parts and not jobs_known.one_alone(parts, str(jobid)):
        what, part = jobs_known.whole(parts)
        how = f"{jobid}{'_' if part == 'task' else '+'}{part.upper()}"
        table.show(table.reports(parts), f"Job {jobid} is {what}. One of its {part}s: fikit-report {how}")
        return
    record = _newest(uid) if jobid is None else _find(jobs_known.own_number(jobid), uid)
    json.emit(record) if as_json else table.show(table.report(record, verbose))


def _find(jobid: str, uid: int | None) -> dict[str, Any]:
    if (stored := jobs_known.stored(jobid, uid)) is not None:
        return stored
    ids = jobs_known.numbers()
    close = nearest(jobid, ids[:COMPARED])
    near = f"; the nearest are {', '.join(close)}" if close else f"; the newest are {', '.join(ids[:3])}"
    raise UserError(
        f"there is no report of job {jobid}{near if ids else f' in {_looked()}'}{elsewhere(jobid, 'fikit-report')}"
    )


def _newest(uid: int | None) -> dict[str, Any]:
    for record in jobs_known.records(LISTED, uid):
        return record
    raise UserError(f"there is no report in {_looked()}; only jobs that ran with a fikit option have one")


def _looked() -> str:
    return looked_in(place.report_dir for place in places())


def main() -> None:
    """Entry point of `fikit-report`, which is a program of its own: it says its version."""
    run_command(version_option("fikit-report")(command), "fikit-report")
