"""The page's sections in their order, in words and figures. Pure: everything that is shown is an argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from fikitd.api import elapsed
from fikitd.api.reports import has_times
from fikitd.base import priorities

from fikit.api.advice import Advice
from fikit.api.job_report import TypedReport
from fikit.page import memory_picture, timeline
from fikit.page.figures import Figure, Source
from fikit.page.timeline import Lane, Timeline
from fikit.reporters import table
from fikit.wording import auto, device_mode, moments, units, verdict, wait_phrases

Record = Mapping[str, Any]

PARTS: Final = (
    ("alone", "alone_s", "what it would have taken alone on its GPU"),
    ("waited", "waited_s", "it stood at the gate, while others had the GPU"),
    ("delayed", "delayed_s", "its kernels were on the GPU, and others' ran there, too"),
    ("host", "host_s", "its own program took longer to start, to launch or to end than its profile says"),
    ("suspended", "suspended_s", "it was stopped: by scontrol suspend, a signal or a debugger"),
    ("unexplained", "unexplained_s", "nobody knows"),
)
HOST: Final = (
    ("start", "start_s", "longer to start than by its profile"),
    ("between launches", "late_s", "longer between launches than by its profile, or without a processor core"),
    ("end", "end_s", "longer to end than by its profile"),
    ("unknown", "unknown_s", "start and end, of which no profile says how long they take"),
)
NO_VERDICT: Final = {  # where there is no verdict, by why there is no ratio
    "": "nothing is compared with its time alone: its report does not say where the time went",
    elapsed.AROUND: "a program around fikit used its GPU: nobody knows what that cost it",
    elapsed.MEASURED: "it was measured, alone on its GPU: its own times are the profile",
    elapsed.NOTHING: "it launched nothing on the GPU",
    elapsed.EDGES: "not compared with its time alone: no profile says how long it takes to start and end",
}
MOST_KERNELS: Final = 20
TICKS: Final = 5


@dataclass(frozen=True)
class Sources:
    """What goes with a report. partners: traces of other jobs of the node, by job. profile: its key, its runs, its kernels as fikit.stored.kernels has them."""

    trace: Record | None = None
    partners: Mapping[str, Record] = field(default_factory=dict)
    profile: Record | None = None


@dataclass(frozen=True)
class Part:
    """A part of the elapsed time. first, width: of the bar, in thousandths."""

    name: str
    time: Figure
    share: Figure | None
    meaning: str
    first: float = 0.0
    width: float = 0.0


@dataclass(frozen=True)
class Wait:
    why: str
    time: Figure
    cost: Figure | None
    count: Figure


@dataclass(frozen=True)
class Row:
    """A lane of a timeline. path: its outline, PIECES wide and 10 high."""

    kind: str
    name: str
    time: Figure
    share: Figure
    path: str


@dataclass(frozen=True)
class Picture:
    """A timeline. ticks: texts of equally distant moments."""

    gpu: str
    rows: Sequence[Row]
    ticks: Sequence[str]
    notes: Sequence[str]


@dataclass(frozen=True)
class MemoryRow:
    """figure: the most of it, or the sum. path: its outline, PIECES wide and 20 high."""

    kind: str
    name: str
    figure: Figure | None
    path: str


@dataclass(frozen=True)
class MemoryStory:
    """A job's memory on the GPU over time. whole: what the whole height of the first two rows is. ticks: as a Picture's."""

    rows: Sequence[MemoryRow]
    whole: str
    ticks: Sequence[str]


@dataclass(frozen=True)
class Kernel:
    name: str
    shape: str
    count: Figure
    mean: Figure
    p99: Figure
    total: Figure
    share: float
    note: str


@dataclass(frozen=True)
class Page:
    """Everything that the page shows."""

    title: str
    verdict: str
    no_verdict: str
    mood: str
    facts: Sequence[tuple[str, str | Figure]]
    elapsed: Figure | None
    busy: Figure | None
    parts: Sequence[Part]
    host: Sequence[Part]
    waits: Sequence[Wait]
    delays: Sequence[Wait]
    pictures: Sequence[Picture]
    memory: Sequence[tuple[str, Figure]]
    memory_story: MemoryStory | None
    memory_share: Figure | None
    memory_of: str
    kernels: Sequence[Kernel]
    kernels_more: int
    profile_key: str
    profile_runs: Figure | None
    advices: Sequence[Advice]
    warnings: Sequence[str]
    emulated: bool
    made: str
    job: str
    record: Record = field(repr=False)


def of(run: TypedReport, advices: Sequence[Advice], sources: Sources, now: datetime) -> Page:
    """now: when the page is made."""
    trace, partners, profile = sources.trace, sources.partners, sources.profile
    record = dict(run.record)
    source = Source(record)
    kernels = [] if profile is None else _kernels(profile)
    return Page(
        title=f"Job {table.job(record)}", verdict=verdict.of(record), no_verdict=NO_VERDICT.get(run.no_slowdown, NO_VERDICT[""]), mood=_mood(run), facts=_facts(run, record, source),
        elapsed=source.time("elapsed_s") if has_times(record) else None, busy=source.share("gpu_time_s", "elapsed_s"), parts=_parts(source, record),
        host=_host(source, record), waits=_waits(source, record), delays=_delays(source, record),
        pictures=[] if trace is None else [_picture(each, run) for each in timeline.of(trace, partners)],
        memory=_memory(source), memory_story=_memory_story(source, record), memory_share=source.share("memory.peak_bytes", _memory_whole(source)),
        memory_of=_memory_of(source), kernels=kernels[:MOST_KERNELS],
        kernels_more=max(len(kernels) - MOST_KERNELS, 0), profile_key=run.profile_key,
        profile_runs=None if profile is None else Source(profile, "profile:").count("runs"), advices=advices, warnings=run.warnings,
        emulated=run.device.emulated, made=moments.second(now), job=run.job, record=record,
    )  # fmt: skip


def _mood(run: TypedReport) -> str:
    return {True: "kept", False: "missed", None: "unknown"}[run.kept]


def _facts(run: TypedReport, record: dict[str, Any], source: Source) -> list[tuple[str, str | Figure]]:
    priority = "measured" if run.measured else str(table.priority(record))
    found: list[tuple[str, str | Figure | None]] = [
        ("User", table.user(run.uid)),
        ("Node", run.node),
        ("GPU", table.device(record["device"])),
        ("GPU shared", device_mode.SENTENCES[run.device_mode] if run.device_mode else None),
        ("Priority", priority),
        ("Why this priority", auto.why(record["auto"]) if record.get("auto") else None),
        ("State", run.state),
        ("Ran", moments.ran(run.started, run.ended) or None),
        ("Processes", source.count("processes")),
        ("Kernels", source.count("kernels")),
        ("GPU time", source.time("gpu_time_s")),
        ("GPU time at most", None if run.gpu_time_s is not None else source.time("gpu_time_at_most_s")),
        ("Policy", run.policy),
    ]
    return [(name, value) for name, value in found if value is not None]


def _parts(source: Source, record: dict[str, Any]) -> list[Part]:
    if not has_times(record) or record["elapsed_s"] <= 0:
        return []
    found, first = [], 0.0
    for name, path, meaning in PARTS:
        width = 1000 * min(record.get(path, 0.0) / record["elapsed_s"], 1.0)
        if (time := source.time(path)) is not None:
            found.append(Part(name, time, source.share(path, "elapsed_s"), meaning, round(first, 1), round(width, 1)))
        first += width
    return found


def _host(source: Source, record: dict[str, Any]) -> list[Part]:
    if not has_times(record) or not record["host_s"]:
        return []
    return [
        Part(name, time, source.share(f"host.{path}", "elapsed_s"), meaning)
        for name, path, meaning in HOST
        if (time := source.time(f"host.{path}")) is not None and time.value > 0
    ]


def _waits(source: Source, record: dict[str, Any]) -> list[Wait]:
    return [
        Wait(wait_phrases.phrase(entry, record), time, source.time(f"held.{number}.cost_s"), count)
        for number, entry in enumerate(record.get("wait_reasons", []))
        if (time := source.time(f"held.{number}.total_s"))
        and time.value > 0
        and (count := source.count(f"held.{number}.count"))
    ]


def _delays(source: Source, record: dict[str, Any]) -> list[Wait]:
    return [
        Wait(f"kernels of {wait_phrases.who(entry, record)}", time, None, count)
        for number, entry in enumerate(record.get("delays", []))
        if (time := source.time(f"delayed.{number}.total_s"))
        and time.value > 0
        and (count := source.count(f"delayed.{number}.count"))
    ]


def _memory(source: Source) -> list[tuple[str, Figure]]:
    """The most that it held, what it may have, what the GPU has, and requests that were refused."""
    allowed = "allowed (--fikit-mem and --fikit-mem-host)" if source.at("memory.moved") else "allowed (--fikit-mem)"
    rows = (
        ("most held at a time", source.size("memory.peak_bytes")), (allowed, source.size("memory.limit_bytes")),
        ("the GPU has", source.size("device.memory_bytes")), ("requests beyond it", source.count("memory.refused")),
        ("of it may lie on the host", source.size("memory.moved.host_limit_bytes")), ("most on the GPU at a time", source.size("memory.moved.resident_peak_bytes")),
        ("moved to the GPU ahead of need", source.size("memory.moved.in_bytes")), ("moved away", source.size("memory.moved.out_bytes")),
        ("turns on the GPU", source.count("memory.moved.turns")), ("waited for moves", source.time("memory.moved.moving_s")),
        ("missed when its work went on", source.size("memory.moved.missed_bytes")), ("moves that the driver refused", source.count("memory.moved.failures")),
        ("had on the GPU by its plan", source.size("memory.plan.budget_bytes")), ("of what it needs, by its plan", source.size("memory.plan.peak_bytes")),
        ("moved a pass by its plan", source.size("memory.plan.moved_bytes_per_pass")), ("passes by its plan", source.count("memory.plan.passes")),
        ("moves of its plan that were too late", source.count("memory.plan.skipped")),
    )  # fmt: skip
    return [(name, figure) for name, figure in rows if figure is not None] if source.at("memory") else []


def _memory_story(source: Source, record: dict[str, Any]) -> MemoryStory | None:
    """Where its memory lay over time, by the looks that its report has."""
    history = source.at("memory.moved.history") or []
    drawn = memory_picture.of(history, record.get("elapsed_s") or 0.0, source.at("device.memory_bytes"))
    resident, moved = (
        source.size("memory.moved.resident_peak_bytes"),
        source.total("memory.moved.in_bytes", "memory.moved.out_bytes"),
    )
    turns = source.count("memory.moved.turns")
    if drawn is None or resident is None or moved is None or turns is None:
        return None
    rows = [
        MemoryRow("partner", "on the GPU, of all jobs under fikit", None, timeline.path([round(each, 3) for each in drawn.all_jobs], 20)),
        MemoryRow("own", "on the GPU, of this job", resident, timeline.path([round(each, 3) for each in drawn.own], 20)),
        MemoryRow("waited", "moved between GPU and host", moved, timeline.path([round(each, 3) for each in drawn.moved], 20)),
        MemoryRow("alone", "turns that began", turns, timeline.path(drawn.granted, 20)),
    ]  # fmt: skip
    ticks = [units.duration(drawn.seconds * number / (TICKS - 1)) for number in range(TICKS)]
    return MemoryStory(rows, units.gibibytes(drawn.whole_bytes), ticks)


def _memory_whole(source: Source) -> str:
    return "memory.limit_bytes" if source.at("memory.limit_bytes") else "device.memory_bytes"


def _memory_of(source: Source) -> str:
    if not source.at("memory.limit_bytes"):
        return "of the GPU's"
    host = " and --fikit-mem-host" if source.at("memory.moved") else ""
    return f"of what it may have (--fikit-mem{host})"


def _picture(drawn: Timeline, run: TypedReport) -> Picture:
    notes = [
        *([f"{units.count(drawn.lost)} earlier events are not in the trace, which has the newest ones"] if drawn.lost else []),
        *([_not_drawn(drawn.unknown)] if drawn.unknown else []),
    ]  # fmt: skip
    return Picture(drawn.gpu, [_row(lane, drawn, run) for lane in drawn.lanes],
                   [units.duration(drawn.seconds * number / (TICKS - 1)) for number in range(TICKS)], notes)  # fmt: skip


def _row(lane: Lane, drawn: Timeline, run: TypedReport) -> Row:
    level = "" if lane.priority is None else f" ({priorities.name(lane.priority)})"
    who = "another job" if lane.job is None else "this job" if lane.job == run.job else f"job {lane.job}"
    name = {
        "own": "kernels of this job", "partner": f"kernels of {who}{level}", "waited": f"waited: {who}{level}",
        "delayed": f"delayed: kernels of {who}{level}", "memory": "waited: the memory of other jobs had its turn",
    }[lane.kind]  # fmt: skip
    if lane.kind == "waited" and lane.job == run.job:
        name = "waited: its own earlier work"
    share = lane.seconds / drawn.seconds
    return Row(
        "waited" if lane.kind == "memory" else lane.kind, name, Figure(lane.seconds, units.duration(lane.seconds), "trace:"), Figure(share, units.share(share), "trace:"),
        timeline.path([round(each, 2) for each in lane.shares], 10),
    )  # fmt: skip


def _kernels(profile: Record) -> list[Kernel]:
    """Those that take most of the GPU's time first."""
    source = Source(profile, "profile:")
    order = sorted(range(len(profile["kernels"])), key=lambda number: -profile["kernels"][number]["total_ns"])
    whole = sum(kernel["total_ns"] for kernel in profile["kernels"])
    return [_kernel(source, number, profile["kernels"][number], whole) for number in order]


def _kernel(source: Source, number: int, kernel: Record, whole: float) -> Kernel:
    def of_it(key: str) -> Figure:
        return source.nanos(f"kernels.{number}.{key}") or Figure(0.0, "-", "")

    return Kernel(
        kernel["name"], f"{'x'.join(map(str, kernel['grid']))} × {'x'.join(map(str, kernel['block']))}",
        source.count(f"kernels.{number}.count") or Figure(0.0, "0", ""), of_it("mean_ns"), of_it("p99_ns"), of_it("total_ns"),
        round(100 * kernel["total_ns"] / whole, 1) if whole else 0.0,
        "timed doubtfully only" if kernel.get("doubtful") else "timed beside other jobs only" if kernel.get("beside") else "",
    )  # fmt: skip


def _not_drawn(launches: int) -> str:
    """Of kernels whose length nobody knows."""
    if launches == 1:
        return "1 launch of a kernel of unknown length is not drawn"
    return f"{units.count(launches)} launches of kernels of unknown length are not drawn"
