"""Every node with GPUs: what Slurm says of it, and what its fikitd wrote last. Pure.

What a node's fikitd says goes before what Slurm says: it knows shares and priorities. A node that does not write has Slurm's words alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fikitd.api import statuses
from fikitd.api.status_format import COUNTS

from fikit.advice import slurm
from fikit.advice.slurm import Queued
from fikit.slurm import config as slurm_config

IDLE: Final = 0.2  # who has a GPU alone and keeps it less busy would share it
DAY_S: Final = 86_400


@dataclass(frozen=True)
class Job:
    """A job on a GPU. priority None: it has the GPU alone. share: of the GPU's time lately. name "": Slurm does not show it to the caller.

    slowdown: elapsed against alone so far; max_slowdown: 0.05 where 5 % are allowed. None: not known.
    """

    job: str
    uid: int
    name: str = ""
    priority: int | None = None
    share: float | None = None
    slowdown: float | None = None
    max_slowdown: float | None = None


@dataclass(frozen=True)
class Gpu:
    """use: of its time lately, 0 to 1; by_nvml: by NVML's word. told: whether the node's fikitd says anything of it.

    index None: nobody says which of the node's it is. unmanaged: processes around fikit. harvest_s: what lower jobs had of it since midnight.
    """

    index: int | None
    name: str
    uuid: str = ""
    emulated: bool = False
    memory_bytes: int | None = None
    held_bytes: int | None = None
    use: float | None = None
    by_nvml: bool = False
    unmanaged: int = 0
    harvest_s: float = 0.0
    jobs: tuple[Job, ...] = ()
    told: bool = True

    @property
    def shared(self) -> bool:
        return any(job.priority is not None for job in self.jobs)

    @property
    def alone(self) -> bool:
        return bool(self.jobs) and not self.shared

    @property
    def would_share(self) -> bool:
        """A job has it alone and leaves most of it idle."""
        return self.alone and self.use is not None and self.use < IDLE


@dataclass(frozen=True)
class Broken:
    """A job that lower ones slowed down today by more than they may."""

    job: str
    uid: int
    priority: int
    slowdown: float | None
    max_slowdown: float | None
    ended_s: int


@dataclass(frozen=True)
class Node:
    """state: Slurm's, "" for a node that Slurm does not know. age_s: since its fikitd wrote, None: it never did. late: it should have written again.

    elsewhere: jobs that have a GPU of the node by Slurm's word, and of which nobody says which one. today: by status_format.COUNTS; {}: not known.
    """

    node: str
    state: str
    gpus: tuple[Gpu, ...]
    elsewhere: tuple[Job, ...] = ()
    age_s: float | None = None
    late: bool = False
    today: Mapping[str, float] | None = None
    broken: tuple[Broken, ...] = ()

    @property
    def harvest_s(self) -> float:
        return (self.today or {}).get("harvest_s", 0.0)

    @property
    def exceeded(self) -> int:
        return round((self.today or {}).get("exceeded", 0.0))


@dataclass(frozen=True)
class Totals:
    """Numbers of nodes and GPUs now; sums of today (seconds, jobs). silent: nodes whose fikitd never wrote; unknown_gpus: of which nobody says who has them.

    would_share: GPUs that a job has alone and keeps less than a fifth busy; watched: GPUs with one job alone of which that is known.
    """

    nodes: int
    late: int
    silent: int
    gpus: int
    shared: int
    alone: int
    watched: int
    would_share: int
    idle: int
    unknown_gpus: int
    today: Mapping[str, float]


@dataclass(frozen=True)
class Cluster:
    """refused: status files that are not believed, with why. notes: what is not known, in words."""

    nodes: tuple[Node, ...]
    refused: Mapping[str, str]
    notes: tuple[str, ...] = ()


def of(lines: Sequence[Mapping[str, str]], jobs: Iterable[Queued], told: statuses.Statuses, now_s: float) -> Cluster:
    """lines: of `scontrol --oneliner show node`, by their keys in lower case; jobs: of squeue."""
    running: dict[str, list[Queued]] = defaultdict(list)
    known = {}
    for job in jobs:
        known[job.job] = job
        if job.runs and job.kinds:
            for name in job.nodes:
                running[name].append(job)
    left = dict(told.by_node)
    nodes = []
    for line in lines:
        for name in slurm_config.names_of(line.get("nodename", "")):
            host = line.get("nodehostname", name).partition(".")[0].lower()
            status = left.pop(name.lower(), None) or left.pop(host, None)
            if slurm.gpus_of(line) or status is not None:
                nodes.append(_node(name, line, status, now_s, jobs=(running[name], known)))
    nodes += [_node(name, {}, status, now_s, jobs=([], known)) for name, status in left.items()]
    return Cluster(tuple(sorted(nodes, key=lambda node: _natural(node.node))), told.refused)


def totals(nodes: Iterable[Node]) -> Totals:
    nodes = list(nodes)
    gpus = [gpu for node in nodes for gpu in node.gpus]
    # A job that is on one of a node's GPUs, nobody says which: none of that node's others is idle for certain.
    unknown = sum(sum(not gpu.told for gpu in node.gpus) for node in nodes)
    return Totals(
        nodes=len(nodes), late=sum(node.late for node in nodes), silent=sum(node.age_s is None for node in nodes), gpus=len(gpus),
        shared=sum(gpu.shared for gpu in gpus), alone=sum(gpu.alone for gpu in gpus),
        watched=sum(gpu.alone and gpu.use is not None for gpu in gpus), would_share=sum(gpu.would_share for gpu in gpus),
        idle=sum(gpu.told and not gpu.jobs for gpu in gpus), unknown_gpus=unknown,
        today={count: sum((node.today or {}).get(count, 0.0) for node in nodes) for count in COUNTS},
    )  # fmt: skip


def _node(
    name: str, line: Mapping[str, str], status: Mapping[str, Any] | None, now_s: float,
    *, jobs: tuple[Sequence[Queued], Mapping[str, Queued]],
) -> Node:  # fmt: skip
    """jobs: those that run there, and all that Slurm shows, by their numbers."""
    running, known = jobs
    late = status is not None and statuses.is_late(dict(status), now_s)
    found = [] if status is None or late else [_gpu(gpu, known) for gpu in status["gpus"]]
    gpus = tuple(
        sorted((*found, *_further(slurm.gpus_of(line), found)), key=lambda gpu: (gpu.index is None, gpu.index or 0))
    )
    placed = {job.job for gpu in gpus for job in gpu.jobs}
    elsewhere = tuple(
        Job(job.job, job.uid, job.name) for job in running if job.job not in placed and (job.gpus or job.shards)
    )
    if elsewhere:  # each of the others may be theirs
        gpus = tuple(gpu if gpu.jobs else replace(gpu, told=False) for gpu in gpus)
    today = None if status is None or now_s - status["today"]["since_s"] >= DAY_S else status["today"]
    return Node(
        node=name, state=line.get("state", "").lower(), gpus=gpus, elsewhere=elsewhere,
        age_s=None if status is None else max(now_s - status["written_s"], 0.0), late=late, today=today and {count: today[count] for count in COUNTS},
        broken=() if status is None or today is None else tuple(Broken(**each) for each in status["broken"]),
    )  # fmt: skip


def _gpu(gpu: Mapping[str, Any], known: Mapping[str, Queued]) -> Gpu:
    jobs = tuple(Job(**job, name=known[job["job"]].name if job["job"] in known else "") for job in gpu["jobs"])
    return Gpu(**{**gpu, "jobs": jobs})


def _further(slurms: Sequence[tuple[str, int]], found: Sequence[Gpu]) -> list[Gpu]:
    """GPUs of which only Slurm tells: by their numbers where fikitd says numbers, else as many as are missing."""
    taken = {gpu.index for gpu in found}
    rest = [
        Gpu(index if None not in taken else None, type_ or "GPU", told=False)
        for index, (type_, _) in enumerate(slurms)
        if index not in taken
    ]
    return rest[: max(len(slurms) - len(found), 0)]


def _natural(name: str) -> tuple[Any, ...]:
    """n2 before n10."""
    parts: list[Any] = []
    for part in _split(name):
        parts.append((0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part))
    return tuple(parts)


def _split(name: str) -> list[str]:
    found, last = [""], False
    for char in name:
        digit = char.isdecimal() and char.isascii()
        if digit != last and found[-1]:
            found.append("")
        found[-1] += char
        last = digit
    return found
