"""A GPU and a job as one line of whatever width. Pure; names are others', so nothing in them is markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from fikitd.base.quantities import percent
from fikitd.base.validation import printable
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from fikit.live.history import History
from fikit.live.node import Gpu, Job, Node, Outside
from fikit.reporters import table
from fikit.wording import device_mode, memory_moved, mig, units

LEAST_OF_NAME = 16  # of a job's number and name
HISTORY, LONG_HISTORY = 8, 20
WIDE: Final = 116  # from here on waits have a column of their own, where names are whole beside it
WIDEST: Final = 140  # and histories are longer
KEYS: Final = ("Enter why · s sort · ←→ GPU · ? help · q quit", "? help · q quit")  # as many as there is room for
_BEFORE_REST: Final = 27  # cells of a job's line in front of that, but for its name and its history
SPOKEN: Final = 0.05  # of the time: so much waiting takes the place of the protection on a narrow terminal


def heading(gpu: Gpu, history: History, width: int) -> Text:
    """`GPU 0 H200  96 % ▃▅▇▇█▇▇█  31.0/141 GiB  410 W  time slices`"""
    which = _model(gpu) if gpu.index is None else f"GPU {gpu.index} {_model(gpu)}"
    text = Text(printable(which), style="bold", no_wrap=True, overflow="ellipsis")
    mark = "~" if gpu.by_nvml else ""
    unknown = gpu.use is None and mig.is_instance(gpu.name)
    facts = (
        ["how busy is not told (MIG)"]
        if unknown
        else [f"{mark}{units.share(gpu.use)} {history.line(gpu.uuid, max(HISTORY, min(width // 5, 30)))}"]
    )
    if gpu.memory_bytes:
        held = "" if gpu.held_bytes is None else f"~{units.gibibytes(gpu.held_bytes).removesuffix(' GiB')}/"
        facts.append(f"{held}{units.gibibytes(gpu.memory_bytes)}")
    facts += [] if gpu.power_w is None else [f"~{gpu.power_w:.0f} W"]
    facts += [] if gpu.device_mode is None else [device_mode.WORDS.get(gpu.device_mode, gpu.device_mode)]
    facts += [] if gpu.harvest is None else [f"filled {units.share(gpu.harvest)}"]
    facts += [] if gpu.jobs or gpu.outside else ["idle"]
    text.append(f"  {'  '.join(facts)}", style="not bold")
    text.truncate(width, overflow="ellipsis")
    return text


@dataclass(frozen=True)
class Layout:
    """Of all jobs' lines, so that they have the same columns. room: for number and name. wide: waits have a column of their own."""

    width: int
    room: int
    wide: bool

    @property
    def looks(self) -> int:
        """Of a job's history."""
        return LONG_HISTORY if self.width >= WIDEST else HISTORY


def layout(jobs: Sequence[Job], width: int) -> Layout:
    """A name has as much room as the longest takes, where what stands behind it leaves that."""
    longest = max((cell_len(_name(one)) for one in jobs), default=0)

    def of(wide: bool) -> Layout:
        rest = max((_rest(one, wide).cell_len for one in jobs), default=0)
        found = Layout(width, 0, wide)
        return replace(found, room=min(longest, max(width - _BEFORE_REST - found.looks - rest, LEAST_OF_NAME)))

    found = of(width >= WIDE)
    return of(wide=False) if found.wide and found.room < longest and width < WIDEST else found


def job(one: Job, gpu: Gpu, history: History, columns: Layout) -> Text:
    """`12 serve.sh  ana  high  44 % ▃▅▅▆  +3 % of 5 %  9.3/11.0 GiB  waits 38 %: behind 18`."""
    text = Text("  ", no_wrap=True, overflow="ellipsis")
    text.append(_cut(_name(one), columns.room))
    text.append(f" {_cut(table.user(one.uid), 8)}")
    text.append(f" {_cut(one.priority_name, 7)}", style=table.PRIORITY_STYLES.get(one.priority_name, ""))
    text.append(f" {units.share(one.device_share):>5} {history.line((gpu.uuid, one.job), columns.looks)} ")
    text.append_text(_rest(one, columns.wide))
    text.truncate(columns.width, overflow="ellipsis")
    return text


