"""What runs on which GPU, by squeue's and scontrol's answers; nothing is changed.

A job's name is its user's and may hold anything, line breaks too. So squeue is asked for fields that end in a separator which nobody can know
beforehand. Which GPU a job has, only `squeue --json` and `scontrol show job` say: the first is believed; the second, which would believe a
job's name or comment that looks like it, only where it says one thing.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from fikitd.api.outcomes import recorded_name

from fikit.advice import words
from fikit.errors import UserError
from fikit.slurm import config as slurm_config
from fikit.slurm import versions as slurm_versions

ANSWER_S: Final = 10.0
MOST_JOBS: Final = 100_000
MOST_ASKED_ALONE: Final = 64
FIELDS: Final = ("%A", "%U", "%T", "%P", "%M", "%l", "%S", "%N", "%b", "%r", "%p", "%j")
UNUSABLE: Final = ("DOWN", "DRAIN", "FAIL", "MAINT", "NOT_RESPONDING", "POWERING_DOWN", "FUTURE", "UNKNOWN")
_DEVICES: Final = re.compile(r"Nodes=\S+ CPU_IDs=\S* Mem=\d+ GRES=(\S*)")


@dataclass(frozen=True)
class Queued:
    """A job that waits or runs. kinds: what it asks for on each node: (kind, type, count). start: when it began, or Slurm expects it to, seconds
    since 1970; None: nobody said."""

    job: str
    uid: int
    name: str
    state: str
    partitions: tuple[str, ...]
    elapsed_s: float
    limit_s: float
    start: float | None
    nodes: tuple[str, ...]
    kinds: tuple[tuple[str, str, int], ...]
    reason: str
    priority: float

    @property
    def runs(self) -> bool:
        return self.state in ("RUNNING", "SUSPENDED", "COMPLETING")

    @property
    def shards(self) -> int:
        return sum(count for kind, _, count in self.kinds if kind == "shard")

    @property
    def gpus(self) -> int:
        return sum(count for kind, _, count in self.kinds if kind == "gpu")


Held = tuple[str, int, str, int]
"""A part of a job's: node, index of the GPU, "gpu" or "shard", how many shards."""


