"""The windows of a cell, and its figures. Pure; nanoseconds.

The low program runs alone first. Then the high program runs without a pause, because fikit would take a pause for a sign of requests
from outside. Meanwhile the low program comes and goes.

* A shared window ends with the low program's last request. fikit may hold this request for long; an alone window has none of its work.
* A request of the high program belongs to the window of its arrival.
* An alone window loses a guard at both ends. At its begin it also loses the requests that queue behind requests of the shared window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.gpu.sharing import measures
from bench.gpu.sharing.measures import Request

Found = dict[str, Any]
Span = tuple[int, int]
SETTLE_NS = 50_000_000  # between the low program's own window and the high program's begin
LOW_ALONE, SHARED = 2, 4  # lengths in units; an alone window has one unit
CYCLES, LONG_S = 3, 1.5  # a shorter cell has one cycle
GUARDS = 8  # a guard is this part of a unit


@dataclass(frozen=True)
class Schedule:
    """Offsets from the begin of a cell. `unit`: length of an alone window; `cycles`: pairs of an alone and a shared window."""

    unit: int
    cycles: int

    @classmethod
    def of(cls, seconds: float) -> Schedule:
        cycles = CYCLES if seconds >= LONG_S else 1
        return cls(round((seconds * 1e9 - SETTLE_NS) / (LOW_ALONE + 1 + cycles * (1 + SHARED))), cycles)

    @property
    def high(self) -> Span:
        begin = LOW_ALONE * self.unit + SETTLE_NS
        return begin, begin + (self.cycles * (1 + SHARED) + 1) * self.unit

    @property
    def low(self) -> list[Span]:
        """The window alone, then a shared window for each cycle."""
        begin = self.high[0]
        shared = [begin + (cycle * (1 + SHARED) + 1) * self.unit for cycle in range(self.cycles)]
        return [(0, LOW_ALONE * self.unit), *((at, at + SHARED * self.unit) for at in shared)]

    def arrivals(self, seed: str, mean_ns: float) -> list[int]:
        """Moments after the high program's begin, `mean_ns` apart on average.

        The moments of an alone window return in each unit of the shared window after it. So chance does not differ between the two.
        """
        found = []
        for cycle in range(self.cycles + 1):
            moments = measures.arrivals(f"{seed} {cycle}", mean_ns, self.unit)
            units = range(1 + SHARED) if cycle < self.cycles else range(1)
            found += [(cycle * (1 + SHARED) + number) * self.unit + moment for number in units for moment in moments]
        return found


def cell(  # noqa: PLR0917
    schedule: Schedule, start_ns: int, high: Sequence[Request], low: Sequence[Sequence[Request]], device_ns: tuple[float | None, float | None],
    due: Sequence[int] | None = None,
) -> Found:  # fmt: skip
    """The figures of a cell (README.md), of both programs' requests.

    `low`: requests by window, the window alone first. `device_ns`: device time of a request of each program. `due`: the arrivals.
    `harvest`: device time of the low program in shared windows / device time that the high program left there.
    `unfinished`: requests that arrived and did not begin. ValueError: a kind of window has no request.
    """
    span = start_ns + schedule.high[0], start_ns + schedule.high[1]
    bursts = [(requests[0][1], requests[-1][2]) for requests in low[1:] if requests]
    quiet = _quiet(high, bursts, span, schedule.unit // GUARDS)
    alone = [_in(high, each) for each in quiet]
    shared = [_in(high, each) for each in bursts]
    high_alone, high_shared = _summary(alone, "the low program paused"), _summary(shared, "the low program ran")
    low_alone = {**_summary([low[0]] if low else [], "the high program had not begun"), "per_s": _rate(low[0])}
    per_s = [_rate(requests, span[1], low_alone["per_s"]) for requests in low[1:] if requests]
    seconds = [(min(end, span[1]) - begin) / 1e9 for begin, end in bursts]
    low_per_s = sum(rate * s for rate, s in zip(per_s, seconds, strict=True)) / sum(seconds)
    found: Found = {
        "high": high_shared, "high_alone": high_alone, "low_alone": low_alone,
        "jct_ratio": round(high_shared["mean_ns"] / high_alone["mean_ns"], 4),
        "p99_ratio": round(high_shared["p99_ns"] / high_alone["p99_ns"], 4),
        "whole_ratio": round(_mean(high) / high_alone["mean_ns"], 4),
        "low_per_s": round(low_per_s, 4), "low_speed": round(low_per_s / low_alone["per_s"], 4),
        "low_jct_ratio": round(low_alone["per_s"] / low_per_s, 4) if low_per_s else None,
        "harvest": _harvest(high, bursts, sum(seconds), low_per_s, device_ns),
        "unfinished": 0 if due is None else len(due) - len(high),
        "windows": [
            _window("low alone", (low[0][0][1], low[0][-1][2]), start_ns, [], low_alone["per_s"]),
            *(_window("alone", each, start_ns, there, None) for each, there in zip(quiet, alone, strict=True)),
            *(_window("shared", each, start_ns, there, rate) for each, there, rate in zip(bursts, shared, per_s, strict=True)),
        ],
    }  # fmt: skip
    found["windows"].sort(key=lambda window: window["begin_s"])
    return found


def _quiet(high: Sequence[Request], bursts: Sequence[Span], span: Span, guard: int) -> list[Span]:
    """The alone windows, without their guards and without requests that queue behind a shared window's."""
    found = []
    begin = span[0]
    for burst in [*bursts, (span[1] + guard, span[1] + guard)]:
        end = burst[0] - guard
        before = 0
        for arrival, _, done in high:
            if arrival >= begin + guard and arrival >= before:
                if arrival < end:
                    found.append((arrival, end))
                break
            before = done
        begin = burst[1]
    return found


