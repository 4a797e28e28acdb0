"""Tables for people: one look for all of them, readable over ssh and in a pipe."""

from __future__ import annotations

import io
import os
import pwd
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal

from fikitd.api.report_format import SLICES
from fikitd.api.reports import gpu_time_bound, has_times, place_of
from fikitd.base.quantities import percent
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fikit.api.link_rates import ASSUMED, LinkRates
from fikit.reporters.grid import WORDS, Bar, Column, Grid
from fikit.wording import device_mode, screen, units

PRIORITY_STYLES = {"high": "bold green", "normal": "cyan", "low": "blue"}
STATUS_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}
BAR_WIDTH = 20
PIPE_WIDTH = 160
MARKED = (
    "* timed beside other jobs only, which takes longer than alone",
    "~ timed doubtfully only, as in a first launch, which loads the kernel",
)
KEY_WIDTH = 24
MOST_OF_NAME = 48
MOST_BESIDE = 4  # other programs that are named
MOST_ALLOCATIONS = 12
NAME_WIDTH = 8  # what a narrow terminal leaves of names, so that the numbers beside them stay whole


def show(*renderables: RenderableType) -> None:
    """Print to stdout. Into a pipe or file: without colour or padding, and wide enough that nothing is cut off."""
    if sys.stdout.isatty():
        screen.console().print(*renderables, sep="\n")
        return
    sink = io.StringIO()
    screen.console(file=sink, width=PIPE_WIDTH).print(*renderables, sep="\n")
    screen.echo("\n".join(line.rstrip() for line in sink.getvalue().splitlines()))


def reports(records: list[dict[str, Any]]) -> Grid:
    """One line per job."""

    def numbers(name: str, goes: int, text: Callable[[dict[str, Any]], str]) -> Column:
        return Column(name, [text(record) for record in records], goes=goes, justify="right")

    others = any(record["uid"] != os.getuid() for record in records)
    modes = [record.get("device_mode", SLICES) for record in records]  # reports of before have none
    return Grid(
        [
            jobs([(record["job"], _named_job(record)) for record in records]),
            *([Column("user", [user(record["uid"]) for record in records], goes=3)] if others else []),
            Column("priority", [priority_or_measured(record) for record in records], WORDS),
            Column("state", [str(record["state"]) for record in records], goes=3),
            numbers("kernels", 4, lambda record: units.count(record["kernels"])),
            numbers("GPU time", 2, _brief_gpu_time),
            numbers("elapsed", 1, lambda record: units.duration(record.get("elapsed_s"))),
            numbers("against alone", 0, _ratio),
            numbers("waited", 0, lambda record: units.duration(record["wait"]["total_s"])),
            Column("GPU", [Text(device(record["device"])) for record in records], NAME_WIDTH, goes=5),
            *(
                [Column("sharing", [device_mode.WORDS[mode] for mode in modes], WORDS, goes=6)]
                if {*modes} - {SLICES}
                else []
            ),
        ]
    )


def jobs(named: list[tuple[str, str]], cut: Literal["fold", "ellipsis"] = "fold") -> Column:
    """The column of jobs, by number and name: numbers are not cut, for one asks by them, and no name takes the page."""
    texts = [
        f"{job} {name if len(name) <= MOST_OF_NAME else name[: MOST_OF_NAME - 1] + '…'}".strip() for job, name in named
    ]
    longest = max((len(job) for job, _ in named), default=0)
    least = max(NAME_WIDTH, min(longest, 2 * NAME_WIDTH) if cut == "fold" else longest + len(" …"))
    return Column("job", [Text(text) for text in texts], least, cut=cut)


def profiles(entries: list[dict[str, Any]]) -> Grid:
    """One line per profile key."""
    return Grid(
        [
            Column("key", [Text(entry["key"]) for entry in entries], KEY_WIDTH),
            Column("GPU", [Text(device(entry["device"])) for entry in entries], NAME_WIDTH, goes=1),
            Column("last run", [entry["created"][:10] for entry in entries], goes=3),
            Column("runs", [str(entry["runs"]) for entry in entries], goes=2, justify="right"),
            Column("variants", [str(entry["variants"]) for entry in entries], goes=6, justify="right"),
            Column("kernels", [str(entry["kernels"]) for entry in entries], goes=4, justify="right"),
            Column("launches", [units.count(entry["launches"]) for entry in entries], goes=5, justify="right"),
            Column("size", [units.file_size(entry["bytes"]) for entry in entries], goes=5, justify="right"),
            Column("command", [Text(" ".join(entry["command"])) for entry in entries], 2 * NAME_WIDTH, cut="ellipsis"),
        ]
    )


