"""fikitd's log: one line of text for each message, whatever names are in it. Root reads it on a terminal, or a program by lines."""

from __future__ import annotations

import logging
import sys

from fikitd.base.validation import printable, printable_lines
from fikitd.daemon.log_bounds import Bounded


class Lines(logging.Formatter):
    """A message is one line; the trace of a fault of ours, which may follow, has several."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


def begin() -> None:
    """To stderr, from `info` on, within bounds."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines("fikitd: %(levelname)s: %(message)s"))
    handler.addFilter(Bounded())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logging.addLevelName(level, logging.getLevelName(level).lower())
