"""One line on stderr, the same form as the Slurm plugin's messages in a job's output."""

from __future__ import annotations

import logging

import click
from fikitd.base.validation import printable

from fikit.wording import screen


def say(text: str) -> None:
    """`fikit: TEXT`; a text that is already such a line (fikitd's summary) goes out as it is."""
    screen.echo(printable(text if text.startswith("fikit: ") else f"fikit: {text}"), err=True)


class _Once(logging.Handler):
    """What fikitd's stores say of files that they skip: one line for each, however often it is read."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self._said:
            self._said.add(text)
            say(f"warning: {text}")


def say_warnings() -> None:
    """From now on, as lines of ours, until the command ends."""
    logger, once = logging.getLogger("fikitd"), _Once()
    logger.addHandler(once)
    click.get_current_context().call_on_close(lambda: logger.removeHandler(once))