def profile(entry: dict[str, Any], rates: LinkRates = ASSUMED) -> Grid:
    """A profile's kernels, those that take most of the GPU's time first. rates: of the link."""
    kernels = sorted(entry["kernels"], key=lambda kernel: -kernel["total_ns"])
    whole = sum(kernel["total_ns"] for kernel in kernels)

    def times(name: str, key: str, goes: int) -> Column:
        return Column(name, [units.nanoseconds(kernel[key]) for kernel in kernels], goes=goes, justify="right")

    def mark(kernel: dict[str, Any]) -> str:
        return "~" if kernel.get("doubtful") else "*" if kernel.get("beside") else ""

    def name(kernel: dict[str, Any]) -> Text:
        return Text(f"{kernel['name']} {mark(kernel)}".rstrip())

    def shape(kernel: dict[str, Any]) -> str:
        return f"{'x'.join(map(str, kernel['grid']))} x {'x'.join(map(str, kernel['block']))}"

    marks = {mark(kernel) for kernel in kernels}
    return Grid(
        [
            Column("kernel", [name(kernel) for kernel in kernels], NAME_WIDTH),
            Column("grid x block", [shape(kernel) for kernel in kernels], NAME_WIDTH, goes=6),
            Column("count", [units.count(kernel["count"]) for kernel in kernels], goes=3, justify="right"),
            times("mean", "mean_ns", 0),
            times("p50", "p50_ns", 5),
            times("p99", "p99_ns", 1),
            times("gap after", "gap_ns", 2),
            Column("share", [units.percent(kernel["total_ns"], whole) for kernel in kernels], justify="right"),
            Column(
                "of the GPU time", [Bar(kernel["total_ns"] / max(whole, 1), BAR_WIDTH, "cyan") for kernel in kernels],
                NAME_WIDTH, goes=7,
            ),
        ],
        title=title(f"Profile {entry['key']} on {device(entry['device'])}"),
        notes=[*(note for note in MARKED if note[0] in marks), *memory_of_program(entry["memory"], rates)],
    )  # fmt: skip


def memory_of_program(memory: dict[str, Any], rates: LinkRates) -> list[str]:
    """What a program needs, and beside whom it would be how: a line for all that fit, and one for each that would take turns with it."""
    if not memory["peak_bytes"]:
        return []
    whole = f" of {units.gibibytes(memory['gpu_bytes'])}" if memory["gpu_bytes"] else ""
    lines = [f"it needs {units.gibibytes(memory['peak_bytes'])}{whole} at most"]
    if fits := [each["key"] for each in memory["beside"] if each["how"] == "together"]:
        more = f" and {len(fits) - MOST_BESIDE} more" if len(fits) > MOST_BESIDE else ""
        lines.append(f"fits on the GPU together with {', '.join(fits[:MOST_BESIDE])}{more}")
    for each in [each for each in memory["beside"] if each["how"] == "turns"][:MOST_BESIDE]:
        moved = f"{units.gibibytes(each['moved_bytes'])} in {units.duration(each['moved_s'])} at {rates.said()}"
        lines.append(
            f"with {each['key']} ({units.gibibytes(each['peak_bytes'])}) it would fit in turns only: each change of turns moves {moved}, {units.share(each['share'], 1)} of the time"
        )
    return lines


def touched(found: dict[str, Any], rates: LinkRates = ASSUMED) -> Grid:
    """What an iteration does with its largest allocations, and what a budget would be like."""
    shown = found["allocations"][:MOST_ALLOCATIONS]

    def numbers(name: str, goes: int, texts: list[str]) -> Column:
        return Column(name, texts, goes=goes, justify="right")

    rest = len(found["allocations"]) - len(shown)
    launches = units.count(found["launches"])
    looked = "" if found["looked_at"] == 1 else f", {units.share(found['looked_at'])} of which were looked at"
    sentence = (
        f"an iteration of {units.nanoseconds(found['length_ns'])} ({launches} launches{looked}) touches {units.gibibytes(found['touched_bytes'])}, "
        f"one launch {units.gibibytes(found['least_bytes'])} at most"
    )
    costs = [
        f"with {units.gibibytes(each['budget_bytes'])} of it on the GPU {units.longer(each['stretch'])}, and "
        f"{units.gibibytes(each['moved_bytes'])} moved each time"
        for each in found["budgets"]
    ]
    costs += [
        f"with {units.gibibytes(budget)} of it on the GPU: not planned, because plans take too long"
        for budget in found["unplanned"]
    ]
    if found["budgets"]:
        costs.insert(0, f"planned in pieces of {units.gibibytes(found['piece_bytes'])}, at {rates.said()}:")
    return Grid(
        [
            numbers("allocation", 0, [str(each["number"]) for each in shown]),
            numbers("size", 0, [units.gibibytes(each["size"]) for each in shown]),
            numbers("launches", 1, [units.count(each["launches"]) for each in shown]),
            numbers("not needed for", 2, [units.nanoseconds(each["longest_away_ns"]) for each in shown]),
            numbers(
                "of the iteration", 3, [units.percent(each["longest_away_ns"], found["length_ns"]) for each in shown]
            ),
        ],
        title=title("Memory that its kernels touch"),
        notes=[*([f"and {rest} more"] if rest > 0 else []), sentence, *costs],
    )


