"""One job's report for people: the verdict, where its time went and why, and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

from fikitd.api.reports import gpu_time_bound, has_times
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fikit.api.advice import Advice
from fikit.api.job_report import moment
from fikit.reporters import table
from fikit.reporters.grid import bar
from fikit.wording import auto, device_mode, elapsed, memory_moved, moments, units, verdict
from fikit.wording.wait_phrases import delayed, waits_now_s, why

BAR_WIDTH: Final = 20
SLIGHT = 0.01  # of the launches: what is not known of so few changes no sum that is shown
WITHOUT_TIME = {  # why the time on the GPU is not quite known, by the report's key
    "unfinished": "not known to have completed",
    "untimed": "of kernels that nothing has timed",
    "beside": "of kernels timed only beside other jobs, whose work is in these times",
    "doubtful": "counted by a doubtful time, as of a first launch, in which the driver loads the kernel",
}


def report(record: dict[str, Any], verbose: bool = False, advices: Sequence[Advice] = ()) -> Group:
    """What fikit knows about one job, the answer first and what to do last; `verbose`: and what its policy made of its gaps."""
    return Group(_facts(record, verbose), *advice(advices))


def _facts(record: dict[str, Any], verbose: bool) -> Table:
    gaps = record["gaps"]
    rows: list[tuple[str, RenderableType]] = [
        *([("result", Text(answer))] if (answer := verdict.of(record)) else []),
        *([("elapsed", Text(elapsed.total(record)))] if has_times(record) else []),
        *([("ran", ran)] if (ran := _ran(record)) else []),
        ("state", f"{record['state']}, {record['processes']} process{'' if record['processes'] == 1 else 'es'}"),
        *([("user", Text(table.user(record["uid"])))] if record["uid"] != os.getuid() else []),
        ("priority", table.priority_or_measured(record)),
        *([("", Text(auto.why(record["auto"])))] if record.get("auto") else []),
        ("GPU", Text(table.device(record["device"]))),
        *([("GPU shared", device_mode.SENTENCES[record["device_mode"]])] if record.get("device_mode") else []),
        ("kernels", units.count(record["kernels"])),
        ("GPU time", _gpu_time(record)),
        *([("GPU busy", busy)] if (busy := _busy(record)) else []),
        ("waited at the gate", _waited(record)),
        *(("", Text(line)) for line in why(record)),
        *(("delayed on the GPU", Text(line)) for line in delayed(record)),
        *([("its host", Text(late))] if has_times(record) and (late := elapsed.host(record)) else []),
        ("GPU memory", _memory(record)),
        *([("", Text(moved))] if (moved := memory_moved.sentence(record.get("memory") or {}, record.get("elapsed_s"))) else []),
        ("profile", Text(_profile(record))),
    ]  # fmt: skip
    if verbose:
        rows += [
            ("policy", str(record["policy"])),
            ("span", units.duration(record["span_s"])),
            ("gaps", f"{units.count(gaps['offered'])} offered, {units.count(gaps['filled'])} filled, "
                     f"{units.count(gaps['others_kernels'])} kernels of others inside"),
            *([("gap length", _gap_length(gaps))] if gaps["offered"] else []),
        ]  # fmt: skip
    if record.get("drifted"):  # not in reports of before
        drifted = f"{units.count(record['drifted'])} came to take 30 % more or less time"
        rows.append(("kernels drifted", Text(drifted, style="yellow")))
    if record["expired"]:
        rows.append(("leases run out", Text(units.count(record["expired"]), style="yellow")))
    rows += [("warning", Text(str(text), style="yellow")) for text in record["warnings"]]
    return table.facts(f"Job {table.job(record)}", rows)


def _ran(record: dict[str, Any]) -> str:
    """`2026-11-21 12:00:00 to 12:00:09 UTC on n1`; nothing where a time is none."""
    when = moments.ran(moment(record["started"]), moment(record["ended"]))
    return f"{when} on {record['node']}" if when else ""


def _busy(record: dict[str, Any]) -> str:
    """Which part of the elapsed time its kernels take on the GPU; nothing where one of the two is not known."""
    if not has_times(record) or record["gpu_time_s"] is None or record["elapsed_s"] <= 0:
        return ""
    return f"{_drawn(record['gpu_time_s'], record['elapsed_s'])} {units.percent(record['gpu_time_s'], record['elapsed_s'])} of its elapsed time"


def _drawn(part: float, whole: float) -> str:
    return f"[{bar(part, whole, BAR_WIDTH):<{BAR_WIDTH}}]"


def advice(advices: Sequence[Advice]) -> Iterator[RenderableType]:
    if advices:
        yield Text("What to do", style="bold")
    for each in advices:
        yield Text(f" * {each.text}" + (f"\n     {each.line}" if each.line else ""))
    if advices:
        yield Text("")


def _gap_length(gaps: dict[str, Any]) -> str:
    return (
        f"{units.microseconds(gaps['predicted_us'])} predicted, {units.microseconds(gaps['actual_us'])} actual; "
        f"error p50 {units.microseconds(gaps['error_p50_us'])}, p90 {units.microseconds(gaps['error_p90_us'])}"
    )


def _gpu_time(record: dict[str, Any]) -> str:
    bound = gpu_time_bound(record)
    if record["gpu_time_s"] is None and bound is None:
        return "-"
    facts = [
        f"{'all' if record[key] == record['kernels'] else f'{units.count(record[key])} of'} "
        f"{units.count(record['kernels'])} launches {what}"
        for key, what in WITHOUT_TIME.items()
        if record.get(key, 0) > (SLIGHT * record["kernels"] if bound is None else 0)
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
    whole = record["device"].get("memory_bytes")
    options = "--fikit-mem and --fikit-mem-host" if memory.get("moved") else "--fikit-mem"
    limit = f" of {units.gibibytes(memory['limit_bytes'])} ({options})" if memory["limit_bytes"] else ""
    refused = f"; {units.count(memory['refused'])} requests were beyond it" if memory["refused"] else ""
    most = memory["limit_bytes"] or whole
    drawn = f"{_drawn(memory['peak_bytes'], most)} " if most else ""
    of_gpu = f" of the GPU's {units.gibibytes(whole)}" if whole and not limit else ""
    return f"{drawn}{units.gibibytes(memory['peak_bytes'])} at most{limit or of_gpu}{refused}"


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
    if borrowed := profile.get("borrowed"):  # not in reports of before
        known = f"{units.count(borrowed['known'])} of {units.count(borrowed['kernels'])} kernels known"
        return f"{profile['key']}, {known}, {units.count(borrowed['borrowed'])} of them from {borrowed['run']}"
    if profile["found"]:
        return f"{profile['key']}, found"
    known = "samples of this run are stored for the next one" if profile["stored"] else "run once with --fikit-measure"
    return f"{profile['key']}, not there before: {known}"
