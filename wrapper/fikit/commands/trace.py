"""`fikit trace`: the schedule of a job as a picture, or as a recording; and recordings from profilers' files."""

from __future__ import annotations

import gzip
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
from fikit.recordings import source
from fikit.reporters import perfetto
from fikit.site_paths import Place, elsewhere, places
from fikit.stored import played
from fikit.wording import screen
from fikit.wording.line import say

NAMED = 10  # of an array's tasks, or components


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("jobid", required=False)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
@click.option(
    "--recording",
    is_flag=True,
    help="The job as it would have been alone, as a recording that fikit sim plays (docs/emulated-gpu.md); compressed where FILE ends in .gz.",
)
@click.option(
    "--from",
    "profile",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Instead of a job: a recording from FILE, of PyTorch's profiler (JSON, also compressed) or of Nsight Systems (nsys export --type sqlite).",
)
@click.option("--user", metavar="USER", help="Of this user's job; root sees everybody's.")
def command(jobid: str | None, *, output: Path | None, recording: bool, profile: Path | None, user: str | None) -> None:
    """When job JOBID launched, waited and for whom, and how its gaps were predicted: a file for ui.perfetto.dev.

    It has the newest events of each process (trace_events in fikit.toml), while the job runs and afterwards, and with them what
    the job's report says of its elapsed time. With --recording or --from it is a recording, for fikit sim.
    """
    if (jobid is None) == (profile is None):
        raise click.UsageError("name a job, or a profiler's file: fikit trace JOBID, or fikit trace --from FILE")
    if output is None and sys.stdout.isatty():
        what = jobid if profile is None else f"--from {profile}"
        kind, name = ("a recording", "recording.csv.gz") if recording or profile else ("a trace", "trace.json")
        raise click.UsageError(f"{kind} is for a program: name a file (fikit trace {what} -o {name}), or use a pipe")
    uid = None if user is None else jobs_known.user(user)
    if profile is not None:
        _write_recording(source.read(profile), output)
        return
    number = _one(str(jobid), uid)
    if recording:
        _write_recording(played.of_job(number, uid), output)
        return
    text = json.dumps(perfetto.convert(_find(number, uid), _report(number, uid)))
    if output is None:
        screen.echo(text)
        return
    write(output, text)


def _write_recording(found: source.Found, output: Path | None) -> None:
    found.trace()  # what fikit sim would refuse is refused here
    for text in found.lacking:
        say(text)
    if output is None:
        screen.echo(found.text.removesuffix("\n"))
    elif output.name.endswith(".gz"):
        write(output, gzip.compress(found.text.encode(), mtime=0))
    else:
        write(output, found.text)


def _one(jobid: str, uid: int | None) -> str:
    """Its own number; UserError: it is several."""
    parts = jobs_known.parts(jobid, uid)
    if parts and not jobs_known.one_alone(parts, jobid):
        known, (what, part) = [jobs_known.place_of(record) for record in parts], jobs_known.whole(parts)
        more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
        raise UserError(f"job {jobid} is {what}: name one of its {part}s, {', '.join(known[:NAMED])}{more}")
    return jobs_known.own_number(jobid)


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
