"""A job as squeue shows it: what placement needs of it, and why the agent leaves it alone.

A job's name is its user's and may hold anything, line breaks and separators too. So each row begins with a mark that nobody can know
beforehand, the name is its last field, and lines without the mark are the rest of a name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

FIELDS: Final = ("A", "F", "i", "U", "T", "V", "S", "l", "E", "n", "x", "b", "D", "Q", "v", "P", "N", "r", "j")
"""squeue -o: number, array, shown number, uid, state, submitted, start, limit, dependency, nodes wanted and excluded, gres, nodes, priority,
reservation, partitions, nodes, reason, name."""
PENDING: Final = "PENDING"
RUNNING: Final = "RUNNING"
NOTHING: Final = {"", "(null)", "N/A", "NONE", "None"}
GATE_S: Final = 4.0
"""So long a job waits for the agent at most (fikit_gate.lua)."""

_SHARD: Final = re.compile(r"(?:gres[:/])?shard(?::([^:,=]+))?[:=](\d{1,9})", re.ASCII)
_WAITED_FOR: Final = re.compile(r"(?<![\d_])(\d{1,10})", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,10}", re.ASCII)
_TIME: Final = re.compile(r"(?:(?:(\d{1,6})-)?(\d{1,3}):)?(\d{1,7}):(\d{2})", re.ASCII)


@dataclass(frozen=True)
class Job:
    """number: by which scontrol knows it; of an array's waiting tasks, the array's. shown: as users write it. Times: seconds since 1970,
    start_s 0 where Slurm expects none yet; limit_s: of run time, infinity for none. shards: GiB of one GPU, 0 for a job that shares none; type: of that GPU, "" for any.
    partitions: it may run in. nodes: where it runs. dependency, wants: what it waits for and the nodes that it names, which may be the agent's
    doing; "" for none. alone: why the agent does not touch it whatever it did, as the end of a sentence; "" where it may."""

    number: int
    shown: str
    uid: int
    name: str
    state: str
    submit_s: float
    start_s: float = 0.0
    limit_s: float = inf
    shards: int = 0
    type: str = ""
    priority: int = 0
    partitions: frozenset[str] = frozenset()
    nodes: str = ""
    reason: str = ""
    dependency: str = ""
    wants: str = ""
    has_gpu: bool = False
    alone: str = ""

    @property
    def waits(self) -> bool:
        return self.state == PENDING

    @property
    def gated(self) -> bool:
        """Whether it waits for the moment that fikit's part of job_submit.lua gave it, so that the agent can look at it first."""
        return self.waits and self.reason == "BeginTime" and 0 < self.start_s - self.submit_s <= GATE_S + 1

    def depends(self, waits_for: Collection[int]) -> bool:
        """Whether it has a dependency, on others than these."""
        return bool(self.dependency) and not {int(number) for number in _WAITED_FOR.findall(self.dependency)} <= set(
            waits_for
        )

    def left_alone(self, waits_for: Collection[int] = (), node: str = "") -> str:
        """Why the agent does not touch it; waits_for, node: what it has set of it itself."""
        if self.depends(waits_for):
            return "it has a dependency of its own"
        if self.wants and self.wants != node:
            return "it names nodes"
        return self.alone


def squeue_format(mark: str) -> str:
    """For squeue -o; `mark` has to be new each time."""
    return f"{mark}|{'|'.join(f'%{field}' for field in FIELDS)}"


def parse(text: str, mark: str) -> list[Job]:
    """The jobs of an answer, one each; a row that is not as it should be is left out."""
    found: dict[str, Job] = {}
    for row in _rows(text, mark):
        job = _job(row)
        if job is not None:
            found[job.shown] = job
    return list(found.values())


def _rows(text: str, mark: str) -> Iterator[list[str]]:
    """Fields of each row."""
    for piece in text.split(f"{mark}|")[1:]:
        row = piece.split("|", len(FIELDS) - 1)
        if len(row) == len(FIELDS):
            row[-1] = row[-1].removesuffix("\n")
            yield row


def _job(row: list[str]) -> Job | None:
    fields = dict(zip(FIELDS, row, strict=True))
    numbers = [fields[key] for key in ("A", "U", "V", "D")]
    if not all(_NUMBER.fullmatch(number) for number in numbers):
        return None
    array, waits = fields["F"], fields["T"] == PENDING
    shard = _SHARD.fullmatch(fields["b"])
    priority = fields["Q"]
    job = Job(
        number=int(array) if waits and _NUMBER.fullmatch(array) else int(fields["A"]),
        shown=fields["i"],
        uid=int(fields["U"]),
        name=fields["j"],
        state=fields["T"],
        submit_s=float(fields["V"]),
        start_s=float(fields["S"]) if _NUMBER.fullmatch(fields["S"]) else 0.0,
        limit_s=limit_s(fields["l"]),
        shards=int(shard[2]) if shard else 0,
        type=(shard[1] or "") if shard else "",
        partitions=frozenset(fields["P"].split(",")),
        nodes=fields["N"],
        dependency="" if fields["E"] in NOTHING else fields["E"],
        wants=_wants(fields),
        has_gpu="gpu" in fields["b"] or "shard" in fields["b"],
        priority=int(priority) if _NUMBER.fullmatch(priority) else 0,
        reason=fields["r"],
        alone=_alone(fields),
    )
    return job


def _wants(fields: dict[str, str]) -> str:
    return "" if fields["n"] in NOTHING else fields["n"]


def _alone(fields: dict[str, str]) -> str:
    """Jobs whose users, or administrators, have already said when or where they run."""
    held = fields["r"].startswith("JobHeld") or fields["Q"] == "0" or fields["D"] == "0"  # which has no nodes yet
    reasons = {
        "it is for a reservation": fields["v"] not in NOTHING,
        "it names nodes": fields["x"] not in NOTHING,
        "it is held": held,
        "it is for several nodes": int(fields["D"]) > 1,
        "its array has a limit of its own": "%" in fields["i"],
        "it is a component of a heterogeneous job": "+" in fields["i"],
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def limit_s(text: str) -> float:
    """squeue's time limit, D-HH:MM:SS, HH:MM:SS or MM:SS; infinity for UNLIMITED and what is none."""
    match = _TIME.fullmatch(text)
    if match is None:
        return inf
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
