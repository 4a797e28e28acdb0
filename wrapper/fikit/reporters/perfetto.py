"""A trace as Chrome's Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

Each process of the job has a track for what it launched, what is reckoned to have run when, what it waited for, the gaps it
left as they were and as they had been predicted, grants, and the moments at which its host had waited for all its work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fikitd.api.reports import against_alone, has_times

from fikit.stored.spans import MEMORY
from fikit.wording import elapsed

TRACKS: Final = ("launches", "kernels, as reckoned", "waits", "gaps", "gaps, as predicted", "grants", "host waited")
LAUNCHES, KERNELS, WAITS, GAPS, PREDICTED, GRANTS, HOST = range(1, len(TRACKS) + 1)

Event = dict[str, Any]
Trace = dict[str, Any]


def convert(trace: Trace, report: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The whole file. Times are microseconds of CLOCK_MONOTONIC, as `emuctl trace` has them. `report`: of the same job, whose words about
    its elapsed time go with it."""
    events: list[Event] = []
    for number, client in enumerate(trace["clients"], start=1):
        events += _names(number, client, trace)
        events += sorted(_events(number, client, trace), key=lambda event: (event["tid"], event["ts"]))
    about = {key: str(trace[key]) for key in ("job", "node", "priority", "policy", "state")}
    device = {"device": trace["device"]["name"], "emulated": str(trace["device"]["emulated"]).lower()}
    if "device_mode" in trace:  # traces of before have none
        device["device mode"] = trace["device_mode"]
    lost = str(sum(client["lost"] for client in trace["clients"]))
    other = {**about, **device, "events lost": lost, **_where_the_time_went(report)}
    return {"displayTimeUnit": "ns", "otherData": other, "traceEvents": events}


def _where_the_time_went(report: Mapping[str, Any] | None) -> dict[str, str]:
    if report is None or not has_times(dict(report)):
        return {}
    result = against_alone(dict(report))
    return {"elapsed": elapsed.total(dict(report)), **({"result": result} if result else {})}


def _names(number: int, client: Event, trace: Trace) -> Iterator[Event]:
    emulated = ", emulated GPU" if trace["device"]["emulated"] else ""
    process = f"job {trace['job']}, process {client['pid']} on {client['gpu']}{emulated}"
    yield {"ph": "M", "pid": number, "tid": 0, "name": "process_name", "args": {"name": process}}
    for tid, name in enumerate(TRACKS, start=1):
        yield {"ph": "M", "pid": number, "tid": tid, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", "pid": number, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}


def _events(number: int, client: Event, trace: Trace) -> Iterator[Event]:
    free_ns: dict[int, int] = {}  # by track: slices of one track may not overlap

    def slice_(tid: int, name: str, begin_ns: int, length_ns: int, args: Event) -> Iterator[Event]:
        end_ns = begin_ns + length_ns
        begin_ns = max(begin_ns, free_ns.get(tid, begin_ns))
        if end_ns > begin_ns:
            free_ns[tid] = end_ns
            yield {
                "ph": "X", "pid": number, "tid": tid, "ts": begin_ns / 1e3, "dur": (end_ns - begin_ns) / 1e3,
                "name": name, "cat": TRACKS[tid - 1], "args": args,
            }  # fmt: skip

    def instant(tid: int, name: str, t_ns: int, args: Event) -> Event:
        return {
            "ph": "i", "s": "t", "pid": number, "tid": tid, "ts": t_ns / 1e3, "name": name, "cat": TRACKS[tid - 1],
            "args": args,
        }  # fmt: skip

    for kind, t_ns, length_ns, predicted_ns, slot, reason, by in sorted(client["events"], key=lambda row: row[1]):
        kernel = client["kernels"].get(str(slot), "kernel without a name")
        if kind == "launch":
            yield instant(LAUNCHES, kernel, t_ns, {"predicted_us": _us(length_ns)})
            if length_ns > 0 and predicted_ns > 0:
                args = {"predicted_us": _us(length_ns)}
                yield from slice_(KERNELS, kernel, predicted_ns - length_ns, length_ns, args)
        elif kind == "grant":
            yield instant(GRANTS, kernel, t_ns, {})
        elif kind == "drain":
            yield instant(HOST, "all work done", t_ns, {})
        elif kind == "gap":
            args = {"predicted_us": _us(predicted_ns), "real_us": _us(length_ns)}
            yield from slice_(GAPS, "gap", t_ns, length_ns, args)
            yield from slice_(PREDICTED, "predicted gap", t_ns, max(predicted_ns, 0), args)
        elif kind == "wait":
            whom = "other jobs" if reason == MEMORY else _who(by, trace)
            why = {"reason": reason, "by": whom, "kernel": kernel if slot else ""}
            yield from slice_(WAITS, reason.replace("_", " "), t_ns, length_ns, why)


def _who(client: int, trace: Trace) -> str:
    """Another job by its id only where it is the same user's."""
    other = trace["others"].get(str(client), {"job": None, "priority": None})
    if other["job"] == trace["job"]:
        return "this job"
    priority = "" if other["priority"] is None else f", priority {other['priority']}"
    return f"another job{priority}" if other["job"] is None else f"job {other['job']}{priority}"


def _us(ns: int) -> float | None:
    return None if ns < 0 else ns / 1e3
