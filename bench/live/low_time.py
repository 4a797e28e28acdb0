"""What became of a low job's time in a live run, as the simulator says it of its own: LowTime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from fikitd.simulation.simulator import LowTime

from bench.live.reaction import ON_COMPUTE_ENGINE
from bench.live.stages import Run

STATES = {
    "runs": ("runs",),
    "host": ("host",),
    "held": ("behind", "does_not_fit", "budget_spent", "turn", "run_ahead", "limit"),
    "not known": ("unknown", "uncertain", "none"),
    "reaction": ("reaction",),
    "on its way": ("queued",),
}
"""The states of a LowTime as a reader wants them: for what a low job did not have a device that the high one left free."""

Change = tuple[int, str, int]  # when, what, +1 or -1


def seen(low: Mapping[str, Any] | None, run: Run) -> LowTime | None:
    """Of the second program of a run, by its `fikit trace` and the device's record; None where the trace has lost its
    beginning."""
    if low is None or len(low["clients"]) != 1 or low["clients"][0]["lost"]:
        return None
    high_pid, low_pid = run.pids
    begin_ns, end_ns = run.begun_ns, run.begun_ns + run.observed.span_ns
    changes = [
        *_device(run.events, high_pid, low_pid, end_ns),
        *_gate(low["clients"][0]["events"]),
        (begin_ns, "", 0),
        (end_ns, "", 0),
    ]
    found: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
    now: Counter[str] = Counter()
    before_ns = begin_ns
    for t_ns, what, change in sorted(changes):
        if t_ns > end_ns:
            break
        if t_ns > before_ns:
            found[now["high"] > 0][_state(now)] += t_ns - before_ns
            before_ns = t_ns
        now[what] += change
    return LowTime(dict(found[False]), dict(found[True]))


def _device(events: Sequence[Mapping[str, Any]], high_pid: int, low_pid: int, end_ns: int) -> Iterator[Change]:
    for event in events:
        if event["kind"] not in ON_COMPUTE_ENGINE or event["pid"] not in (high_pid, low_pid):
            continue
        over_ns = end_ns if event["end_ns"] is None else event["end_ns"]
        if event["start_ns"] is not None:
            yield from _span(event["start_ns"], over_ns, "high" if event["pid"] == high_pid else "runs")
        if event["pid"] == low_pid:
            yield from _span(event["enqueue_ns"], over_ns, "queued")


def _gate(events: Sequence[Sequence[Any]]) -> Iterator[Change]:
    for kind, t_ns, length_ns, _, _, reason, *_ in events:
        if kind == "wait" and reason != "lower_work":
            yield from _span(t_ns, t_ns + length_ns, reason)


def _span(from_ns: int, until_ns: int, what: str) -> Iterator[Change]:
    yield from_ns, what, 1
    yield until_ns, what, -1


def _state(now: Counter[str]) -> str:
    for known in ("runs", "queued"):
        if now[known] > 0:
            return known
    return next((reason for reason in now if reason not in ("", "high") and now[reason] > 0), "host")


def shares(times: Mapping[str, int]) -> dict[str, float]:
    """By STATES: parts of all of it."""
    total_ns = max(1, sum(times.values()))
    return {name: sum(times.get(state, 0) for state in states) / total_ns for name, states in STATES.items()}


def mean(shares_of_runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of the same names; empty: of none."""
    return {name: fmean(run[name] for run in shares_of_runs) for name in STATES} if shares_of_runs else {}
