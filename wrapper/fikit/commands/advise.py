"""`fikit advise`: what a job may expect on each GPU, and what to type instead."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click
from fikitd.config.fikit_toml import ConfigError

from fikit import jobs_known
from fikit.advice import document, gather, offers, rules
from fikit.advice.situation import Situation
from fikit.api import queries
from fikit.api.queries import Choice
from fikit.cluster import past
from fikit.commands.report import since_moment
from fikit.errors import UserError, write
from fikit.options import quantities
from fikit.reporters import advice as reporter
from fikit.reporters import json, site, table
from fikit.wording.line import say, say_warnings

WEEK: Final = timedelta(days=7)


@click.command()
@click.argument("script", required=False, type=click.Path(path_type=Path))
@click.option("--job", metavar="JOBID", help="Of a job that waits or runs, instead of a script.")
@click.option(
    "--deadline",
    metavar="TIME",
    callback=quantities.nanoseconds,
    help="Beside whom do requests take at most TIME, as 20ms?",
)
@click.option(
    "--site",
    "of_site",
    is_flag=True,
    help="Instead: what ended jobs made of their GPUs, what sharing would free, which promises were broken and why.",
)
@click.option(
    "--since",
    metavar="TIME",
    callback=since_moment,
    help="With --site: of jobs that ended since then, as fikit report takes it; 7d without it.",
)
@click.option(
    "--csv",
    "as_csv",
    is_flag=True,
    help="With --site: a line for each job, as comma-separated values; the sums on stderr.",
)
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="With --site: write one page for a browser."
)
@click.option(
    "--json", "as_json", is_flag=True, help="As {job, expected, gpus, alone, waiting, advice, notes}, with --site as {since, until, sums, users, jobs}; times in seconds."
)  # fmt: skip
def command(
    script: Path | None, job: str | None, deadline: int | None, *, of_site: bool, since: datetime | None, as_csv: bool, html: Path | None, as_json: bool
) -> None:  # fmt: skip
    """What a job of batch script SCRIPT may expect: how long it runs, on which GPU beside which jobs, what that costs it and them, and what to type instead.

    fikit reckons this from earlier jobs of the same name and from what squeue shows. It submits and changes nothing; Slurm decides what starts where.

    With --site, for administrators: for how many GPU-hours jobs held a GPU and kept it less than 20 % busy, what sharing would free, which promises fikit broke and why. It reads all reports and
    records of use that the caller may read: root everybody's, others their own.
    """
    say_warnings()
    if of_site:
        if script is not None or job is not None or deadline is not None:
            raise click.UsageError("--site is about all jobs: leave out SCRIPT, --job and --deadline")
        if as_csv + as_json + (html is not None) > 1:
            raise click.UsageError("choose one of --csv, --html and --json")
        _site(since or datetime.now(UTC) - WEEK, as_csv, html, as_json)
        return
    if since is not None or as_csv or html is not None:
        raise click.UsageError("--since, --csv and --html go with --site")
    if (script is None) == (job is None):
        raise click.UsageError("name either a batch script or, with --job, a job")
    deadline_s = None if deadline is None else deadline / 1e9
    try:
        facts = (
            gather.of_job(jobs_known.own_number(job), deadline_s)
            if job
            else gather.of_script(script or Path(), deadline_s)
        )
    except ConfigError as error:
        raise UserError(str(error)) from error
    situation = Situation(facts, offers.offers(facts), offers.alone(facts))
    found = document.of(situation, rules.advise(situation))
    json.emit(found) if as_json else table.show(*reporter.advice(found))


def _site(since: datetime, as_csv: bool, html: Path | None, as_json: bool) -> None:
    found = past.of(
        queries.chosen(Choice(since, state="ended")), jobs_known.uses(since.timestamp()), since, datetime.now(UTC)
    )
    if as_json:
        json.emit(site.document(found))
    elif as_csv:
        site.emit_csv(found)
        for line in site.lines(found):
            say(line)
    elif html is not None:
        from fikit.page import render  # noqa: PLC0415  # Jinja2 is loaded where a page is asked for
        from fikit.page import site as page  # noqa: PLC0415

        write(html, render.site(page.of(found)))
    else:
        table.show(*site.view(found))
    if os.geteuid() != 0 and not as_json:
        say("only your own jobs are in it: root sees everybody's")