def facts(heading: str, rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """What is known of one thing: each row has a name, or none where it goes on with the row above."""
    table = Table(box=box.SIMPLE, show_header=False, title=title(heading), title_justify="left", pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, cell in rows:
        table.add_row(name, cell)
    return table


def checks(results: list[dict[str, str]]) -> Table:
    """What `fikit doctor` found; advice only where there is something to do."""
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for result in results:
        text = Text(result["found"])
        if result["advice"]:
            text.append(f"\n{result['advice']}", style="italic")
        table.add_row(Text(result["status"], style=STATUS_STYLES[result["status"]]), result["name"], text)
    return table


def limits(rows: list[dict[str, Any]]) -> Grid:
    """What `fikit limits` found: one line per rule."""

    def jobs(row: dict[str, Any]) -> Text:
        named = ", ".join(f"{key} {' or '.join(names)}" for key, names in row["jobs"].items())
        return Text(named or ("all others" if len(rows) > 1 else "all"))

    def least(text: str) -> str:
        return f"{text} or more"

    slowdowns = [least(percent(share)) if (share := row["min_allowed_slowdown"]) else "any" for row in rows]
    delays = [least(units.microseconds(us)) if (us := row["min_allowed_delay_us"]) else "any" for row in rows]
    return Grid(
        [
            Column("jobs", [jobs(row) for row in rows], NAME_WIDTH),
            Column(
                "priorities", ["any" if row["highest_priority"] == 0 else f"{_named(row)} to 9" for row in rows], WORDS
            ),
            Column("max slowdown", slowdowns, WORDS),
            Column("max delay", delays, WORDS),
        ]
    )


def device(description: dict[str, Any]) -> str:
    """The device's name, with a mark when it is not hardware (the name of an emulated one usually says so itself)."""
    name = str(description["name"])
    if description["emulated"] and "emulated" not in name.lower():
        return f"{name} (emulated)"
    return name


def user(uid: int) -> str:
    """By name, as far as this machine knows one."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def job(record: dict[str, Any]) -> str:
    return f"{record['job']} {_named_job(record)}".strip()


def _named_job(record: dict[str, Any]) -> str:
    place = place_of(record)
    return f"{f'({place}) ' if place else ''}{record['name']}".strip()


def _named(row: dict[str, Any]) -> str:
    number, name = row["highest_priority"], row["priority_name"]
    return str(number) if name == str(number) else f"{name} ({number})"


def priority_or_measured(record: dict[str, Any]) -> Text:
    if record["measured"]:
        return Text("measured")
    return priority(record)


def priority(record: dict[str, Any]) -> Text:
    """`high (1)`, `3`, `normal (5) auto`: which fikitd chose."""
    name, number = str(record["priority_name"]), str(record["priority"])
    said = name if name == number else f"{name} ({number})"
    return Text(f"{said} auto" if _is_auto(record) else said, style=PRIORITY_STYLES.get(name, ""))


def _is_auto(record: dict[str, Any]) -> bool:
    """Of a report, or of a client of a node."""
    said = record.get("auto")
    return (said["state"] if isinstance(said, dict) else said) not in (None, "user")


def _ratio(record: dict[str, Any]) -> str:
    """Reports of before have another: of their span to their profile's."""
    return units.ratio(record["slowdown"] if has_times(record) else None)


def _brief_gpu_time(record: dict[str, Any]) -> str:
    bound = gpu_time_bound(record)
    return units.duration(record["gpu_time_s"]) if bound is None else f"< {units.duration(bound)}"


def title(text: str) -> Text:
    """Names of jobs, devices and profiles are a user's own: rich must not read them as markup."""
    return Text(text, style="bold")
