"""Who uses this node's GPUs now: two looks at its fikitd, and their difference with types (as `fikit top --json`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast

from fikitd.api.client import Control, ControlError, DaemonUnreachable

from fikit.api import node_use
from fikit.api.job_report import DeviceMode
from fikit.errors import NoDaemon, UserError
from fikit.site_paths import places

LONGEST_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class GpuJob:
    """A job on a GPU. Shares are of the time between the looks; None is what nobody knows, or what is another user's own.

    device_share: device time of what it launched. waited_share, delayed_share, host_share, unexplained_share: of its elapsed time. slowdown: so
    far, and of it max_slowdown is allowed (0.05 for 5 %).
    """

    job: str
    uid: int
    priority: int
    """0 is highest, 9 lowest."""
    priority_name: str
    device_share: float | None
    own: bool
    """Whether the caller may see what follows: it is the caller's job, or the caller is root."""
    name: str | None
    pids: tuple[int, ...]
    waited_share: float | None
    delayed_share: float | None
    host_share: float | None
    unexplained_share: float | None
    elapsed_s: float | None
    slowdown: float | None
    max_slowdown: float | None
    launches_per_s: float | None
    others_kernels_per_s: float | None
    memory_bytes: int | None
    memory_limit_bytes: int | None
    memory_on_gpu_bytes: int | None
    """Of a job that may have memory on the host (--fikit-mem-host); else None."""
    plan_budget_bytes: int | None
    plan_peak_bytes: int | None
    plan_longer_share: float | None
    """By the plan of its memory so much of what its iteration touches is on the GPU, and so much longer the iteration is expected to take; None: it has
    no plan now, or a fikitd of before did not say the last one."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that jobs share, or that programs use around fikit (`unmanaged_pids`). harvest: what lower jobs had of the time that the
    highest left; switch_us: how long the GPU takes to go to another process, as measured on it.
    """

    uuid: str
    name: str
    memory_bytes: int | None
    emulated: bool
    device_mode: DeviceMode | None
    device_share: float | None
    harvest: float | None
    switch_us: float | None
    jobs: tuple[GpuJob, ...]
    """The highest priority first."""
    unmanaged_pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """This node, between two looks `interval_s` apart."""

    node: str
    policy: str
    interval_s: float
    gpus: tuple[Gpu, ...]
    record: Mapping[str, Any] = field(repr=False, compare=False)
    """As `fikit top --json` prints it. Not to be changed."""


def node(interval_s: float = 1.0) -> Node:
    """What happens on this node's GPUs for `interval_s` (0 to 60; 0 has no shares) from now on. NoDaemon: no fikitd answers; the first job
    that shares a GPU starts it.
    """
    if not 0 <= interval_s <= LONGEST_S:
        raise UserError(f"nobody looks for {interval_s} s; use 0 to {LONGEST_S:.0f}")
    control, before = first_look()
    time.sleep(interval_s)
    use = node_use.between(before, look(control))
    return of({"time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", **use})


def first_look() -> tuple[Control, dict[str, Any]]:
    """The fikitd of the machine, or else the user's own; the one that has jobs, if only one has; and what it says."""
    sentences, idle = [], None
    for place in places():
        control = Control(place.run_dir)
        try:
            seen = control.node()
        except ControlError as error:
            raise UserError(str(error)) from None
        except DaemonUnreachable as error:
            sentences.append(str(error))
            continue
        if seen["clients"]:
            return control, seen
        idle = idle or (control, seen)
    if idle is not None:
        return idle
    raise NoDaemon(f"{sentences[0]} (the first job that shares a GPU starts it)")


def look(control: Control) -> dict[str, Any]:
    """What it says now. UserError: it does not answer any more."""
    try:
        return control.node()
    except DaemonUnreachable as error:
        raise NoDaemon(str(error)) from None
    except ControlError as error:
        raise UserError(str(error)) from None


def of(use: Mapping[str, Any]) -> Node:
    """Of what fikit.api.node_use.between() found."""
    return Node(use["node"], use["policy"], use["elapsed_s"], tuple(map(_gpu, use["gpus"])), use)


def _gpu(gpu: Mapping[str, Any]) -> Gpu:
    switch = gpu.get("switch")
    return Gpu(
        gpu["uuid"], gpu["name"], gpu["memory_bytes"], gpu["emulated"], cast("DeviceMode | None", gpu["device_mode"]),
        gpu["device_share"], gpu["harvest"], None if switch is None else switch["switch_us"],
        tuple(map(_job, gpu["jobs"])), tuple(gpu["unmanaged"]),
    )  # fmt: skip


def _job(job: Mapping[str, Any]) -> GpuJob:
    shares, so_far, plan = job.get("shares") or {}, job.get("job_time") or {}, job.get("memory_plan") or {}
    return GpuJob(
        job=job["job"],
        uid=job["uid"],
        priority=job["priority"],
        priority_name=job["priority_name"],
        device_share=job["device_share"],
        own="pids" in job,
        name=job.get("name"),
        pids=tuple(job.get("pids", ())),
        waited_share=shares.get("waited"),
        delayed_share=shares.get("delayed"),
        host_share=shares.get("host"),
        unexplained_share=shares.get("unexplained"),
        elapsed_s=so_far.get("elapsed_s"),
        slowdown=so_far.get("slowdown"),
        max_slowdown=so_far.get("max_slowdown"),
        launches_per_s=job.get("launches_per_s"),
        others_kernels_per_s=job.get("others_kernels_per_s"),
        memory_bytes=job.get("memory_bytes"),
        memory_limit_bytes=job.get("memory_limit_bytes"),
        memory_on_gpu_bytes=job.get("memory_on_gpu_bytes"),
        plan_budget_bytes=plan.get("budget_bytes"),
        plan_peak_bytes=plan.get("peak_bytes"),
        plan_longer_share=plan.get("expected_loss"),
    )
