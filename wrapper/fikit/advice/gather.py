"""The facts of one job: from a batch script, or of a job in the queue."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path
from typing import Final

from fikitd.api.client import Control, ControlError, DaemonUnreachable
from fikitd.api.outcomes import name_key, recorded_name
from fikitd.base import priorities, quantities
from fikitd.config import fikit_toml
from fikitd.config.access import limits_of, rules_of
from fikitd.profiles.memory_history import MemoryHistory
from fikitd.profiles.profile_store import ProfileStore
from fikitd.store.records import JobRecord, RecordError

from fikit.advice import batches, known, script, slurm, words
from fikit.advice.facts import Facts, Gpu, Neighbour, Request
from fikit.advice.slurm import Queued
from fikit.errors import UserError
from fikit.site_paths import places
from fikit.slurm import config as slurm_config

GIB: Final = 2**30
MOST_RECORDS: Final = 4096
WAITING: Final = ("Resources", "Priority", "None")  # for its turn, and for nothing else


@dataclass(frozen=True)
class Cluster:
    """What Slurm says: settings, nodes of the job's partition, jobs, who has which GPU."""

    settings: Mapping[str, str]
    partition: str
    nodes: Sequence[Mapping[str, str]]
    jobs: Sequence[Queued]
    held: Mapping[str, Sequence[slurm.Held]]


def of_script(path: Path, deadline_s: float | None) -> Facts:
    """UserError: the script, or what it asks for, cannot be read; Slurm does not answer."""
    text = script.read(path)
    asked = script.with_environment(script.options(text), os.environ)
    cluster = look(asked.get("partition", ""))
    return facts(request_of(asked, path, cluster.partition), cluster, deadline_s, batches.in_script(text))


def of_job(job: str, deadline_s: float | None) -> Facts:
    """Of a job in the queue, by its own number. UserError: there is none, or it has no GPU."""
    jobs = slurm.queue()
    found = next((each for each in jobs if each.job == job), None)
    if found is None:
        raise UserError(
            f"job {job} neither waits nor runs, or Slurm does not show it to you: fikit-report {job} says what became of it"
        )
    cluster = look(",".join(found.partitions), jobs)
    return facts(_queued_request(found), cluster, deadline_s, None)


def look(partition: str, jobs: Sequence[Queued] | None = None) -> Cluster:
    told = slurm_config.ask(slurm_config.path())
    if told is None:
        raise UserError(
            "what runs on the cluster is not known: scontrol does not answer; use fikit advise where Slurm's commands work"
        )
    name, nodes = slurm.nodes_of(told.partitions, told.nodes, partition)
    queue = slurm.queue() if jobs is None else jobs
    return Cluster(told.settings, name, nodes, queue, slurm.held(queue))


def _begins_with(text: str, default: str) -> int:
    """The priority that is asked for; of a range (`auto`) the highest, with which the job begins. ValueError: it is neither."""
    if priorities.is_range(text):
        return priorities.parse_range(text, priorities.parse(default)).highest
    return priorities.parse(text)


def request_of(asked: Mapping[str, str], path: Path, partition: str) -> Request:
    """Of a batch script's options. UserError names one that is none."""
    site = fikit_toml.load().slurm
    try:
        limit_s = words.seconds(asked["time"]) if "time" in asked else inf
        priority = (
            _begins_with(asked["fikit-priority"], str(site.default_priority)) if "fikit-priority" in asked else None
        )
        mem = quantities.size(asked["fikit-mem"]) if "fikit-mem" in asked else None
        host = quantities.size(asked["fikit-mem-host"]) if "fikit-mem-host" in asked else 0
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    gpus = (
        "gpu:" + asked["gpus"] if asked.get("gpus") else asked.get("gpus-per-node") and "gpu:" + asked["gpus-per-node"]
    )
    kinds = words.gres(
        ",".join(
            filter(None, (asked.get("gres"), gpus, asked.get("gpus-per-task") and "gpu:" + asked["gpus-per-task"]))
        )
    )
    name = recorded_name(asked.get("job-name") or path.name)
    shards = sum(count for kind, _, count, _ in kinds if kind == "shard")
    own = {key: value for key, value in asked.items() if key.startswith("fikit-")}
    wished, source = _shards(mem, shards, asked.get("fikit-profile") or name, site)
    if not kinds and not own:
        raise UserError(f"{path} asks for no GPU: add #SBATCH --gres=gpu:1, and what fikit advise says holds")
    return Request(
        name=name, uid=os.getuid(), limit_s=limit_s, gpus=sum(count for kind, _, count, _ in kinds if kind == "gpu") or 1,
        type=next((type_ for _, type_, _, _ in kinds if type_), ""), shards=wished, shards_source=source, host_gib=ceil(host / GIB),
        shares=bool(shards or own.keys() - {"fikit-measure"}) and "fikit-measure" not in own, priority=priority, partition=partition,
        script=str(path), nodes=frozenset(slurm_config.names_of(asked["nodelist"])) if asked.get("nodelist") else frozenset(),
        options=tuple(f"--{key}" for key in own),
    )  # fmt: skip


