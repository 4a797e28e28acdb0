"""`fikit advise`: what a job may expect on each GPU, and what to type instead."""

from __future__ import annotations

from pathlib import Path

import click
from fikitd.config.fikit_toml import ConfigError

from fikit import jobs_known
from fikit.advice import document, gather, offers, rules
from fikit.advice.situation import Situation
from fikit.errors import UserError
from fikit.options import quantities
from fikit.reporters import advice as reporter
from fikit.reporters import json, table
from fikit.wording.line import say_warnings


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
    "--json", "as_json", is_flag=True, help="As {job, expected, gpus, alone, advice, notes}; times in seconds."
)
def command(script: Path | None, job: str | None, deadline: int | None, as_json: bool) -> None:
    """What batch script SCRIPT may expect: how long it runs, on which GPU beside whom, what that costs it and them, and what to type instead.

    Reckoned from earlier runs of the same name and what squeue shows; nothing is submitted or changed. Slurm decides what starts where.
    """
    say_warnings()
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
