"""textual's application: the list of GPUs and jobs, the keys, and when it is drawn anew."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import ClassVar

from fikitd.api.client import ControlError, DaemonUnreachable
from fikitd.base.validation import printable
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from fikit.live import lines
from fikit.live.dialogs import Why, help_
from fikit.live.history import History
from fikit.live.looks import Looks
from fikit.live.node import SORTS, Gpu, Job, Node, ordered

NVML_S = 5.0  # NVML is asked in a process of its own: seldom
INTERVAL_S = 1.0

Clock = Callable[[], datetime]


class Top(App[None]):
    """`looks` is asked every `interval_s` in a thread; None: nobody asks, and show() is called by whoever made it (a test)."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "fikit top"
    CSS = """
    Screen { layout: vertical; }
    #top, #said { height: 1; width: 100%; }
    #said { color: $warning; }
    OptionList { height: 1fr; border: none; padding: 0; scrollbar-size-vertical: 1; background: transparent; }
    OptionList:focus { border: none; }
    OptionList > .option-list--option-disabled { color: $foreground; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", priority=True),
        Binding("s", "sort", "sort"),
        Binding("left", "gpu(-1)", "GPU", priority=True),
        Binding("right", "gpu(1)", "GPU", priority=True),
        Binding("question_mark", "help", "help"),
    ]

    def __init__(self, looks: Looks | None, interval_s: float = INTERVAL_S, clock: Clock = datetime.now) -> None:
        super().__init__()
        self.history = History()
        self.sort = SORTS[0]
        self.chosen: str | None = None  # GPU; None: all
        self._looks, self._interval_s, self._clock = looks, interval_s, clock
        self._node: Node | None = None
        self._shown: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static(Text("fikit top"), id="top")
        yield OptionList(id="list")
        yield Static(Text(""), id="said")

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
                asyncio.get_running_loop().add_signal_handler(number, self.exit)
        if self._looks is not None:
            self._look(self._looks)
            self._ask_nvml(self._looks)
            self.set_interval(self._interval_s, lambda: self._look(self._looks))
            self.set_interval(NVML_S, lambda: self._ask_nvml(self._looks))

    def on_resize(self) -> None:
        self.call_later(self._draw)  # the application itself hears of its new size after this

    @work(thread=True, exclusive=True, group="look")
    def _look(self, looks: Looks) -> None:
        try:
            found: Node | str = looks.next()
        except (DaemonUnreachable, ControlError) as error:  # it may be about to be restarted
            found = str(error)
        if not get_current_worker().is_cancelled:
            self.call_from_thread(self.say if isinstance(found, str) else self.show, found)

    @work(thread=True, exclusive=True, group="nvml")
    def _ask_nvml(self, looks: Looks) -> None:
        looks.ask_nvml()

    def show(self, node: Node) -> None:
        """A new look."""
        self._node = node
        self.history.add(
            [
                *((gpu.uuid, gpu.use) for gpu in node.gpus),
                *(((gpu.uuid, job.job), job.device_share) for gpu in node.gpus for job in gpu.jobs),
            ]
        )
        if self.chosen not in {gpu.uuid for gpu in node.gpus}:
            self.chosen = None
        self.say("")
        self._draw()

    def say(self, text: str) -> None:
        """In the last line; what is above stays as it was."""
        self.query_one("#said", Static).update(Text(printable(text)))

    def _draw(self) -> None:
        if self._node is None:
            return
        width = self.size.width
        self.query_one("#top", Static).update(lines.top(self._node, f"{self._clock():%H:%M:%S}", self.sort, width))
        self._fill(self._options(self._node, width - 2))

    def _options(self, node: Node, width: int) -> list[Option]:
        found = []
        columns = lines.layout([job for gpu in node.gpus for job in gpu.jobs], width)
        for gpu in node.gpus:
            if self.chosen in (None, gpu.uuid):
                found += self._of_gpu(gpu, columns)
        if not node.gpus:
            found.append(
                Option(Text("no job shares a GPU of this node now, and NVML tells of no GPU"), "none", disabled=True)
            )
        return found

    def _of_gpu(self, gpu: Gpu, columns: lines.Layout) -> list[Option]:
        return [
            Option(lines.heading(gpu, self.history, columns.width), f"gpu {gpu.uuid}", disabled=True),
            *(
                Option(lines.job(job, gpu, self.history, columns), f"job {gpu.uuid} {job.job}")
                for job in ordered(gpu.jobs, self.sort)
            ),
            *(
                Option(lines.outside(one, gpu, columns.width), f"pid {gpu.uuid} {one.pids}", disabled=True)
                for one in gpu.outside
            ),
        ]

    def _fill(self, options: list[Option]) -> None:
        """What is chosen and where it is scrolled to stays."""
        shown = self.query_one(OptionList)
        ids = [str(option.id) for option in options]
        if ids == self._shown:
            for number, option in enumerate(options):
                shown.replace_option_prompt_at_index(number, option.prompt)
            return
        chosen = None if shown.highlighted is None else shown.get_option_at_index(shown.highlighted).id
        shown.clear_options()
        shown.add_options(options)
        self._shown = ids
        jobs = [number for number, option in enumerate(options) if not option.disabled]
        shown.highlighted = ids.index(chosen) if chosen in ids else jobs[0] if jobs else None

    def action_sort(self) -> None:
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self._draw()

    def action_gpu(self, step: int) -> None:
        """One GPU alone, the next one, and after the last one all of them."""
        if self._node is not None and len(self.screen_stack) == 1:
            choices = [None, *(gpu.uuid for gpu in self._node.gpus)]
            self.chosen = choices[(choices.index(self.chosen) + step) % len(choices)]
            self._draw()

    def action_help(self) -> None:
        self.push_screen(help_())

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if (job := self._job(str(event.option.id))) is not None:
            self.push_screen(Why(job.job, job.uid))

    def _job(self, option: str) -> Job | None:
        jobs = ((gpu, job) for gpu in (self._node.gpus if self._node else ()) for job in gpu.jobs)
        return next((job for gpu, job in jobs if option == f"job {gpu.uuid} {job.job}"), None)
