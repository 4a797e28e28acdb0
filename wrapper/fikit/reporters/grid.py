"""A table for whatever width there is: columns shrink, then the least important go, and at last each row is a list of its own.

rich alone would shorten every column, numbers too, down to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

WHOLE: Final = None
WORDS: Final = 0
UNBOUNDED: Final = 10_000


@dataclass(frozen=True)
class Column:
    """`least`: WHOLE is never cut; WORDS may be broken between words; else it may be cut down to so many cells.

    `goes`: where there is no room, the column with the highest goes first; 0 stays. `cut`: how, where `least` is a number.
    """

    name: str
    cells: Sequence[RenderableType]
    least: int | None = WHOLE
    goes: int = 0
    justify: Literal["left", "right"] = "left"
    cut: Literal["fold", "ellipsis"] = "fold"

    @property
    def drawn(self) -> bool:
        """Another column says the same in numbers."""
        return all(isinstance(cell, Bar) for cell in self.cells)

    def header(self, narrow: bool) -> str:
        return "\n".join(self.name.rsplit(" ", 1)) if narrow else self.name

    def width(self, console: Console, options: ConsoleOptions, narrow: bool) -> Measurement:
        """What it needs, and what it would take."""
        measured = [Measurement.get(console, options, cell) for cell in self.cells]
        header = max(map(len, self.header(narrow).split("\n")))
        most = max([header, *(each.maximum for each in measured)])
        if self.least is WHOLE:
            return Measurement(most, most)
        if self.least == WORDS:
            return Measurement(max([header, *(each.minimum for each in measured)]), most)
        return Measurement(max(header, min(most, self.least)), most)


@dataclass(frozen=True)
class Bar:
    """A share of `most` cells, or of what there is."""

    share: float
    most: int
    style: StyleType = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(bar(self.share, 1.0, min(self.most, options.max_width)), style=self.style, no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, self.most)


@dataclass(frozen=True)
class Grid:
    """`dense`: half the space between columns. `sections`: of so many rows, with a line below each."""

    columns: Sequence[Column]
    title: Text | None = None
    dense: bool = False
    sections: int = 0
    notes: Sequence[str] = field(default=())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown, gone, narrow = list(self.columns), [], False
        unbounded = options.update(max_width=UNBOUNDED)

        def widths() -> list[Measurement]:
            return [column.width(console, unbounded, narrow) for column in shown]

        def room() -> int:
            """For more than the columns need."""
            return options.max_width - sum(each.minimum + (2 if self.dense else 3) for each in widths())

        while room() < 0 and (not narrow or any(column.goes for column in shown)):
            if narrow:
                gone.append(max(shown, key=lambda column: column.goes))
                shown.remove(gone[-1])
            narrow = True
        if room() < 0:
            yield from self._stacked()
        else:
            yield self._table(shown, _shared(widths(), room()), narrow)
            if left_out := ", ".join(
                column.name for column in self.columns if column in gone and column.name and not column.drawn
            ):
                yield Text(f"no room for: {left_out}", style="dim")
        yield from (Text(note, style="dim") for note in self.notes)

    def _table(self, columns: Sequence[Column], widths: Sequence[int], narrow: bool) -> Table:
        table = Table(
            box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0) if self.dense else (0, 1), title=self.title,
            title_justify="left",
        )  # fmt: skip
        for column, width in zip(columns, widths, strict=True):
            whole = column.least is WHOLE or (column.least != WORDS and column.cut == "ellipsis")
            table.add_column(
                column.header(narrow), justify=column.justify, no_wrap=whole, overflow=column.cut, width=width
            )
        for number, row in enumerate(zip(*(column.cells for column in columns), strict=True), start=1):
            table.add_row(*row, end_section=bool(self.sections) and number % self.sections == 0)
        return table

    def _stacked(self) -> RenderResult:
        if self.title is not None:
            yield self.title
        for row in zip(*(column.cells for column in self.columns), strict=True):
            table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
            table.add_column(style="dim", no_wrap=True)
            table.add_column(overflow="fold")
            for column, cell in zip(self.columns, row, strict=True):
                if column.name:
                    table.add_row(column.name, _folded(cell))
            yield table


def _shared(widths: Sequence[Measurement], room: int) -> list[int]:
    """What each column gets: what it needs, and of the rest what it would take, the first ones first."""
    given = []
    for each in widths:
        more = min(each.maximum - each.minimum, room)
        room -= more
        given.append(each.minimum + more)
    return given


def _folded(cell: RenderableType) -> RenderableType:
    if not isinstance(cell, Text):
        return cell
    whole = cell.copy()
    whole.no_wrap, whole.overflow = False, "fold"
    return whole


def bar(part: float, whole: float, width: int) -> str:
    """`part` of `whole` as a bar of at most `width` cells, in eighths of a cell."""
    share = max(0.0, min(part / whole, 1.0)) if whole > 0 else 0.0
    full, rest = divmod(round(8 * width * share), 8)
    return "█" * full + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[rest]