def _name(one: Job) -> str:
    return printable(f"{one.job} {one.name}".strip())


def _rest(one: Job, wide: bool) -> Text:
    """What stands behind the history."""
    waits, kept = waiting(one), protection(one)
    if wide:
        text = Text(f" {_cut(kept, 14)} {memory(one):>13}")
        return text.append(f"  {waits}", style="yellow") if waits else text
    if waits and (one.waited_share or 0.0) >= SPOKEN:
        return Text(f" {waits}", style="yellow")
    return Text(f" {_cut(kept, 12)}  {memory(one)}")


def outside(one: Outside, gpu: Gpu, width: int) -> Text:
    """A job that has the GPU alone, or a process around fikit."""
    user = "" if one.uid is None else f" {table.user(one.uid)}"
    if one.job is not None and not gpu.shared:
        text = Text(printable(f"  exclusive: job {one.job}{user}"))
        if gpu.use is not None and gpu.use < 0.5:
            text.append(f"  {units.share(gpu.use)} busy now", style="yellow")
    else:
        pids = ", ".join(map(str, one.pids[:4])) + (" ..." if len(one.pids) > 4 else "")
        text = Text(printable(f"  process {pids}{user} uses it around fikit: it is not scheduled"), style="yellow")
    text.truncate(width, overflow="ellipsis")
    return text


def top(node: Node, clock: str, sort: str, width: int) -> Text:
    """`node0  10:14:07  policy budget  sorted by priority    ? help  q quit`"""
    text = Text(printable(f"{node.name}  {clock}  policy {node.policy}  sorted by {sort}"), style="bold", no_wrap=True)
    for keys in KEYS:
        if text.cell_len + len(keys) + 2 <= width:
            text.append(" " * (width - text.cell_len - len(keys)) + keys, style="not bold dim")
            break
    text.truncate(width, overflow="ellipsis")
    return text


def protection(one: Job) -> str:
    """`+3 % of 5 %`: how much longer it takes than alone, by whomever, and what lower jobs may add: its report says who it was."""
    if one.slowdown is None:
        return "-" if one.own else ""
    allowed = "" if one.max_slowdown is None else f" of {percent(one.max_slowdown)}"
    return f"{units.share(one.slowdown - 1, signed=True)}{allowed}"


def waiting(one: Job) -> str:
    """`waits 38 %: behind 18`; nothing for a job that does not wait."""
    if not one.waited_share or round(100 * one.waited_share) < 1:
        return ""
    whom = {"": "", "itself": ": its own work", "?": ": behind another", "memory": ": others' memory"}.get(
        one.behind, f": behind {printable(one.behind)}"
    )
    return f"waits {units.share(one.waited_share)}{whom}"


def memory(one: Job) -> str:
    if one.memory_bytes is None:
        return ""
    limit = f"/{units.gibibytes(one.memory_limit_bytes)}" if one.memory_limit_bytes else ""
    held = units.gibibytes(one.memory_bytes)
    on_gpu = "" if one.memory_on_gpu_bytes is None else f", {units.gibibytes(one.memory_on_gpu_bytes)} on the GPU"
    plan = (
        ""
        if one.plan_budget_bytes is None or one.plan_peak_bytes is None
        else f", {memory_moved.plan_now(one.plan_budget_bytes, one.plan_peak_bytes, one.plan_longer_share)}"
    )
    return f"{held.removesuffix(' GiB') if limit else held}{limit}{on_gpu}{plan}"


def _model(gpu: Gpu) -> str:
    return table.device({"name": gpu.name, "emulated": gpu.emulated})


def _cut(text: str, width: int) -> str:
    """To so many cells, of which a wide character takes two."""
    return set_cell_size(text, width) if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"
