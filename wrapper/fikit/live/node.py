"""Every GPU of a node with whoever is on it, from what fikitd says and what NVML says. Pure.

What fikitd says goes before what NVML says: it knows shares and priorities. A GPU that only NVML knows is idle, or a job has it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fikit.stored.spans import LOWER_WORK, MEMORY

Record = Mapping[str, Any]

SORTS: Final = ("priority", "GPU", "waited", "slowdown", "memory", "name")


@dataclass(frozen=True)
class Job:
    """A job on a GPU. Shares are of the time between two looks; None: not known, or another user's. behind: whom it waits for most, "" for nobody."""

    job: str
    name: str
    uid: int
    priority: int
    priority_name: str
    device_share: float | None
    waited_share: float | None
    slowdown: float | None
    max_slowdown: float | None
    memory_bytes: int | None
    memory_limit_bytes: int | None
    memory_on_gpu_bytes: int | None
    plan_budget_bytes: int | None
    plan_peak_bytes: int | None
    plan_longer_share: float | None
    behind: str
    own: bool


@dataclass(frozen=True)
class Outside:
    """Somebody who uses a GPU without fikit: a job that has it alone, or a process around fikit. uid None: not known."""

    job: str | None
    uid: int | None
    pids: tuple[int, ...]


@dataclass(frozen=True)
class Gpu:
    """use, held_bytes, power_w: of the whole GPU; by_nvml: `use` is NVML's. shared: fikit has jobs on it."""

    uuid: str
    index: int | None
    name: str
    memory_bytes: int | None
    held_bytes: int | None
    use: float | None
    by_nvml: bool
    power_w: float | None
    device_mode: str | None
    harvest: float | None
    emulated: bool
    jobs: tuple[Job, ...]
    outside: tuple[Outside, ...]

    @property
    def shared(self) -> bool:
        return bool(self.jobs)


@dataclass(frozen=True)
class Node:
    name: str
    policy: str
    gpus: tuple[Gpu, ...]


def of(use: Record, behind: Mapping[str, str], seen: Sequence[Record]) -> Node:
    """use: as fikit.api.node_use.between gives it; behind: by job; seen: GPUs as NVML tells them."""
    by_uuid = {each["uuid"]: each for each in seen}
    shared = {gpu["uuid"]: gpu for gpu in use["gpus"]}
    found = [_gpu(gpu, by_uuid.get(uuid, {}), behind) for uuid, gpu in shared.items()]
    found += [_alone(each) for uuid, each in by_uuid.items() if uuid not in shared]
    return Node(
        use["node"], use["policy"], tuple(sorted(found, key=lambda gpu: (gpu.index is None, gpu.index or 0, gpu.uuid)))
    )


def _gpu(gpu: Record, seen: Record, behind: Mapping[str, str]) -> Gpu:
    known = gpu["device_share"] is not None and gpu["jobs"]
    owners = seen.get("owners", {})
    outside = [Outside(None, (owners.get(str(pid)) or {}).get("uid"), (pid,)) for pid in gpu["unmanaged"]]
    return Gpu(
        gpu["uuid"], seen.get("index"), gpu["name"] if gpu["name"] != gpu["uuid"] else seen.get("name", gpu["name"]),
        gpu["memory_bytes"] or seen.get("memory_bytes"), seen.get("held_bytes"), gpu["device_share"] if known else seen.get("use"),
        not known and seen.get("use") is not None, seen.get("power_w"), gpu["device_mode"], gpu["harvest"], gpu["emulated"],
        tuple(_job(job, behind) for job in gpu["jobs"]), tuple(outside),
    )  # fmt: skip


def _alone(seen: Record) -> Gpu:
    """One that fikit knows nothing of: processes by their job."""
    owners = seen.get("owners", {})
    jobs: dict[tuple[str | None, int | None], list[int]] = {}
    for pid in seen.get("processes", ()):
        owner = owners.get(str(pid)) or {}
        job = owner.get("job")
        jobs.setdefault((job, owner.get("uid")), []).append(pid)
    outside = tuple(Outside(job, uid, tuple(pids)) for (job, uid), pids in jobs.items())
    return Gpu(
        seen["uuid"], seen.get("index"), seen["name"], seen.get("memory_bytes"), seen.get("held_bytes"), seen.get("use"), seen.get("use") is not None,
        seen.get("power_w"), None, None, "emulated" in seen["name"].lower(), (), outside,
    )  # fmt: skip


def _job(job: Record, behind: Mapping[str, str]) -> Job:
    shares, so_far, plan = job.get("shares") or {}, job.get("job_time") or {}, job.get("memory_plan") or {}
    return Job(
        job["job"], job.get("name", ""), job["uid"], job["priority"], job["priority_name"], job["device_share"], shares.get("waited"),
        so_far.get("slowdown"), so_far.get("max_slowdown"), job.get("memory_bytes"), job.get("memory_limit_bytes"),
        job.get("memory_on_gpu_bytes"), plan.get("budget_bytes"), plan.get("peak_bytes"), plan.get("expected_loss"),
        behind.get(job["job"], ""), "pids" in job,
    )  # fmt: skip


def behind(before: Iterable[Record], after: Iterable[Record]) -> dict[str, str]:
    """By job, for whom it has waited longest since the report before: another job's number, "itself", "memory" for that of jobs
    that nobody names, or "?" for one that may not be known."""
    earlier = {
        (record["job"], *_key(entry)): entry["total_s"] for record in before for entry in record.get("wait_reasons", ())
    }
    found = {}
    for record in after:
        grown: dict[str, float] = {}
        for entry in record.get("wait_reasons", ()):
            more_s = entry["total_s"] - earlier.get((record["job"], *_key(entry)), 0.0)
            if more_s > 0 and entry["reason"] != LOWER_WORK:
                who = "itself" if entry["job"] == record["job"] else entry["job"] or "?"
                who = MEMORY if entry["reason"] == MEMORY else who
                grown[who] = grown.get(who, 0.0) + more_s
        if grown:
            found[record["job"]] = max(grown, key=lambda who: grown[who])
    return found


def _key(entry: Record) -> tuple[Any, ...]:
    return entry["reason"], entry["job"], entry["kernel"]


def ordered(jobs: Iterable[Job], by: str) -> list[Job]:
    """What is not known comes last."""
    if by == "priority":
        return sorted(jobs, key=lambda job: (job.priority, job.job))
    if by == "name":
        return sorted(jobs, key=lambda job: (job.name, job.job))
    return sorted(jobs, key=lambda job: ((value := _value(job, by)) is None, -(value or 0.0), job.job))


def _value(job: Job, by: str) -> float | None:
    return {
        "GPU": job.device_share, "waited": job.waited_share, "slowdown": job.slowdown, "memory": job.memory_bytes,
    }[by]  # fmt: skip
