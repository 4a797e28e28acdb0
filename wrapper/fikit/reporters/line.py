"""One line on stderr, the same form as the Slurm plugin's messages in a job's output."""

from __future__ import annotations

import click


def say(text: str) -> None:
    """`fikit: TEXT`; a text that is already such a line (fikitd's summary) goes out as it is."""
    click.echo(text if text.startswith("fikit: ") else f"fikit: {text}", err=True)
