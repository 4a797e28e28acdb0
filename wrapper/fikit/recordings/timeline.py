"""Host calls, and the work that they gave the GPU, as a recording. Pure.

A profiler tells of a call and of its work apart, and gives both one correlation number. A recording has a line for each piece of work, with the
call that it came from; of a graph's launch each kernel has one, with the same call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fikitd.base.validation import printable

COLUMNS: Final = "type,host_ts,host_dur,dev_start,dev_dur,stream,gx,gy,gz,bx,by,bz,regs,smem,bytes,name_id,tid"
MOST_OF_NAME: Final = 4096
MOST_COUNT: Final = 2**32 - 1  # of a grid, a block, registers, shared memory
MOST_BYTES: Final = 2**63 - 1
MOST_NS: Final = 2**62  # since any origin; the time since 1970 is shorter
WAITS: Final = re.compile(r"(cuda|hip)(Device|Stream|Event|Thread)Synchronize|cu(Ctx|Stream|Event)Synchronize")
VERSION: Final = re.compile(r"(_v\d+|_ptsz)+$")  # of a call, as Nsight Systems names it

Shape = tuple[int, int, int]
Correlation = tuple[Hashable, int]
"""Process and number: each process counts for itself."""


class NoTimeline(Exception):
    """Why there is no recording in it, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the host's into CUDA. Times are ns from any origin, which is the work's, too."""

    name: str
    start_ns: int
    length_ns: int
    thread: Hashable


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel (`kind` K), or a copy or set of memory (M), on a GPU."""

    kind: str
    name: str
    start_ns: int
    length_ns: int
    device: Hashable
    stream: Hashable
    correlation: Correlation
    grid: Shape | None = None
    block: Shape | None = None
    registers: int = 0
    shared_bytes: int = 0
    size_bytes: int = 0


@dataclass
class Timeline:
    """What a profiler's file says. unusable: events without a length, which happens to what was under way when the profiler began or ended."""

    calls: dict[Correlation, Call] = field(default_factory=dict)
    waits: list[tuple[Hashable, Call]] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)
    unusable: int = 0

    def called(self, correlation: Correlation, call: Call) -> None:
        """Of a call within a call, as of the driver by the runtime, the outer one counts."""
        if WAITS.fullmatch(VERSION.sub("", call.name)):
            self.waits.append((correlation[0], call))
        known = self.calls.get(correlation)
        if known is None or call.start_ns < known.start_ns:
            self.calls[correlation] = call


@dataclass(frozen=True)
class Recording:
    """text: as docs/emulated-gpu.md, "Recordings", has it. lacking: what is not in it, in words."""

    text: str
    lacking: Sequence[str]


def recording(found: Timeline) -> Recording:
    """Of the process and GPU with most work. NoTimeline: there is none whose call is known."""
    known = [work for work in found.work if work.correlation in found.calls]
    if not known:
        raise NoTimeline(
            "no kernel and no copy in it belongs to a call of the host: it needs both, as CPU and CUDA activities"
            if found.work
            else "it has no kernel and no copy of a GPU"
        )
    places = Counter((work.correlation[0], work.device) for work in known)
    place = max(places, key=lambda each: places[each])
    taken = [work for work in known if (work.correlation[0], work.device) == place]
    waits = [call for process, call in found.waits if process == place[0]]
    return Recording(
        "\n".join(_lines(taken, waits, found.calls)) + "\n", _lacking(found, len(known), places, len(taken))
    )


def _lacking(found: Timeline, known: int, places: Mapping[tuple[Hashable, Hashable], int], taken: int) -> list[str]:
    processes, devices = len({process for process, _ in places}), len({device for _, device in places})
    orphans = len(found.work) - known
    return [
        *([f"{orphans} kernels and copies whose call was not recorded are left out"] if orphans else []),
        *([f"{found.unusable} events without a length are left out"] if found.unusable else []),
        *([f"of {processes} processes and {devices} GPUs the one of each with most work is taken: {taken} of {known} kernels and copies"] if len(places) > 1 else []),
    ]  # fmt: skip


def _lines(taken: Sequence[Work], waits: Sequence[Call], calls: Mapping[Correlation, Call]) -> Iterator[str]:
    rows = [(calls[work.correlation], work) for work in taken]
    all_calls = [*(call for call, _ in rows), *waits]
    origin_ns = min(call.start_ns for call in all_calls)
    names = _numbers([*(work.name for work in taken), *(call.name for call in waits)])
    threads, streams = _numbers([call.thread for call in all_calls]), _numbers([work.stream for work in taken])
    for name, number in names.items():
        yield f"#N {number} {printable(str(name))[:MOST_OF_NAME] or 'without a name'}"
    yield COLUMNS
    lines = [
        *((call.start_ns, work.start_ns, f"{work.kind},{_when(call, origin_ns)},{_us(work.start_ns - origin_ns)},{_us(work.length_ns)},{streams[work.stream]},"
           f"{_what(work)},{names[work.name]},{threads[call.thread]}") for call, work in rows),
        *((call.start_ns, call.start_ns, f"S,{_when(call, origin_ns)},,,,,,,,,,,,,{names[call.name]},{threads[call.thread]}") for call in waits),
    ]  # fmt: skip
    yield from (line for _, _, line in sorted(lines, key=lambda each: each[:2]))


def _numbers(named: Sequence[Hashable]) -> Mapping[Hashable, int]:
    """Small numbers for what a file names by anything."""
    return {name: number for number, name in enumerate(dict.fromkeys(named))}


def _when(call: Call, origin_ns: int) -> str:
    return f"{_us(call.start_ns - origin_ns)},{_us(call.length_ns)}"


def _what(work: Work) -> str:
    """Grid, block, registers, shared memory, and of a copy its size."""
    shape = [str(each) for part in (work.grid, work.block) for each in (("", "", "") if part is None else part)]
    return ",".join(
        [*shape, str(work.registers), str(work.shared_bytes), str(work.size_bytes) if work.kind == "M" else ""]
    )


def _us(ns: int) -> str:
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03}"
