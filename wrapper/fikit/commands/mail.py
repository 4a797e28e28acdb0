"""`fikit mail`: what fikit-mail, Slurm's MailProg, adds to the mail about a job."""

from __future__ import annotations

import pwd
import re
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import click
from fikitd.api import outcomes
from fikitd.api.outcomes import UNKNOWN, Outcome
from fikitd.api.reports import summary_line
from fikitd.base import priorities
from fikitd.config import fikit_toml

from fikit import jobs_known
from fikit.api.job_report import moment
from fikit.errors import NoReport, UserError
from fikit.options.numbers import Number
from fikit.slurm import jobs
from fikit.wording import screen, units

RECENT: Final = timedelta(
    minutes=15
)  # Slurm uses a job's number again when the job is requeued: an older report is of an earlier run
LOOK_S: Final = 0.5
HAS_GPU: Final = re.compile(r"\bgres[:/](gpu|shard)\b")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("jobid")
@click.option(
    "--wait", "wait_s", type=Number(0, 600), default=0.0, metavar="SECONDS",
    help="Of a job with a GPU: Slurm sends its mail before the node has finished the report.",
)  # fmt: skip
def command(jobid: str, wait_s: float) -> None:
    """One line about job JOBID, which has just ended: what fikit-mail, Slurm's MailProg, adds to its mail.

    From its report, where the caller may read that, else from the numbers that the node keeps for the controller (outcomes_dir). Nothing,
    and exit code 1, where there is neither.
    """
    if not jobid.isdecimal() or not jobid.isascii():
        raise click.UsageError(f'"{jobid}" is no number of a job, as Slurm gives it to its MailProg')
    until = time.monotonic() + wait_s
    may_come = wait_s > 0 and HAS_GPU.search(jobs.shown(jobid)) is not None
    while (line := _line(jobid, datetime.now(UTC))) is None:
        if not may_come or time.monotonic() >= until:
            raise NoReport(f"there is no report of job {jobid}, ended in the last {RECENT.seconds // 60} minutes")
        time.sleep(LOOK_S)
    screen.echo(line)  # printable: a stored report is checked when it is read


def _line(jobid: str, now: datetime) -> str | None:
    with suppress(UserError):
        record = jobs_known.stored(jobid)
        if record is not None and _is_new(moment(record["ended"]), now):
            return f"{summary_line(record)}. Details: fikit-report {jobid}"
    of_job = [each for each in _outcomes() if each.job == int(jobid) and _is_new(_at(each), now)]
    return said(of_job[0]) if of_job else None  # the newest first


def said(outcome: Outcome) -> str:
    """The numbers that the controller may know, as far as they are known."""
    facts = [f"ran {units.span(outcome.elapsed_s)}"]
    facts += [f"{units.ratio(outcome.slowdown)} of its time alone"] if outcome.slowdown != UNKNOWN else []
    facts += [f"GPU busy {units.share(outcome.busy)} of its time alone"] if outcome.busy != UNKNOWN else []
    facts += [f"peak {units.gibibytes(outcome.peak_mib << 20)}"] if outcome.peak_mib else []
    emulated = " (emulated GPU)" if outcome.emulated else ""
    return f"fikit: job {outcome.job} {priorities.name(outcome.priority)}: {', '.join(facts)}{emulated}. Details: fikit-report {outcome.job}"


def _is_new(ended: datetime | None, now: datetime) -> bool:
    return ended is not None and abs(now - ended) <= RECENT


def _at(outcome: Outcome) -> datetime | None:
    return moment(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(min(outcome.ended_s, 2**40))))


def _outcomes() -> list[Outcome]:
    with suppress(OSError, ValueError, KeyError, fikit_toml.ConfigError):
        site = fikit_toml.load().daemon
        return outcomes.read(site.outcomes_dir, [pwd.getpwnam(site.outcomes_user).pw_uid]) if site.outcomes_dir else []
    return []
