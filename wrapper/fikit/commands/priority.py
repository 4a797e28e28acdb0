"""`fikit priority`: another priority for a job that runs."""

from __future__ import annotations

from typing import Any

import click
from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.base import priorities

from fikit import jobs_known
from fikit.errors import UserError
from fikit.reporters import json
from fikit.site_paths import places
from fikit.wording import auto, screen


@click.command()
@click.argument("jobid")
@click.argument("priority", required=False)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="As {job, priority, priority_name}; without PRIORITY also auto, as in reports.",
)
def command(jobid: str, priority: str | None, as_json: bool) -> None:
    """Show the priority of job JOBID, or change it to PRIORITY: high, normal, low, 0 (highest) to 9, or auto.

    It works on the node where the job runs; from elsewhere: srun --overlap --jobid=JOBID fikit priority JOBID PRIORITY. A job's owner may
    lower its priority, and raise it again to what slurmctld approved; root may do anything. A job that was submitted with
    --fikit-priority=auto keeps the priority that you give it here, until auto leaves it to fikit again. A process that is a client of
    MPS keeps its priority there.
    """
    try:
        wanted = priority if priority in (None, priorities.AUTO) else priorities.parse(priority)
    except ValueError as error:
        raise click.UsageError(f"{error}, or auto") from None
    number = jobs_known.own_number(jobid)
    now, why = _ask(number, jobid, wanted)
    if as_json:
        known = {} if wanted is not None else {"auto": why}
        json.emit({"job": number, "priority": now, "priority_name": priorities.name(now), **known})
    else:
        screen.echo(f"job {jobid} has priority {priorities.name(now)}{f': {auto.why(why)}' if why else ''}")


def _ask(number: str, jobid: str, wanted: int | str | None) -> tuple[int, dict[str, Any] | None]:
    """What it is then, by the first fikitd that knows the job; and its range and why, where fikitd chooses and nothing was changed."""
    answers: list[str] = []
    for place in places():
        control = Control(place.run_dir)
        try:
            return _known(control.job(number)) if wanted is None else (control.priority(number, wanted), None)
        except (DaemonUnreachable, ControlError) as error:
            answers.append(str(error))
    here = answers[0] if answers else "there is no fikitd"
    raise UserError(
        f"the priority of job {jobid} could not be {'read' if wanted is None else 'changed'}: {here}; "
        f"on the job's own node it can be: srun --overlap --jobid={jobid} fikit priority {jobid}{'' if wanted is None else f' {wanted}'}"
    )


def _known(report: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
    return int(report["priority"]), report.get("auto")