def _in(requests: Sequence[Request], span: Span) -> list[Request]:
    return [request for request in requests if span[0] <= request[0] < span[1]]


def _mean(requests: Sequence[Request]) -> float:
    return sum(end - arrival for arrival, _, end in requests) / len(requests)


def _summary(windows: Sequence[Sequence[Request]], when: str) -> Found:
    took = [end - arrival for requests in windows for arrival, _, end in requests]
    if not took:
        raise ValueError(f"no request was done while {when}")
    return measures.summary(took)


def _rate(requests: Sequence[Request], until_ns: int = 2**63, alone_per_s: float = 0.0) -> float:
    """Requests per second of a shared window, at most until `until_ns`.

    After that moment the high program has ended, and the low one does `alone_per_s`. This part of its last request is left out.
    """
    begin, end = requests[0][1], requests[-1][2]
    after = max(0, end - until_ns) / 1e9 * alone_per_s
    seconds = (min(end, until_ns) - begin) / 1e9
    return max(0.0, len(requests) - min(1.0, after)) / seconds if seconds > 0 else 0.0


def _harvest(
    high: Sequence[Request], bursts: Sequence[Span], seconds: float, low_per_s: float, device_ns: tuple[float | None, float | None],
) -> float | None:  # fmt: skip
    """None: a device time is unknown, or the high program left less than 2 %."""
    high_ns, low_ns = device_ns
    if not high_ns or not low_ns:
        return None
    free = 1 - sum(measures.done(high, *burst) for burst in bursts) * high_ns / 1e9 / seconds
    return round(low_per_s * low_ns / 1e9 / free, 4) if free > 0.02 else None


def _window(kind: str, span: Span, start_ns: int, there: Sequence[Request], low_per_s: float | None) -> Found:
    return {
        "kind": kind, "begin_s": round((span[0] - start_ns) / 1e9, 4), "end_s": round((span[1] - start_ns) / 1e9, 4),
        "high_mean_us": round(_mean(there) / 1e3, 1) if there else None,
        "low_per_s": None if low_per_s is None else round(low_per_s, 3),
    }  # fmt: skip
