"""Tables of benches in pages of the documentation: each stands between two comments, and its bench writes it anew."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from fikitd.store.storage import reason

from bench import record
from bench.record import BenchError

SHORT = 10
"""Of a commit's name."""


def add_argument(parser: argparse.ArgumentParser) -> None:
    """For a bench whose Result has a `table`."""
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="Markdown: write the table into it, in place of its last one"
    )


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that have no bars."""
    return "\n".join([_line(head), f"|{'---|' * len(head)}", *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def content(path: Path) -> str:
    """The page's text. Raises BenchError."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"couldn't read {path}: {reason(error)}") from error


def around(path: Path, name: str) -> tuple[str, str]:
    """What stands before and behind the table of this bench. Raises BenchError."""
    return split(content(path), name, path)


def split(text: str, name: str, path: Path) -> tuple[str, str]:
    """The text of the page at `path` before and behind the table of this bench. Raises BenchError."""
    begin, end = f"<!-- python -m bench {name} -->\n", "\n<!-- end -->"
    before, found, rest = text.partition(begin)
    _, ended, after = f"\n{rest}".partition(end)  # there may be no table yet
    if not found or not ended:
        raise BenchError(
            f"{path} has no place for this table, put {begin.strip()} before it and {end.strip()} behind it"
        )
    return before + begin, end + after


OUTPUT = ("--json", "--page", "--resume", "--svg", "--svg-use")
"""Options that name files of whoever made a table, and change nothing in it."""


def source() -> str:
    """The line below a table: what made it."""
    commit, plus, changes = record.commit().partition("+")
    return f"Commit {commit[:SHORT]}{plus}{changes}: `{record.command(without=OUTPUT)}`"


def write(path: Path, name: str, table: str) -> None:
    """Put the table of this bench in place of its last one, and what made it below. Raises BenchError."""
    if not table:
        raise BenchError(f"this run made no table for {path}, run it as the page says")
    before, after = around(path, name)
    try:
        path.write_text(f"{before}{table}\n\n{source()}{after}")
    except OSError as error:
        raise BenchError(f"couldn't write {path}: {error.strerror}") from error