def _shards(mem: int | None, shards: int, name: str, site: fikit_toml.SlurmConfig) -> tuple[int, str]:
    """As slurmctld's Lua (fikit_request.lua): what the job says, else a tenth more than its like needed, else the site's default."""
    if mem is not None:
        return max(ceil(mem / GIB), 1), "asked"
    if shards:
        return shards, "asked"
    peaks = (
        [
            peak
            for place in places()
            for peak in MemoryHistory(ProfileStore(place.profile_dir)).of(os.getuid(), name).values()
        ]
        if name
        else []
    )
    if peaks:
        return min(max(ceil(1.1 * max(peaks) / GIB), 1), site.gpu_memory_gib), "peak"
    return min(site.default_share_gib, site.gpu_memory_gib), "default"


def _queued_request(job: Queued) -> Request:
    if not job.kinds:
        raise UserError(f"job {job.job} asks for no GPU")
    shares = job.shards > 0
    return Request(
        name=job.name, uid=job.uid, limit_s=job.limit_s, gpus=job.gpus or 1, type=next((type_ for _, type_, _ in job.kinds if type_), ""),
        shards=job.shards or fikit_toml.load().slurm.default_share_gib, shards_source="asked" if shares else "default", shares=shares,
        partition=",".join(job.partitions), job=job.job, elapsed_s=job.elapsed_s if job.runs else 0.0, running=job.runs, nodes=frozenset(job.nodes),
    )  # fmt: skip


def facts(request: Request, cluster: Cluster, deadline_s: float | None, batch: int | None) -> Facts:
    if request.gpus > 1:
        raise UserError(
            f"the job asks for {request.gpus} GPUs, and only jobs of one GPU share it: there is nothing to choose"
        )
    runs = known.runs(cluster.settings)
    profiles = known.OwnProfiles(request.uid) if request.uid == os.getuid() else None
    levels = _priorities()
    gpus, notes = _gpus(cluster, request, Sources(runs, profiles, levels))
    before = [job for job in cluster.jobs if _is_before(job, request, cluster)]
    site = fikit_toml.load()
    own = next((job for job in cluster.jobs if job.job == request.job), None)
    if request.job in levels:
        request = replace(request, priority=levels[request.job])
    return Facts(
        request=request, expected=runs.expectation(request.uid, request.name, request.elapsed_s, request.limit_s),
        busy=runs.busy(request.uid, request.name), known=runs.history.known(request.uid, request.name), gpus=gpus,
        runs_s=tuple(runs.history.runs_s(request.uid, request.name)), ahead_whole=sum(not job.shards for job in before),
        ahead_shared=sum(job.shards > 0 for job in before), default_priority=priorities.parse(str(site.slurm.default_priority)),
        hidden="jobs" in slurm_config.words_of(cluster.settings.get("privatedata", "")) and os.geteuid() != 0, highest=highest(site.access, request.partition),
        mps=site.gpu.mps != "off", slurm_start_s=None if own is None or own.runs or own.start is None else max(own.start - time.time(), 0.0),
        deadline_s=deadline_s, burst=profiles.burst(request.name) if profiles and deadline_s is not None else None,
        batches=profiles.batches(request.name) if profiles else (), wanted_batch=batch, pairs=runs.pairs, notes=(*notes, *_whence(runs)),
    )  # fmt: skip


