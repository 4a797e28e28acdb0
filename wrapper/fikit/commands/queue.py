"""`fikit queue`: what waits for a share of a GPU, and for what."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from fikit.errors import UserError
from fikit.placement.commands import Commands, SlurmError
from fikit.placement.jobs import Job
from fikit.reporters import json, table
from fikit.reporters import placement as shown

MOST: Final = 500
"""Jobs of which Slurm is asked what the agent wrote about them."""
EXPECTED: Final = re.compile(r",expected_s=(\d{1,12})$", re.ASCII)
WAITS: Final = re.compile(r"^fikit:waits,for=([\d:]+),until~(\d{1,12})$", re.ASCII)
REASONS: Final = {
    "None": "for Slurm to look at it",
    "Resources": "for room on a GPU",
    "Priority": "for those before it",
    "Dependency": "for a job that it depends on",
    "BeginTime": "for its begin time",
}


@click.command()
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="A list of {job, uid, name, place, gib, waited_s, expected_s, starts_in_s, why}.",
)
def command(as_json: bool) -> None:
    """Which jobs that share a GPU wait, the first one first: what each waits for, how long it is expected to run, and when Slurm
    expects it to start (Slurm works that out only for the first jobs of its queue)."""
    slurm = Commands()
    try:
        waiting = sorted(
            (job for job in slurm.jobs() if job.waits and job.shards),
            key=lambda job: (-job.priority, job.submit_s, job.number),
        )
        notes = slurm.notes(job.number for job in waiting[:MOST])
    except SlurmError as error:
        raise UserError(
            f"the queue could not be read: {error}; `fikit doctor` says whether this machine is in a cluster"
        ) from error
    rows = list(_rows(waiting, notes, time.time()))
    json.emit(rows) if as_json else table.show(shown.queue(rows))


def _rows(waiting: Sequence[Job], notes: dict[int, str], now_s: float) -> Iterator[dict[str, Any]]:
    for place, job in enumerate(waiting, start=1):
        note = notes.get(job.number, "")
        yield {
            "job": job.shown,
            "uid": job.uid,
            "name": job.name,
            "place": place,
            "gib": job.shards,
            "waited_s": max(0.0, now_s - job.submit_s),
            "expected_s": float(found[1]) if (found := EXPECTED.search(note)) else None,
            "starts_in_s": _starts_s(job, note, now_s),
            "why": _why(job, note),
        }


def _starts_s(job: Job, note: str, now_s: float) -> float | None:
    """From now, by Slurm or by the agent."""
    waits = WAITS.search(note)
    start_s = float(waits[2]) if waits else job.start_s
    return start_s - now_s if start_s > now_s else None


def _why(job: Job, note: str) -> str:
    waits = WAITS.search(note)
    if waits and job.dependency:
        return f"for a better place than beside {' or '.join(waits[1].split(':'))}, one of which ends first"
    reason, alone = REASONS.get(job.reason, job.reason), job.left_alone()
    return f"{reason}; not ordered: {alone}" if alone else reason
