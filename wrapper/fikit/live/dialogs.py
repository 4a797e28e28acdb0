"""What opens above the list: a job's report, and help."""

from __future__ import annotations

from typing import ClassVar

from fikitd.api.client import ControlError, DaemonUnreachable
from rich.console import RenderableType
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from fikit.advice import reported
from fikit.api import job_report
from fikit.errors import UserError
from fikit.jobs_known import find
from fikit.reporters import job_table

HELP = """\
 up, down     choose a job
 Enter        why: its report so far, with what to do
 left, right  one GPU alone, or all of them
 s            sort by priority, GPU, waited, slowdown, memory, name
 ?            this help
 q, Ctrl-C    end

A GPU's line: how much of its time is used, its last looks, memory in use of all, power, how jobs share it. \
~ is what NVML says, as nvidia-smi does; all else is reckoned by fikitd. Of a MIG instance that no job shares NVML does not say how busy it is.

A job's line: number and name, user, priority, its part of the GPU's time, its last looks; \
+3 % of 5 % is how much longer it takes than alone, whoever it was, and what lower jobs may add; GPU memory of what it may have (of a job with memory on the host also what of it is on the GPU, and the budget of its plan); \
waits 38 % is the part of its time at the gate, and behind whom it was longest (others' memory: while theirs had its turn).

Of other users' jobs there is only what squeue and nvidia-smi show.
"""


class Dialog(ModalScreen[None]):
    """A text that scrolls; Escape, q or Enter closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "dismiss", "close"),
        Binding("ctrl+c", "app.quit", priority=True),
    ]
    CSS = """
    Dialog { align: center middle; }
    Dialog > VerticalScroll { width: 95%; height: auto; max-height: 95%; border: round $primary; padding: 0 1; background: $surface; }
    Dialog Static { width: 100%; height: auto; }
    """

    def __init__(self, text: RenderableType) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._text, id="text")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()


def help_() -> Dialog:
    return Dialog(Text(HELP))


class Why(Dialog):
    """The report of a running job, as `fikit-report` shows it."""

    def __init__(self, job: str, uid: int) -> None:
        super().__init__(Text(f"Asking for the report of job {job} ..."))
        self._job, self._uid = job, uid

    def on_mount(self) -> None:
        super().on_mount()
        self._ask()

    @work(thread=True)
    def _ask(self) -> None:
        self.app.call_from_thread(self._show, _report(self._job, self._uid))

    def _show(self, found: RenderableType) -> None:
        if self.is_mounted:
            self.query_one("#text", Static).update(found)


def _report(job: str, uid: int) -> RenderableType:
    try:
        run = job_report.of(find(job, uid))
    except (UserError, ControlError, DaemonUnreachable) as error:
        return Text(f"{error}\n\nOnly its own user and root see a job's report.")
    return job_table.report(dict(run.record), advices=tuple(reported.advise(run)))
