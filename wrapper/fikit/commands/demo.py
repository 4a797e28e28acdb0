"""`fikit demo`: two jobs on one GPU, measured."""

from __future__ import annotations

import functools
import json as json_format
import shutil
import signal
import tempfile
from pathlib import Path

import click
from fikitd.base.validation import printable
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fikit import disk_space
from fikit.demo import disturbance, plan, usage
from fikit.demo.experiment import Experiment, Look, Outcome
from fikit.demo.launchers import Launcher, launcher_of
from fikit.demo.result import Result
from fikit.errors import UserError
from fikit.reporters import demo_table, json, picture, table
from fikit.wording import screen
from fikit.wording.line import say

LAST_WORDS = "fikit: job "


@click.command()
@click.option("--device", type=click.Choice(["emulated", "real"]), default="emulated", show_default=True,
              help="The GPU: the emulated one, or this machine's.")  # fmt: skip
@click.option("--no-slurm", is_flag=True, help="Start the jobs with `fikit run` instead of a throw-away Slurm.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", default=Path("out/demo"), show_default=True,
              help="Directory for summary.json, demo.svg and the jobs' outputs.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of the table.")
def command(device: str, no_slurm: bool, out: Path, as_json: bool) -> None:
    """Two jobs on one GPU: each alone, both with default sharing, both with fikit.

    High priority: image classification, a request at a time. Low priority: a training loop. Exit code 1 when fikit does
    not protect the high-priority job well enough.
    """
    plan.require()
    disturbed = disturbance.look("before it began")
    # A default SIGTERM would leave jobs, daemons and perhaps a whole Slurm behind.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    emulated = device == "emulated"
    logs = out.absolute() / "logs"
    _empty(logs)
    advice = f"make room in {out} and {tempfile.gettempdir()}, or choose others with --out and TMPDIR"
    with (
        disk_space.needed("the demo's files", advice),
        launcher_of(not no_slurm, plan.MODEL if emulated else None) as launcher,
    ):
        outcomes, version = _run(launcher, emulated, logs), launcher.slurm_version
    disturbed = disturbed or disturbance.look("after it had ended")
    result = Result.of(outcomes, emulated, version, disturbed)
    summary = result.summary()
    json.emit(summary) if as_json else table.show(demo_table.demo(summary))
    for line in [] if as_json else _last_words(logs):
        screen.echo(line)
    _write(out / "summary.json", json_format.dumps(summary, indent=2) + "\n")
    _write(out / "demo.svg", picture.demo(summary))
    say(f"the picture is {out / 'demo.svg'}, the figures are in {out / 'summary.json'}")
    failures = result.failures()
    if failures:
        raise UserError(
            f"the demo did not show what it should: {'; '.join([*failures, *([disturbed] if disturbed else [])])} "
            f"(jobs' outputs in {logs})"
        )


def _empty(directory: Path) -> None:
    """Make it anew. What cannot be written is said before the time that the demo takes."""
    shutil.rmtree(directory, ignore_errors=True)
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise UserError(
            f"{directory} could not be made: {error.strerror}; choose another directory with --out"
        ) from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise UserError(f"{path} could not be written: {error.strerror}") from None


def _last_words(logs: Path) -> list[str]:
    """The line that fikit wrote at the end of each job's output, of the whole job: its start and its end, too."""
    lines = [line for name in demo_table.JOBS for line in _lines(logs / f"fikit-{name}.out") if LAST_WORDS in line]
    return ["Of the whole jobs, with their starts and ends:", *lines] if lines else []


def _lines(path: Path) -> list[str]:
    try:
        return [printable(line) for line in path.read_text(errors="replace").splitlines()]
    except OSError:
        return []


def _run(launcher: Launcher, emulated: bool, logs: Path) -> dict[str, Outcome]:
    """Every step's outcome by the step's name, with a progress bar on stderr."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="fikit-meet-") as meet,
        Progress(*columns, console=screen.console(stderr=True), transient=True) as progress,
    ):
        sample = functools.partial(usage.emulated if emulated else usage.real, launcher)
        look = Look(sample, functools.partial(usage.managed, launcher), functools.partial(usage.report, launcher))
        experiment = Experiment(launcher, plan.environment(emulated, plan.cache_dir()), look, Path(meet), logs)
        outcomes = {}
        steps = plan.steps(Path(meet))
        task = progress.add_task("", total=len(steps))
        for name, step in steps.items():
            progress.update(task, description=step.label)
            outcomes[name] = experiment.run(name, step)
            progress.advance(task)
    return outcomes