def answer(*command: str) -> str:
    """What one of Slurm's commands prints. UserError where it does not."""
    program = shutil.which(command[0], path=slurm_versions.SYSTEM_PATH)
    if program is None:
        raise UserError(
            f"what runs on the cluster is not known: there is no {command[0]} here; use fikit advise where Slurm's commands are"
        )
    try:
        done = subprocess.run(
            [program, *command[1:]], env={**os.environ, "SLURM_TIME_FORMAT": "%s"}, capture_output=True, check=False, timeout=ANSWER_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        raise UserError(
            f"what runs on the cluster is not known: {command[0]} did not answer within {ANSWER_S:g} s; try again"
        ) from None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it failed"]
        why = re.sub(rf"^({re.escape(command[0])}: )?((fatal|error): )?", "", lines[-1])
        raise UserError(f"what runs on the cluster is not known: {command[0]}: {why}")
    return done.stdout.decode(errors="surrogateescape")


def queue() -> list[Queued]:
    """Every job that waits or runs and that the caller may see. UserError: squeue does not say."""
    separator = f"<{secrets.token_hex(12)}>"
    return parsed(
        answer(
            "squeue", "--noheader", "--states=all", f"--format={''.join(f'{field}{separator}' for field in FIELDS)}"
        ),
        separator,
    )


def parsed(text: str, separator: str) -> list[Queued]:
    """squeue's answer; a job of which a field is none of Slurm's is left out. UserError where the fields do not come out even."""
    *fields, rest = text.split(separator)
    if rest.strip() or len(fields) % len(FIELDS):
        raise UserError(
            "squeue's answer has another number of fields than it was asked for: use fikit advise with an unchanged squeue"
        )
    rows = (
        fields[first : first + len(FIELDS)]
        for first in range(0, min(len(fields), MOST_JOBS * len(FIELDS)), len(FIELDS))
    )
    return [
        job
        for row in rows
        if (job := _queued(row)) is not None and job.state not in ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT")
    ]


def _queued(row: Sequence[str]) -> Queued | None:
    job, uid, state, partitions, elapsed, limit, start, nodes, asked, reason, priority, name = row
    try:
        return Queued(
            job=str(int(job)), uid=int(uid), name=recorded_name(name), state=state, partitions=tuple(partitions.split(",")),
            elapsed_s=0.0 if elapsed.upper() in ("INVALID", "N/A") else words.seconds(elapsed), limit_s=words.seconds(limit),
            start=float(start) if start.isdecimal() and start.isascii() else None,
            nodes=tuple(slurm_config.names_of(nodes[:65536])) if nodes else (),
            kinds=tuple((kind, type_, count) for kind, type_, count, _ in words.gres(asked)), reason=reason, priority=float(priority),
        )  # fmt: skip
    except ValueError:
        return None


def held(jobs: Sequence[Queued]) -> dict[str, list[Held]]:
    """Which GPUs the jobs that run have, by job; a job of which that is not known, or not for sure, is left out."""
    running = [job for job in jobs if job.runs and job.kinds]
    try:
        documents = json.loads(answer("squeue", "--json", "--states=running,suspended,completing") or "{}")["jobs"]
        details = {
            str(each["job_id"]): each.get("gres_detail")
            for each in documents
            if isinstance(each, dict) and "job_id" in each
        }
    except (UserError, ValueError, KeyError, TypeError):  # a Slurm that was built without it
        details = {job.job: _by_scontrol(job) for job in running[:MOST_ASKED_ALONE]}
    return {job.job: found for job in running if (found := devices(job, details.get(job.job)))}


def devices(job: Queued, details: Any) -> list[Held]:
    """Of `["shard:h200:4(IDX:0)"]`, for each of its nodes one; empty where it says something else."""
    if (
        not isinstance(details, list)
        or len(details) != len(job.nodes)
        or not all(isinstance(each, str) for each in details)
    ):
        return []
    found: list[Held] = []
    for node, text in zip(job.nodes, details, strict=True):
        for kind, _, count, where in words.gres(text):
            if where is None or not where:
                return []
            found += [(node, index, kind, -(-count // len(where)) if kind == "shard" else 0) for index in where]
    return found


def _by_scontrol(job: Queued) -> list[str]:
    try:
        return of_scontrol(answer("scontrol", "--details", "show", "job", job.job))
    except UserError:
        return []


def of_scontrol(text: str) -> list[str]:
    """What `scontrol --details show job N` says of the devices of a job with one node; nothing where it seems to say several things."""
    found = _DEVICES.findall(text)
    return found if len(found) == 1 else []


def nodes_of(
    partitions: Sequence[Mapping[str, str]], nodes: Sequence[Mapping[str, str]], wanted: str
) -> tuple[str, list[Mapping[str, str]]]:
    """The partitions' name (the default one for "") and its nodes that work. UserError: there is no such partition."""
    names = {line.get("partitionname", ""): line for line in partitions}
    chosen = [each for each in wanted.split(",") if each] or [
        name for name, line in names.items() if line.get("default", "").upper() == "YES"
    ][:1]
    for each in chosen:
        if each not in names:
            raise UserError(f'there is no partition "{each}": name one of {", ".join(sorted(names))}')
    usable = [
        line
        for line in nodes
        if not any(word in line.get("state", "UNKNOWN").upper() for word in UNUSABLE)
        and "*" not in line.get("state", "")
    ]
    inside = [
        line for line in usable if not chosen or not set(chosen).isdisjoint(line.get("partitions", "").split(","))
    ]
    return ",".join(chosen), inside


def gpus_of(node: Mapping[str, str]) -> list[tuple[str, int]]:
    """Of a node's line of scontrol, each GPU's type and shards, by index: those of one type one after the other, as Gres= has them."""
    counts: dict[str, int] = {}
    shards: dict[str, int] = {}
    for kind, type_, count, _ in words.gres(node.get("gres", "")):
        into = counts if kind == "gpu" else shards
        into[type_] = into.get(type_, 0) + count
    everywhere = shards.get("", 0) // max(sum(counts.values()), 1)
    return [
        (type_, shards[type_] // count if type_ and type_ in shards else everywhere)
        for type_, count in counts.items() for _ in range(min(count, 64))
    ]  # fmt: skip


def limit_left(job: Queued) -> float:
    return inf if job.limit_s == inf else max(job.limit_s - job.elapsed_s, 0.0)
