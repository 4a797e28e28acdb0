"""`fikit trace`: the schedule of a job as a picture."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.api.traces import TraceStore

from fikit import jobs_known
from fikit.errors import UserError, write
from fikit.reporters import perfetto, screen
from fikit.site_paths import Place, elsewhere, places

NAMED = 10  # of an array's tasks, or components


@click.command()
@click.argument("jobid")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@click.option("--user", metavar="USER", help="Of this user's job; root sees everybody's.")
def command(jobid: str, output: Path | None, user: str | None) -> None:
    """When job JOBID launched, waited and for whom, and how its gaps were predicted: a file for ui.perfetto.dev.

    It has the newest events of each process (trace_events in fikit.toml), while the job runs and afterwards, and with them what
    the job's report says of its elapsed time.
    """
    if output is None and sys.stdout.isatty():
        raise click.UsageError(
            f"a trace is for a program: name a file (fikit trace {jobid} -o trace.json), or use a pipe"
        )
    uid = None if user is None else jobs_known.user(user)
    parts = jobs_known.parts(jobid, uid)
    if parts and not jobs_known.one_alone(parts, jobid):
        known, (what, part) = [jobs_known.place_of(record) for record in parts], jobs_known.whole(parts)
        more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
        raise UserError(f"job {jobid} is {what}: name one of its {part}s, {', '.join(known[:NAMED])}{more}")
    number = jobs_known.own_number(jobid)
    text = json.dumps(perfetto.convert(_find(number, uid), _report(number, uid)))
    if output is None:
        screen.echo(text)
        return
    write(output, text)


def _report(jobid: str, uid: int | None) -> dict[str, Any] | None:
    """A trace is worth something without it."""
    with suppress(UserError):
        return jobs_known.stored(jobid, uid)
    return None


def _find(jobid: str, uid: int | None) -> dict[str, Any]:
    """The trace of one job: from fikitd while it runs, else the stored one."""
    answers = []

    def load(place: Place) -> dict[str, Any] | None:
        with suppress(DaemonUnreachable):
            try:
                running = Control(place.run_dir).trace(jobid)
                if uid in (None, running["uid"]):
                    return running
            except ControlError as error:
                answers.append(str(error))
        return TraceStore(place.report_dir).load(jobid, uid)

    if (found := jobs_known.first(load)) is not None:
        return found
    looked = " and ".join(str(place.report_dir) for place in places())
    said = f"; fikitd says: {answers[-1]}" if answers else ""
    raise UserError(f"there is no trace of job {jobid} in {looked}{said}{elsewhere(jobid, 'fikit trace')}")
