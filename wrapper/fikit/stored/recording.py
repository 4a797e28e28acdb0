"""A job's stored trace as a recording that `fikit sim` plays: the job as it would have been alone. Pure.

Kernels last as long as fikitd knows them to. What the host did between its calls is as in the trace, without the waits at the gate; where it
waited for all of its work, it waits for that again. What a trace does not have is left out: copies, waits for a part of the work, other
processes of the job. How much of the GPU a kernel fills is not in it either: each fills it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fikit.stored.spans import LOWER_WORK, Span, union

LATENCY_NS: Final = 5_000  # from a launch until an idle GPU begins it: assumed
FILLS: Final = "65535,1,1,1024,1,1"  # grid and block
LEAST_KNOWN: Final = 0.5  # of the launches: of fewer the picture would be another job's
HEAD: Final = "type,host_ts,host_dur,dev_start,dev_dur,stream,gx,gy,gz,bx,by,bz,regs,smem,bytes,name_id,tid"


class NotEnough(Exception):
    """Why a trace says too little, as the end of a sentence."""


@dataclass(frozen=True)
class Recording:
    """text: as docs/emulated-gpu.md, "Recordings", has it. launches: in it; unknown: of unknown length, and so left out. processes: of the job, of which one is in it."""

    text: str
    launches: int
    unknown: int
    processes: int


def of(trace: Mapping[str, Any]) -> Recording:
    """The process that launched most. NotEnough: less than half of its launches have a known length."""
    client = max(trace["clients"], key=_launches, default=None)
    if client is None or (launches := _launches(client)) == 0:
        raise NotEnough("it launched nothing")
    known = [event for event in client["events"] if _is_known(event)]
    if len(known) < LEAST_KNOWN * launches:
        raise NotEnough(f"only {len(known)} of its {launches} launches have a known length: measure it")
    names = {slot: number for number, slot in enumerate(dict.fromkeys(event[4] for event in known), start=1)}
    lines = [
        f"#N {number} {client['kernels'].get(str(slot)) or 'kernel without a name'}" for slot, number in names.items()
    ]
    rows = list(_calls(client["events"], names))
    text = "\n".join([*lines, "#N 0 cuCtxSynchronize", HEAD, *rows]) + "\n"
    return Recording(text, len(known), launches - len(known), len(trace["clients"]))


def _launches(client: Mapping[str, Any]) -> int:
    return sum(event[0] == "launch" for event in client["events"])


def _is_known(event: Sequence[Any]) -> bool:
    return bool(event[0] == "launch" and event[2] > 0)


def _calls(events: Sequence[Sequence[Any]], names: Mapping[int, int]) -> Iterator[str]:
    """One line per call, in ns as the host alone would have come to them, from 0 on."""
    waits = _Waits(
        union((t, t + length) for kind, t, length, _, _, reason, _ in events if kind == "wait" and reason != LOWER_WORK)
    )
    host = done = 0
    before: int | None = None
    ends = 0  # of the work, in the trace's own time: the host was not before that where it waited for it
    for event in sorted((each for each in events if _is_known(each) or each[0] == "drain"), key=lambda each: each[1]):
        now = event[1] - waits.until(event[1])
        since = max(now - (now if before is None else before), 0)
        before = now
        if event[0] == "launch":
            host += since
            start = max(host + LATENCY_NS, done)
            done, ends = start + event[2], event[3]
            yield f"K,{_us(host)},0,{_us(start)},{_us(event[2])},1,{FILLS},0,0,,{names[event[4]]},1"
        elif done > host:
            yield f"S,{_us(host)},{_us(done - host)},,,,,,,,,,,,,0,1"
            host = done + min(max(event[1] - ends, 0), since)
        else:
            host += since


class _Waits:
    """How long it had waited until a moment; moments are asked for in their order."""

    def __init__(self, waits: Sequence[Span]) -> None:
        self._waits, self._next, self._past = waits, 0, 0

    def until(self, moment: int) -> int:
        while self._next < len(self._waits) and self._waits[self._next][1] <= moment:
            first, last = self._waits[self._next]
            self._past += last - first
            self._next += 1
        begun = self._waits[self._next][0] if self._next < len(self._waits) else moment
        return self._past + max(moment - begun, 0)


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03}"