def _whence(runs: known.Runs) -> tuple[str, ...]:
    return (f"runs known from {' and '.join(runs.sources)}",) if runs.sources else ("no earlier run is known here",)


def _is_before(job: Queued, request: Request, cluster: Cluster) -> bool:
    """Whether it waits for a GPU of these partitions, and only for its turn, before ours."""
    waits = job.state == "PENDING" and bool(job.kinds) and job.reason in WAITING and job.job != request.job
    if not waits or set(job.partitions).isdisjoint(cluster.partition.split(",")):
        return False
    own = next((each.priority for each in cluster.jobs if each.job == request.job), None)
    return own is None or job.priority > own


@dataclass(frozen=True)
class Sources:
    """What is known of jobs. profiles: the caller's own. levels: priorities of this node's jobs."""

    runs: known.Runs
    profiles: known.OwnProfiles | None
    levels: Mapping[str, int]

    def neighbour(self, job: Queued, whole: bool, shards: int) -> Neighbour:
        mine = self.profiles is not None and job.uid == os.getuid()
        known = self.runs.history.known(job.uid, job.name)
        return Neighbour(
            job=job.job, peak_bytes=known.peak_bytes if known else None, uid=job.uid, shards=shards, expected=self.runs.expectation(job.uid, job.name, job.elapsed_s, job.limit_s),
            busy=self.runs.busy(job.uid, job.name), priority=self.levels.get(job.job), whole=whole,
            name=name_key(job.name), longest_kernel_s=self.profiles.longest_kernel_s(job.name) if mine and self.profiles else None,
        )  # fmt: skip


def _gpus(cluster: Cluster, request: Request, sources: Sources) -> tuple[tuple[Gpu, ...], list[str]]:
    """Every GPU of the nodes, with who is there; and what is not known of it, in words."""
    there: dict[tuple[str, int], list[Neighbour]] = {}
    lost = []
    for job in cluster.jobs:
        if not job.runs or not job.kinds or job.job == request.job:
            continue
        if not cluster.held.get(job.job):
            lost.append(job.job)
        for node, index, kind, shards in cluster.held.get(job.job, ()):
            there.setdefault((node, index), []).append(sources.neighbour(job, kind == "gpu", shards))
    found = [
        Gpu(name, index, type_, shards, tuple(there.get((name, index), ())))
        for node in cluster.nodes for name in slurm_config.names_of(node.get("nodename", ""))
        for index, (type_, shards) in enumerate(slurm.gpus_of(node))
    ]  # fmt: skip
    if request.job and cluster.held.get(request.job):
        mine = {(node, index) for node, index, _, _ in cluster.held[request.job]}
        found = [gpu for gpu in found if (gpu.node, gpu.index) in mine]
    return tuple(found), [f"which GPU is job {', '.join(lost[:5])}'s is not known: it is left out"] if lost else []


def _priorities() -> dict[str, int]:
    """Of the jobs of this node, by their records and its fikitd, which knows later changes; elsewhere nobody says them."""
    found: dict[str, int] = {}
    for place in places():
        for path in sorted((place.run_dir / "jobs").glob("[0-9]*"))[:MOST_RECORDS]:
            with suppress(OSError, RecordError):
                found.setdefault(path.name, JobRecord.read(path).priority)
        with suppress(DaemonUnreachable, ControlError):
            found.update({client["job"]: client["priority"] for client in Control(place.run_dir).node()["clients"]})
    return found


def highest(section: fikit_toml.AccessConfig, partition: str) -> int:
    """The highest priority that the site lets a job of the caller's have there; rules about groups, accounts and QOS may say less."""
    who = {"partition": partition.split(",")}
    for rule in rules_of(section):
        if rule.fits(who):
            return rule.limits.highest_priority
    return limits_of(section).highest_priority
