"""`fikit report`, also installed as `fikit-report`: what fikit did for a job, or for many."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click
from fikitd.api.uses import Use
from fikitd.base.command_line import run_command, version_option

from fikit import jobs_known
from fikit.advice import of_run, reported
from fikit.api import moments, queries, sums
from fikit.api.job_report import State, TypedReport
from fikit.api.queries import Choice
from fikit.errors import NoReport, write
from fikit.jobs_known import LISTED
from fikit.reporters import csv, job_table, job_use, json, many, table
from fikit.wording import screen
from fikit.wording.line import say


def since_moment(ctx: click.Context, param: click.Parameter, text: str | None) -> datetime | None:
    """The value of --since: `7d`, `2026-11-21T08:00`."""
    try:
        return None if text is None else moments.since(text, datetime.now(UTC))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("jobid", required=False)
@click.option("--list", "list_", is_flag=True, help=f"One line for each of the {LISTED} newest jobs.")
@click.option(
    "--since",
    metavar="TIME",
    callback=since_moment,
    help="Of all jobs that ran since then, with totals: 90min, 12h, 1d or 2w ago, or 2026-11-21T08:00.",
)
@click.option("--state", type=click.Choice(["running", "ended"]), help="Of all jobs that run, or have ended.")
@click.option(
    "--sort",
    type=click.Choice(list(many.ORDERS)),
    help="Of all jobs, those with most of it first; those of which it is not known come last.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Of all jobs, as comma-separated values; the totals on stderr.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="The report record as JSON, with what to do under `advice`; a list of them with --list, of an array, and of a heterogeneous job; "
    "{jobs, totals, uses, use_totals} with --since, --state or --sort.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write job JOBID's report as one page for a browser: timeline, where the time went, waits, memory, kernels.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also the policy, and what was made of the job's gaps.")
@click.option("--user", metavar="USER", help="Of this user's jobs; root sees everybody's.")
def command(
    jobid: str | None,
    *,
    list_: bool,
    since: datetime | None,
    state: State | None,
    sort: str | None,
    as_csv: bool,
    as_json: bool,
    html: Path | None,
    verbose: bool,
    user: str | None,
) -> None:
    """What fikit did for job JOBID; for the newest job when you name none. Of a job that runs on this node: what it did so far.

    Of a job that had a GPU to itself, it says what NVML saw, where the site's fikitd looks (gpu_use_s).
    Of one that asked for fikit, or for a share, and launched nothing through it, it says that. Reports of many
    jobs have a table of their own for such jobs, and count them in no sum.

    JOBID is 12, 12_3 for a task of an array, or 12+1 for a component of a heterogeneous job; 12 lists all of them.
    """
    if jobid == "":  # fikit report "$JOB"
        raise click.UsageError("JOBID is empty")
    of_many = bool(since or state or sort or as_csv)
    if of_many and jobid is not None:
        raise click.UsageError(f"--since, --state, --sort and --csv are for many jobs: leave out {jobid}")
    if as_csv and as_json:
        raise click.UsageError("choose one of --csv and --json")
    if html is not None and (of_many or list_ or as_json):
        raise click.UsageError(
            "--html is a page of one job: leave out --list, --since, --state, --sort, --csv and --json"
        )
    uid = None if user is None else jobs_known.user(user)
    if html is not None:
        _write_page(_report_of(jobid, uid), html)
    elif of_many:
        choice = Choice(since, uid, state)
        found = queries.chosen(choice)
        unseen = queries.unseen(choice, found)
        _show_many(many.ordered(found, sort), many.ordered_uses(unseen, sort), as_csv, as_json)
    elif list_:
        _list(uid, as_json)
    else:
        _show(jobid, uid, as_json, verbose)


def _show_many(reports: list[TypedReport], unseen: list[Use], as_csv: bool, as_json: bool) -> None:
    totals = sums.totals(reports)
    if as_json:
        json.emit(
            {
                "jobs": [each.record for each in reports],
                "totals": asdict(totals),
                "uses": unseen,
                "use_totals": job_use.totals(job_use.sums(unseen)),
            }
        )
    elif as_csv:
        csv.emit(reports, unseen)
        for line in many.every_line(totals, unseen):
            say(line)
    elif reports or unseen:
        table.show(*many.view(reports, totals, unseen))
    else:
        screen.echo(
            f"no such job has a report in {jobs_known.looked()}; only jobs that ran with a fikit option, or had shards, have one"
        )


def _report_of(jobid: str | None, uid: int | None) -> TypedReport:
    """NoReport of a job whose launches fikit did not see says what there is."""
    try:
        return queries.single(jobid, uid)
    except NoReport:
        if jobid is None or jobs_known.use(jobs_known.own_number(jobid), uid) is None:
            raise
    raise NoReport(
        f"job {jobid} launched nothing through fikit, so there is no page of it; fikit-report {jobid} says what is known"
    )


def _write_page(found: TypedReport, file: Path) -> None:
    from fikit.page import document, look_up, render  # noqa: PLC0415  # Jinja2 is loaded where a page is asked for

    made = document.of(found, tuple(reported.advise(found)), look_up.sources(found.record), datetime.now(UTC))
    write(file, render.html(made))


def _list(uid: int | None, as_json: bool) -> None:
    records = jobs_known.records(LISTED, uid)
    if as_json:
        json.emit(records)
        return
    reported = {(record["job"], record["uid"]) for record in records}
    unseen = [use for use in jobs_known.uses(uid=uid, limit=LISTED) if (use["job"], use["uid"]) not in reported]
    if records:
        table.show(table.reports(records))
    if unseen:
        table.show(job_use.grid(unseen))
    if not records and not unseen:
        screen.echo(
            f"no reports yet in {jobs_known.looked()}; only jobs that ran with a fikit option, or had shards, have one"
        )


def _show(jobid: str | None, uid: int | None, as_json: bool, verbose: bool) -> None:
    parts = [] if jobid is None else jobs_known.parts(jobid, uid)
    if parts and as_json:
        json.emit(parts)  # also of one: what a program gets must not depend on how many have begun
    elif parts and not jobs_known.one_alone(parts, str(jobid)):
        what, part = jobs_known.whole(parts)
        how = f"{jobid}{'_' if part == 'task' else '+'}{part.upper()}"
        table.show(table.reports(parts), f"Job {jobid} is {what}. One of its {part}s: fikit-report {how}")
    elif jobid is None and (use := queries.unseen_newest(uid)) is not None:
        _show_use(use, as_json)
    else:
        try:
            found = queries.one(jobid, uid)
        except NoReport:
            if jobid is None or (use := jobs_known.use(jobs_known.own_number(jobid), uid)) is None:
                raise
            _show_use(use, as_json)
            return
        advices = tuple(reported.advise(found))
        if as_json:
            json.emit({**found.record, "advice": of_run.document(advices)})
        else:
            table.show(job_table.report(dict(found.record), verbose, advices))


def _show_use(use: Use, as_json: bool) -> None:
    """Of a job that had its GPU alone, or asked for fikit and launched nothing through it."""
    advices = reported.advise_of_use(use)
    if as_json:
        json.emit({**use, "advice": of_run.document(advices)})
    else:
        table.show(job_use.report(use, advices))


def main() -> None:
    """Entry point of `fikit-report`, which is a program of its own: it says its version."""
    run_command(version_option("fikit-report")(command), "fikit-report")
