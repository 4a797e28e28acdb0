"""A report record with types: every unit is in its name, times are in seconds, sizes in bytes, ratios and shares plain numbers.

What the fields mean is docs/design/contracts.md, "Report records". None is what nobody knows, also because a fikit of before did not say it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, cast

from fikitd.api.memory_story import MemoryPlan
from fikitd.api.reports import has_times, place_of, summary_line

State = Literal["running", "ended"]
DeviceMode = Literal["slices", "mps", "other-mps", "mixed"]


@dataclass(frozen=True, slots=True)
class Device:
    """The GPU of a job."""

    name: str
    uuid: str | None
    memory_bytes: int | None
    emulated: bool


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits at the gate, of all the job's programs: one after the other or at once, so `total_s` may be more than `waited_s`."""

    count: int
    total_s: float
    mean_us: float
    p99_us: float


@dataclass(frozen=True, slots=True)
class WaitReason:
    """What a part of the waiting was for. `job`: who was waited for; None: not known any more. `kernel`, `p90_us`: the job's own
    kernel, where its length was the reason. `cost_s`: of `total_s`, what it cost of the job's elapsed time.
    """

    reason: str
    job: str | None
    priority: int | None
    kernel: str
    p90_us: float | None
    total_s: float
    cost_s: float | None
    count: int


@dataclass(frozen=True, slots=True)
class Delay:
    """For how long the job had work on the GPU while kernels of lower job `job` ran there."""

    job: str | None
    priority: int | None
    total_s: float
    count: int


@dataclass(frozen=True, slots=True)
class HostTime:
    """`host_s` of a report in parts: longer than by its profile to start, between launches, to end; and what no profile knows."""

    start_s: float
    late_s: float
    end_s: float
    unknown_s: float


@dataclass(frozen=True, slots=True)
class MemoryMoment:
    """From `t_s` of the job's elapsed time until the next one: the most GPU memory that was on the GPU of the job and of others there, and
    bytes moved and turns that it had had at its end."""

    t_s: float
    resident_bytes: int
    others_bytes: int
    moved_bytes: int
    turns: int


@dataclass(frozen=True, slots=True)
class MovedMemory:
    """What became of a job's memory that may lie on the host, as its shim says, which sees no page fault (docs/memory.md).

    host_limit_bytes: what may lie there. resident_peak_bytes: most on the GPU at a time, as looked at once a second; None where nobody looked.
    in_bytes, out_bytes: moved to the GPU and away ahead of need. missed_bytes: were to be there and were not when its work went on. moving_s:
    that its threads waited for moves. turns: times on the GPU. failures: moves that the driver refused.
    """

    host_limit_bytes: int
    resident_peak_bytes: int | None
    in_bytes: int
    out_bytes: int
    missed_bytes: int
    moving_s: float
    turns: int
    failures: int
    history: tuple[MemoryMoment, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """GPU memory: what the job may have (--fikit-mem; None: no limit of its own), had at most, and how many requests were beyond it."""

    limit_bytes: int | None
    peak_bytes: int
    refused: int
    moved: MovedMemory | None = None
    """Of a job with memory on the host (--fikit-mem-host); else None."""
    plan: MemoryPlan | None = None
    """Of one that had less room than it needs, and moved its memory by a plan; else None."""


@dataclass(frozen=True, slots=True)
class TypedReport:
    """What fikit did for one job.

    elapsed_s = alone_s + waited_s + delayed_s + host_s + suspended_s + unexplained_s (docs/elapsed.md); of a running job so far. `slowdown` is
    (elapsed_s - suspended_s) / alone_s, None where the sum does not support it, and `no_slowdown` says why. `max_slowdown`: what lower jobs may add, 0.05 for 5 %; `kept`:
    whether they kept to it.
    """

    job: str
    """Its own number at Slurm."""
    part: str
    """`12_3` of an array, `12+1` of a heterogeneous job; else empty."""
    name: str
    uid: int
    node: str
    state: State
    priority: int
    """0 is highest, 9 lowest."""
    priority_name: str
    measured: bool
    policy: str
    device: Device
    device_mode: DeviceMode | None
    started: datetime | None
    """With time zone; None where the report's is no moment."""
    ended: datetime | None
    processes: int
    unmanaged: int
    """Processes of the job that used the GPU around fikit."""
    kernels: int
    gpu_time_s: float | None
    gpu_time_at_most_s: float | None
    elapsed_s: float | None
    alone_s: float | None
    waited_s: float | None
    delayed_s: float | None
    host_s: float | None
    unexplained_s: float | None
    suspended_s: float | None
    """Its processes were stopped: `scontrol suspend`, a signal, a debugger."""
    pauses_s: float | None
    host: HostTime | None
    slowdown: float | None
    no_slowdown: str
    max_slowdown: float | None
    kept: bool | None
    kept_unknown: str
    waits: Waits
    wait_reasons: tuple[WaitReason, ...]
    delays: tuple[Delay, ...]
    memory: Memory | None
    profile_key: str
    warnings: tuple[str, ...]
    record: Mapping[str, Any] = field(repr=False, compare=False)
    """The whole record, as `fikit report --json` prints it: what has no field here is there. Not to be changed."""

    @property
    def summary(self) -> str:
        """One line, as at the end of the job's output."""
        return summary_line(dict(self.record))


def of(record: Mapping[str, Any]) -> TypedReport:
    """Of a checked record (fikitd.api.report_format)."""
    timed = has_times(dict(record))
    known: Mapping[str, Any] = record if timed else {}
    times: dict[str, Any] = {key: known.get(key) for key in _TIMES}
    device, wait, memory = record["device"], record["wait"], record.get("memory")
    return TypedReport(
        **{key: record[key] for key in _SAME},
        **times,
        no_slowdown=known.get("no_slowdown", ""),
        kept_unknown=known.get("kept_unknown", ""),
        part=place_of(dict(record)),
        device=Device(device["name"], device.get("uuid"), device.get("memory_bytes"), device["emulated"]),
        device_mode=cast("DeviceMode | None", record.get("device_mode")),
        started=moment(record["started"]),
        ended=moment(record["ended"]),
        unmanaged=record.get("unmanaged", 0),
        gpu_time_at_most_s=record.get("gpu_time_at_most_s"),
        host=HostTime(**record["host"]) if timed else None,
        waits=Waits(**wait),
        wait_reasons=tuple(WaitReason(**{"cost_s": None, **each}) for each in record.get("wait_reasons", ())),
        delays=tuple(Delay(**each) for each in record.get("delays", ())),
        memory=_memory(memory) if memory else None,
        profile_key=record["profile"]["key"],
        warnings=tuple(record["warnings"]),
        record=record,
    )


def _memory(memory: Mapping[str, Any]) -> Memory:
    moved = memory.get("moved")
    if moved:
        moved = MovedMemory(**{**moved, "history": tuple(MemoryMoment(**each) for each in moved["history"])})
    plan = memory.get("plan")
    return Memory(**{**memory, "moved": moved, "plan": MemoryPlan(**plan) if plan else None})


_SAME = (
    "job", "name", "uid", "node", "state", "priority", "priority_name", "measured", "policy", "processes", "kernels", "gpu_time_s",
)  # fmt: skip
_TIMES = (
    "elapsed_s", "alone_s", "waited_s", "delayed_s", "host_s", "unexplained_s", "suspended_s", "pauses_s", "slowdown", "max_slowdown", "kept",
)  # fmt: skip


def moment(text: str | None) -> datetime | None:
    """A report's time; None for none, and for the 31st of February: a report is its user's file."""
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
