"""Tables for people: one look for all of them, readable over ssh and in a pipe."""

from __future__ import annotations

import io
import sys
from typing import Any

from fikitd.quantities import percent
from fikitd.reports import gpu_time_bound, nothing_completed
from rich import box
from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fikit.reporters import units
from fikit.reporters.why import delayed, waits_now_s, why

PRIORITY_STYLES = {"high": "bold green", "normal": "cyan", "low": "blue"}
STATUS_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}
BAR_WIDTH = 20
PIPE_WIDTH = 160
WITHOUT_TIME = {  # why the time on the GPU is not quite known, by the report's key
    "unfinished": "are not known to have completed",
    "untimed": "are of kernels that nothing has timed",
    "beside": "are of kernels timed only beside other jobs, whose work is in these times",
}
NAME_WIDTH = 8  # what a narrow terminal leaves of names, so that the numbers beside them stay whole


def show(*renderables: RenderableType) -> None:
    """Print to stdout. Into a pipe or file: without colour or padding, and wide enough that nothing is cut off."""
    if sys.stdout.isatty():
        Console(highlight=False).print(*renderables, sep="\n")
        return
    sink = io.StringIO()
    Console(file=sink, width=PIPE_WIDTH, highlight=False).print(*renderables, sep="\n")
    print("\n".join(line.rstrip() for line in sink.getvalue().splitlines()))


def bar(part: float, whole: float, width: int = BAR_WIDTH) -> str:
    """`part` of `whole` as a bar of at most `width` cells, in eighths of a cell."""
    eighths = round(8 * width * part / whole) if whole > 0 else 0
    full, rest = divmod(max(0, min(eighths, 8 * width)), 8)
    return "█" * full + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[rest]


def report(record: dict[str, Any]) -> Table:
    """Everything that fikit knows about one job."""
    table = Table(
        box=box.SIMPLE, show_header=False, title=_title(f"Job {_job(record)}"), title_justify="left", pad_edge=False
    )
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    gaps = record["gaps"]
    rows: list[tuple[str, RenderableType]] = [
        ("state", f"{record['state']}, {record['processes']} process{'' if record['processes'] == 1 else 'es'}"),
        ("priority", _priority(record)),
        ("GPU", Text(device(record["device"]))),
        ("kernels", units.count(record["kernels"])),
        ("GPU time", _gpu_time(record)),
        ("span", f"{units.duration(record['span_s'])}, {_against_profile(record)}"),
        ("waited at the gate", _waited(record)),
        *(("", Text(line)) for line in why(record)),
        *(("delayed on the GPU", Text(line)) for line in delayed(record)),
        ("gaps", f"{units.count(gaps['offered'])} offered, {units.count(gaps['filled'])} filled, "
                 f"{units.count(gaps['others_kernels'])} kernels of others inside"),
        ("gap length", f"{units.microseconds(gaps['predicted_us'])} predicted, {units.microseconds(gaps['actual_us'])} actual; "
                       f"error p50 {units.microseconds(gaps['error_p50_us'])}, p90 {units.microseconds(gaps['error_p90_us'])}"),
        ("GPU memory", _memory(record)),
        ("profile", _profile(record)),
        ("policy", str(record["policy"])),
    ]  # fmt: skip
    if record.get("drifted"):  # not in reports of before
        drifted = f"{units.count(record['drifted'])} came to take 30 % more or less time"
        rows.append(("kernels drifted", Text(drifted, style="yellow")))
    if record["expired"]:
        rows.append(("leases run out", Text(units.count(record["expired"]), style="yellow")))
    rows += [("warning", Text(str(text), style="yellow")) for text in record["warnings"]]
    for name, value in rows:
        table.add_row(name, value)
    return table


