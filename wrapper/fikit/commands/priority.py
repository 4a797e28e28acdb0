"""`fikit priority`: another priority for a job that runs."""

from __future__ import annotations

from typing import Any

import click
from fikitd.client import Control, ControlError, DaemonUnreachable

from fikit import jobs_known
from fikit.errors import UserError
from fikit.places import places
from fikit.reporters import json, screen
from fikitd import priorities


@click.command()
@click.argument("jobid")
@click.argument("priority", required=False)
@click.option("--json", "as_json", is_flag=True, help="As {job, priority, priority_name}.")
def command(jobid: str, priority: str | None, as_json: bool) -> None:
    """Show the priority of job JOBID, or change it to PRIORITY: high, normal, low, or 0 (highest) to 9.

    On the node where the job runs; from elsewhere: srun --overlap --jobid=JOBID fikit priority JOBID PRIORITY. A job's owner may
    lower it, and raise it again to what was approved for it; root may do anything. A process that is a client of MPS keeps its
    priority there.
    """
    try:
        wanted = None if priority is None else priorities.parse(priority)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    number = jobs_known.own_number(jobid)
    now = _ask(number, jobid, wanted)
    if as_json:
        json.emit({"job": number, "priority": now, "priority_name": priorities.name(now)})
    else:
        screen.echo(f"job {jobid} has priority {priorities.name(now)}")


def _ask(number: str, jobid: str, wanted: int | None) -> int:
    """What it is then, by the first fikitd that knows the job."""
    answers: list[str] = []
    for place in places():
        control = Control(place.run_dir)
        try:
            return _known(control.job(number)) if wanted is None else control.priority(number, wanted)
        except (DaemonUnreachable, ControlError) as error:
            answers.append(str(error))
    here = answers[0] if answers else "there is no fikitd"
    raise UserError(
        f"the priority of job {jobid} could not be {'read' if wanted is None else 'changed'}: {here}; "
        f"from another node use srun --overlap --jobid={jobid} fikit priority {jobid}{'' if wanted is None else f' {wanted}'}"
    )


def _known(report: dict[str, Any]) -> int:
    return int(report["priority"])
