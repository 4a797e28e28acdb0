"""The stored traces of jobs, as recordings: what `fikit sim --job` plays, and `fikit trace --recording` writes."""

from __future__ import annotations

from fikit import jobs_known
from fikit.errors import UserError
from fikit.recordings.source import Found
from fikit.stored import recording, traces
from fikit.wording import units


def of_job(jobid: str, uid: int | None) -> Found:
    """A job's recording. UserError: there is no report or no trace of it, or the trace says too little."""
    job = jobs_known.own_number(jobid)
    report = jobs_known.find(job, uid)
    trace = traces.of(job, report["uid"])
    if trace is None:
        raise UserError(f"there is no trace of job {jobid} that can be read: trace_events in fikit.toml keeps them")
    try:
        found = recording.of(trace)
    except recording.NotEnough as error:
        raise UserError(f"the trace of job {jobid} is no recording: {error}") from None
    lacking = [
        *([f"job {jobid}: {units.count(found.unknown)} of {units.count(found.launches + found.unknown)} launches have no known length and are left out"] if found.unknown else []),
        *([f"job {jobid}: of {found.processes} processes the one that launched most is taken"] if found.processes > 1 else []),
        *([f"job {jobid}: the trace has its newest events only"] if any(client["lost"] for client in trace["clients"]) else []),
    ]  # fmt: skip
    return Found(f"job {jobid} {report['name']}".strip(), found.text, f"the trace of job {jobid}", lacking)
