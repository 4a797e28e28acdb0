"""`fikit top`: who uses this node's GPUs now."""

from __future__ import annotations

import signal
import sys
import time
from typing import Any, NoReturn

import click
from fikitd.api.client import Control, ControlError, DaemonUnreachable
from rich.console import Console, RenderableType
from rich.text import Text

from fikit import node_use
from fikit.api import node_view
from fikit.reporters import json, screen, table, top


@click.command()
@click.option(
    "--interval", type=click.FloatRange(0.2, 60.0), default=1.0, show_default=True, metavar="SECONDS",
    help="Show what happened in so long, and look again.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="One look; so it is where the output is no terminal.")
@click.option("--json", "as_json", is_flag=True, help="One look, as JSON, with its time.")
def command(interval: float, once: bool, as_json: bool) -> None:
    """Who uses this node's GPUs now, through fikit and around it. q or Ctrl-C ends it, ? says which keys there are.

    For each GPU whether its jobs share it in time slices or under MPS. For each job that shares a GPU: its part of the GPU's time, which parts of its elapsed time it waited and was
    delayed, were its host's or are unexplained, what it has come to so far against alone, of what is allowed, what it launches, how many kernels of lower jobs run in its gaps, and the GPU memory it holds. Of other users' jobs only what nvidia-smi
    and squeue show anyway.
    """
    if as_json or once or not sys.stdout.isatty():
        use = node_view.node(interval).record
        json.emit(use) if as_json else table.show(top.view(dict(use)))
        return
    control, before = node_view.first_look()
    console = screen.console()
    if not console.is_dumb_terminal and sys.stdin.isatty() and sys.stderr.isatty():  # by which textual draws
        from fikit.live import app, looks  # noqa: PLC0415  # textual is loaded where there is a terminal for it

        shown = app.Top(looks.Looks(control, before), interval)
        shown.run()
        sys.exit(shown.return_code)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _watch_below(console, control, before, interval)
    except KeyboardInterrupt:
        return


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
