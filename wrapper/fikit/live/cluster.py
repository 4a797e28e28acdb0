"""textual's application for `fikit top --all`: a list that scrolls, of the whole cluster."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import ClassVar, Final

from fikitd.base.validation import printable
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static
from textual.worker import get_current_worker

from fikit.cluster import order
from fikit.cluster.order import FILTERS, SORTS
from fikit.cluster.view import Cluster, totals
from fikit.errors import UserError
from fikit.live.dialogs import Dialog
from fikit.reporters import cluster as reporter

KEYS: Final = "s sort · f filter · ? help · q quit"
HELP: Final = """\
 up, down, page up, page down   scroll
 s            sort by node, least used GPU, filled today, promises broken today
 f            all; GPUs that a job has alone and leaves idle for the most part; GPUs that are idle; nodes with trouble
 ?            this help
 q, Ctrl-C    end

A node's line: Slurm's state, what lower jobs had of its GPUs today, promises kept and broken, how old all this is. Late is a node whose fikitd has not \
written for four of its intervals: what it wrote of now is not shown.

A GPU's line: how much of its time is used (~ by NVML), memory in use, and who is on it: user, priority, part of the GPU's time, how much longer than alone, of what lower jobs may add.
"""


class Lines(ScrollView):
    """Many lines, of which only those are drawn that one sees."""

    can_focus = True

    def __init__(self) -> None:
        super().__init__(id="list")
        self._lines: list[Text] = []

    def fill(self, lines: list[Text]) -> None:
        """Where it is scrolled to stays."""
        self._lines = lines
        self.virtual_size = Size(self.size.width, len(lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        number = y + self.scroll_offset.y
        width = self.size.width
        if number >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        text = self._lines[number].copy()
        text.truncate(width, overflow="ellipsis")
        return (
            Strip(text.render(self.app.console)).apply_style(self.rich_style).adjust_cell_length(width, self.rich_style)
        )


class TopAll(App[None]):
    """`look` is asked every `interval_s` in a thread; None: nobody asks, and show() is called by whoever made it (a test)."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "fikit top --all"
    CSS = """
    Screen { layout: vertical; }
    #top, #said { height: 1; width: 100%; }
    #said { color: $warning; }
    #list { height: 1fr; background: transparent; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", priority=True),
        Binding("s", "sort", "sort"),
        Binding("f", "filter", "filter"),
        Binding("question_mark", "help", "help"),
    ]

    def __init__(
        self, look: Callable[[], Cluster] | None, interval_s: float, clock: Callable[[], datetime] = datetime.now
    ) -> None:
        super().__init__()
        self.sort, self.filter = SORTS[0], FILTERS[0]
        self._ask, self._interval_s, self._clock = look, interval_s, clock
        self._cluster: Cluster | None = None

    def compose(self) -> ComposeResult:
        yield Static(Text("fikit top --all: asking Slurm"), id="top")
        yield Lines()
        yield Static(Text(""), id="said")

    def on_mount(self) -> None:
        self.query_one(Lines).focus()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
                asyncio.get_running_loop().add_signal_handler(number, self.exit)
        if self._ask is not None:
            self._look(self._ask)
            self.set_interval(self._interval_s, lambda: self._look(self._ask))

    def on_resize(self) -> None:
        self.call_later(self._draw)

    @work(thread=True, exclusive=True, group="look")
    def _look(self, look: Callable[[], Cluster]) -> None:
        try:
            found: Cluster | str = look()
        except UserError as error:
            found = str(error)
        if not get_current_worker().is_cancelled:
            self.call_from_thread(self.say if isinstance(found, str) else self.show, found)

    def show(self, cluster: Cluster) -> None:
        """A new look."""
        self._cluster = cluster
        self.say("")
        self._draw()

    def say(self, text: str) -> None:
        """In the last line; what is above stays as it was."""
        self.query_one("#said", Static).update(Text(printable(text)))

    def _draw(self) -> None:
        if self._cluster is None:
            return
        found = totals(self._cluster.nodes)
        head = f"{self._clock():%H:%M:%S}  {found.nodes} nodes  by {self.sort}  showing {self.filter}"
        text = Text(head, style="bold", no_wrap=True)
        if (room := self.size.width - len(head) - len(KEYS)) >= 2:
            text.append(" " * room + KEYS, style="not bold dim")
        text.truncate(self.size.width, overflow="ellipsis")
        self.query_one("#top", Static).update(text)
        nodes = order.ordered(order.chosen(self._cluster.nodes, self.filter), self.sort)
        self.query_one(Lines).fill(list(reporter.lines(self._cluster, nodes)))

    def action_sort(self) -> None:
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self._draw()

    def action_filter(self) -> None:
        self.filter = FILTERS[(FILTERS.index(self.filter) + 1) % len(FILTERS)]
        self._draw()

    def action_help(self) -> None:
        self.push_screen(Dialog(Text(HELP)))
