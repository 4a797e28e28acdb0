"""A block of a page: a table or a picture that is made of runs on a GPU. Pure: runs in, text out.

A table takes each row from the newest run that has the row, and names the run in its last column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bench import page
from bench.gpu.pages.runs import Found, Run, by_device

COMMAND = "python -m bench gpu --page docs/measured.md"

Key = tuple[Any, ...]
Row = tuple[Key, Sequence[str]]  # two rows with one key are the same measurement, made twice


@dataclass(frozen=True)
class Made:
    """The outcome of a block: its Markdown, empty without data; the names of the runs in it; how many rows it has."""

    text: str = ""
    runs: tuple[str, ...] = ()
    rows: int = 0


class Block(Protocol):
    def make(self, runs: Sequence[Run]) -> Made:
        """`runs`: newest first."""
        ...


@dataclass(frozen=True)
class Table:
    """`rows` takes the `parts` of one run's file. With `by_key` rows stand in the order of their keys, else as they were found."""

    head: tuple[str, ...]
    rows: Callable[[Found], Iterable[Row]]
    title: str = ""
    about: str = ""  # below the title
    by_key: bool = False

    def merged(self, runs: Sequence[Run]) -> list[tuple[Sequence[str], Run]]:
        """Each row of the newest run that has it."""
        found: dict[Key, tuple[Sequence[str], Run]] = {}
        for run in runs:
            for key, cells in self.rows(run.parts):
                found.setdefault(key, (cells, run))
        return [found[key] for key in (sorted(found) if self.by_key else found)]

    def make(self, runs: Sequence[Run]) -> Made:
        """One table for each GPU model."""
        groups = by_device(runs)
        of_device = {device: rows for device, own in groups.items() if (rows := self.merged(own))}
        if not of_device:
            return Made()
        used = tuple(dict.fromkeys(run.name for rows in of_device.values() for _, run in rows))
        tables = [
            (f"{device}:\n\n" if len(groups) > 1 else "")
            + page.markdown((*self.head, "run"), [(*cells, run.name) for cells, run in rows])
            for device, rows in of_device.items()
        ]
        source = f"Measured; run{'s' if len(used) > 1 else ''} {', '.join(used)}: `{COMMAND}`"
        return Made(titled(self.title, self.about, *tables, source), used, sum(map(len, of_device.values())))


@dataclass(frozen=True)
class Picture:
    """`draw` returns SVG, or nothing where no run has the data."""

    file: str  # in the folder `pictures` beside the page
    draw: Callable[[Sequence[Run]], str]
    title: str
    about: str = ""

    def make(self, runs: Sequence[Run]) -> Made:
        if not self.draw(runs):
            return Made()
        return Made(titled(self.title, f"![{self.title}](pictures/{self.file})", self.about))


class Legend:
    """The runs themselves, oldest first: their files, when and where they ran, and which parts they have."""

    HEAD = ("run", "date", "GPU", "driver", "fikit", "parts with figures")

    def make(self, runs: Sequence[Run]) -> Made:
        rows = [self._row(run) for run in reversed(runs)]
        return Made(page.markdown(self.HEAD, rows), tuple(run.name for run in reversed(runs)), len(rows))

    @staticmethod
    def _row(run: Run) -> tuple[str, ...]:
        settings = run.document["settings"]
        driver = re.search(r"\d+(\.\d+)+", (settings.get("gpu") or {}).get("driver") or "")
        have = [name for name, part in run.parts.items() if set(part) - {"error"}]
        date = str(run.document.get("date", ""))[:10]
        name = f"[{run.name}](../bench/results/{run.file.name})"
        return name, date, run.device, driver[0] if driver else "", settings.get("fikit", ""), ", ".join(have)


def titled(title: str, *paragraphs: str) -> str:
    """Markdown, without what is empty."""
    return "\n\n".join(filter(None, (title and f"### {title}", *paragraphs)))
