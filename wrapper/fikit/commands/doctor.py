"""`fikit doctor`: is this machine ready?"""

from __future__ import annotations

import click
from rich.progress import track

from fikit.checks import all_checks
from fikit.reporters import json, table
from fikit.wording import screen


@click.command()
@click.option("--json", "as_json", is_flag=True, help="A list of {name, status, found, advice}.")
def command(as_json: bool) -> int:
    """Check this machine and say what to do. Exit code 1 when something fails; warnings are no failure."""
    console = screen.console(stderr=True)
    results = [c.as_dict() for c in track(all_checks(), "checking", console=console, transient=True)]
    json.emit(results) if as_json else table.show(table.checks(results))
    return 1 if any(result["status"] == "fail" for result in results) else 0
