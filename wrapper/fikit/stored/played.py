"""What `fikit sim --job` plays: the stored traces of jobs, as recordings."""

from __future__ import annotations

from fikitd.simulation import simulator
from fikitd.simulation.simulator import SimulatorError, Trace

from fikit import jobs_known
from fikit.errors import UserError
from fikit.reporters import units
from fikit.stored import recording, traces


def load(jobid: str, uid: int | None) -> tuple[Trace, list[str]]:
    """A job's recording, and what it lacks, in words. UserError: there is no report or no trace of it, or the trace says too little."""
    job = jobs_known.own_number(jobid)
    report = jobs_known.find(job, uid)
    trace = traces.of(job, report["uid"])
    if trace is None:
        raise UserError(f"there is no trace of job {jobid} that can be read: trace_events in fikit.toml keeps them")
    try:
        found = recording.of(trace)
        made = simulator.parse(f"job {jobid} {report['name']}".strip(), found.text, f"the trace of job {jobid}")
    except recording.NotEnough as error:
        raise UserError(f"job {jobid} cannot be simulated from its trace: {error}") from None
    except SimulatorError as error:
        raise UserError(str(error)) from None
    lacking = [
        *([f"job {jobid}: {units.count(found.unknown)} of {units.count(found.launches + found.unknown)} launches have no known length and are left out"] if found.unknown else []),
        *([f"job {jobid}: of {found.processes} processes the one that launched most is played"] if found.processes > 1 else []),
        *([f"job {jobid}: the trace has its newest events only"] if any(client["lost"] for client in trace["clients"]) else []),
    ]  # fmt: skip
    return made, lacking
