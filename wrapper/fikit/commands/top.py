"""`fikit top`: who uses this node's GPUs now."""

from __future__ import annotations

import signal
import sys
import time
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

import click
from fikitd.api.client import Control, ControlError, DaemonUnreachable
from rich.console import Console, RenderableType
from rich.text import Text

from fikit.api import node_use, node_view
from fikit.cluster import look
from fikit.options.numbers import Number
from fikit.reporters import cluster, json, table, top
from fikit.wording import screen

NODE_S: Final = 1.0
ALL_S: Final = 15.0  # as often as fikitd writes


@click.command()
@click.option(
    "--interval", type=Number(0.2, 60.0), metavar="SECONDS",
    help="Look again after so long, and show what happened in between; 1, with --all 15.",
)  # fmt: skip
@click.option(
    "--all", "of_all", is_flag=True, help="Every node and GPU of the cluster, from wherever Slurm's commands work."
)
@click.option("--once", is_flag=True, help="Look once, as where the output is no terminal.")
@click.option("--json", "as_json", is_flag=True, help="Look once, and print JSON with the time of the look.")
def command(interval: float | None, of_all: bool, once: bool, as_json: bool) -> None:
    """Who uses this node's GPUs now, through fikit and around it. q or Ctrl-C ends it, ? says which keys there are.

    For each GPU it says whether jobs share it in time slices or under MPS. For each job that shares a GPU it shows the job's part of the GPU's time; which parts of its own time the job
    waited, was delayed, or its host took, and which are unexplained; how much longer the job has taken than alone so far, and how much lower jobs may add; how much it launches, how many
    kernels of lower jobs run in its gaps, and the GPU memory that it holds: of a job with
    memory on the host also what of it is on the GPU now, and the budget of its plan. Of other users' jobs it shows only what nvidia-smi and squeue show anyway.

    With --all it shows every node: Slurm's state, who is on each GPU, how much of its time lower jobs filled today, and which promises fikit broke. It reads the files that the nodes' fikitd
    renew where fikit.toml names a status_dir; of other nodes it shows what Slurm says.
    """
    if of_all:
        _all(interval or ALL_S, once, as_json)
        return
    interval = interval or NODE_S
    if as_json or once or not sys.stdout.isatty():
        use = node_view.node(interval).record
        json.emit(use) if as_json else table.show(top.view(dict(use)))
        return
    control, before = node_view.first_look()
    console = screen.console()
    if _draws(console):
        from fikit.live import app, looks  # noqa: PLC0415  # textual is loaded where there is a terminal for it

        shown = app.Top(looks.Looks(control, before), interval)
        shown.run()
        sys.exit(shown.return_code)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _watch_below(console, control, before, interval)
    except KeyboardInterrupt:
        return


def _all(interval: float, once: bool, as_json: bool) -> None:
    console = screen.console()
    if as_json:
        json.emit(cluster.document(look.look(), datetime.now(UTC)))
    elif once or not sys.stdout.isatty() or not _draws(console):
        found = cluster.lines(look.look())
        if sys.stdout.isatty():
            console.print(*found, sep="\n", no_wrap=True, overflow="ellipsis")
        else:
            for line in found:
                screen.echo(line.plain.rstrip())
    else:
        from fikit.live.cluster import TopAll  # noqa: PLC0415  # textual is loaded where there is a terminal for it

        shown = TopAll(look.look, interval)
        shown.run()
        sys.exit(shown.return_code)


def _draws(console: Console) -> bool:
    """Whether textual can use this terminal."""
    return not console.is_dumb_terminal and sys.stdin.isatty() and sys.stderr.isatty()


def _watch_below(console: Console, control: Control, before: dict[str, Any] | None, interval: float) -> NoReturn:
    """One look below the other, where nothing can be replaced."""
    while True:
        shown, before = _next(control, before, interval)
        console.print(shown)


def _next(
    control: Control, before: dict[str, Any] | None, interval: float
) -> tuple[RenderableType, dict[str, Any] | None]:
    time.sleep(interval)
    try:
        after = control.node()
    except (DaemonUnreachable, ControlError) as error:  # it may be about to be restarted
        return Text(str(error), style="yellow"), None
    return top.view(node_use.between(before or after, after)), after