def reports(records: list[dict[str, Any]]) -> Table:
    """One line per job."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("job", min_width=NAME_WIDTH)
    for name in ("priority", "state"):
        table.add_column(name)
    for name in ("kernels", "GPU time", "span", "against solo", "waited"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("GPU")
    for record in records:
        table.add_row(
            Text(_job(record), overflow="ellipsis", no_wrap=True), _priority(record), record["state"], units.count(record["kernels"]),
            _brief_gpu_time(record), units.duration(record["span_s"]), units.ratio(record["slowdown"]),
            units.duration(record["wait"]["total_s"]), Text(device(record["device"])),
        )  # fmt: skip
    return table


def profiles(entries: list[dict[str, Any]]) -> Table:
    """One line per profile key."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("key", no_wrap=True)
    table.add_column("GPU")
    for name in ("runs", "kernels", "launches"):
        table.add_column(name, justify="right")
    table.add_column("command")
    for entry in entries:
        table.add_row(
            entry["key"], Text(device(entry["device"])), str(entry["runs"]), str(entry["kernels"]),
            units.count(entry["launches"]), Text(" ".join(entry["command"]), overflow="ellipsis", no_wrap=True),
        )  # fmt: skip
    return table


def profile(entry: dict[str, Any]) -> Table:
    """A profile's kernels, those that take most of the GPU's time first."""
    kernels = sorted(entry["kernels"], key=lambda kernel: -kernel["total_ns"])
    whole = sum(kernel["total_ns"] for kernel in kernels)
    table = Table(
        box=box.SIMPLE,
        pad_edge=False,
        title=_title(f"Profile {entry['key']} on {device(entry['device'])}"),
        title_justify="left",
    )
    table.add_column("kernel", overflow="fold", min_width=NAME_WIDTH)
    table.add_column("grid x block", overflow="fold")
    for name in ("count", "mean", "p50", "p99", "gap after", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("of the GPU time", max_width=BAR_WIDTH)
    for kernel in kernels:
        shape = f"{'x'.join(map(str, kernel['grid']))} x {'x'.join(map(str, kernel['block']))}"
        table.add_row(
            Text(kernel["name"]), shape, units.count(kernel["count"]), units.nanoseconds(kernel["mean_ns"]),
            units.nanoseconds(kernel["p50_ns"]), units.nanoseconds(kernel["p99_ns"]), units.nanoseconds(kernel["gap_ns"]),
            units.percent(kernel["total_ns"], whole), Bar(whole, 0, kernel["total_ns"], color="cyan"),
        )  # fmt: skip
    return table


def checks(results: list[dict[str, str]]) -> Table:
    """What `fikit doctor` found; advice only where there is something to do."""
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for result in results:
        text = Text(result["found"])
        if result["advice"]:
            text.append(f"\n{result['advice']}", style="italic")
        table.add_row(Text(result["status"], style=STATUS_STYLES[result["status"]]), result["name"], text)
    return table


def limits(rows: list[dict[str, Any]]) -> Table:
    """What `fikit limits` found: one line per rule."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("jobs", "priorities", "max slowdown", "max delay"):
        table.add_column(name)
    for row in rows:
        jobs = ", ".join(f"{key} {' or '.join(names)}" for key, names in row["jobs"].items())
        table.add_row(
            Text(jobs or ("all others" if len(rows) > 1 else "all")),
            "any" if row["highest_priority"] == 0 else f"{_named(row)} to 9",
            f"{percent(row['lowest_max_slowdown'])} or more" if row["lowest_max_slowdown"] else "any",
            f"{units.microseconds(row['lowest_max_delay_us'])} or more" if row["lowest_max_delay_us"] else "any",
        )
    return table


def demo(summary: dict[str, Any]) -> Group:
    """The demo's comparison: seconds of each job in each mode, and what fikit made of it."""
    table = Table(
        box=box.SIMPLE,
        pad_edge=False,
        title=_title(f"Two jobs on one GPU: {device(summary['device'])}"),
        title_justify="left",
    )
    for name in ("job", "mode"):
        table.add_column(name, no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("against alone", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, width=2 * BAR_WIDTH)
    modes = {"solo_s": "alone", "shared_s": "default sharing", "fikit_s": "fikit"}
    longest = max(summary[job][mode] for job in ("high", "low") for mode in modes)
    for job in ("high", "low"):
        seconds = summary[job]
        for mode, label in modes.items():
            table.add_row(
                Text(job if mode == "solo_s" else "", style=PRIORITY_STYLES[job]), label, units.duration(seconds[mode]),
                units.ratio(seconds[mode] / seconds["solo_s"]),
                Text(bar(seconds[mode], longest, 2 * BAR_WIDTH), style=PRIORITY_STYLES[job]),
                end_section=mode == "fikit_s",
            )  # fmt: skip
    share = "unknown" if summary["low_share"] is None else f"{summary['low_share']:.0%}"
    return Group(
        table,
        f"High-priority job: {summary['high_slowdown']:.2f}x of its time alone, "
        f"{summary['high_speedup']:.1f} times faster than with default sharing.",
        f"Low-priority job: used {share} of the device time that the high-priority job left.",
    )


def device(description: dict[str, Any]) -> str:
    """The device's name, with a mark when it is not hardware (the name of an emulated one usually says so itself)."""
    name = str(description["name"])
    if description["emulated"] and "emulated" not in name.lower():
        return f"{name} (emulated)"
    return name


def _job(record: dict[str, Any]) -> str:
    task = f"({record['array']}) " if record.get("array") else ""
    return f"{record['job']} {task}{record['name']}".strip()


def _named(row: dict[str, Any]) -> str:
    number, name = row["highest_priority"], row["priority_name"]
    return str(number) if name == str(number) else f"{name} ({number})"


def _priority(record: dict[str, Any]) -> Text:
    if record["measured"]:
        return Text("measured")
    return priority(record)


def priority(record: dict[str, Any]) -> Text:
    """`high (1)`, `3`."""
    name, number = str(record["priority_name"]), str(record["priority"])
    return Text(name if name == number else f"{name} ({number})", style=PRIORITY_STYLES.get(name, ""))


def _against_profile(record: dict[str, Any]) -> str:
    if nothing_completed(record):
        return "nothing is known to have completed"
    if record["slowdown"] is None and record["solo_s"] is not None:
        return "not compared with its profile: it did not do all that it launched"
    if record["slowdown"] is None:
        return "no profile to compare with"
    return f"{units.ratio(record['slowdown'])} of its profile's solo time ({units.duration(record['solo_s'])})"


def _brief_gpu_time(record: dict[str, Any]) -> str:
    bound = gpu_time_bound(record)
    return units.duration(record["gpu_time_s"]) if bound is None else f"< {units.duration(bound)}"


def _gpu_time(record: dict[str, Any]) -> str:
    bound = gpu_time_bound(record)
    if record["gpu_time_s"] is None and bound is None:
        return "-"
    facts = [
        f"{units.count(record[key])} of {units.count(record['kernels'])} launches {what}"
        for key, what in WITHOUT_TIME.items()
        if record.get(key)
    ]
    if bound is None:
        time = units.duration(record["gpu_time_s"])
        return f"{time}: {', '.join(facts)}" if facts else time
    # Reports of before do not say how many.
    return f"at most {units.duration(bound)}: {', '.join(facts) or 'not all of its kernels have been timed'}"


def _memory(record: dict[str, Any]) -> str:
    memory = record.get("memory")  # reports of the first days have none
    if not memory:
        return "-"
    limit = f" of {units.gibibytes(memory['limit_bytes'])} (--fikit-mem)" if memory["limit_bytes"] else ""
    refused = f"; {units.count(memory['refused'])} requests were beyond it" if memory["refused"] else ""
    return f"{units.gibibytes(memory['peak_bytes'])} at most{limit}{refused}"


def _waited(record: dict[str, Any]) -> str:
    wait = record["wait"]
    facts = []
    if wait["count"]:
        facts.append(
            f"{units.duration(wait['total_s'])} in {units.count(wait['count'])} wait{'' if wait['count'] == 1 else 's'}; "
            f"mean {units.microseconds(wait['mean_us'])}, p99 {units.microseconds(wait['p99_us'])}"
        )
    now_s = waits_now_s(record)
    if now_s:
        facts.append(f"{units.duration(now_s)} {'more ' if facts else ''}until now")
    return "; ".join(facts) or "never"


def _profile(record: dict[str, Any]) -> str:
    profile = record["profile"]
    if record["measured"]:
        return f"{profile['key']}, {'written by this run' if profile['stored'] else 'not stored'}"
    if profile["found"]:
        return f"{profile['key']}, found"
    known = "samples of this run are stored for the next one" if profile["stored"] else "run once with --fikit-measure"
    return f"{profile['key']}, not there before: {known}"


def _title(text: str) -> Text:
    """Names of jobs, devices and profiles are a user's own: rich must not read them as markup."""
    return Text(text, style="bold")
