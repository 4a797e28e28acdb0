"""The one way to a terminal: what is no text there is shown as a question mark, and what looks like markup is text.

Names of jobs, kernels, files and devices are others', and root looks at everybody's: an escape sequence in one could hide a line,
answer for the person at the keyboard or retitle the window. Readers refuse them; this is for what nobody thought of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
from fikitd.base.validation import printable_lines
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment


def echo(text: str, err: bool = False) -> None:
    """A line on stdout, or stderr."""
    click.echo(printable_lines(text), err=err)


def console(**options: Any) -> Console:
    """rich's console, to which a string is what it says: no markup, no emoji, no colours for what looks like a number."""
    return _Console(markup=False, emoji=False, highlight=False, **options)


class _Console(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Every text that it shows comes by here; what moves the cursor is a segment of its own kind."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable_lines(segment.text), segment.style)
