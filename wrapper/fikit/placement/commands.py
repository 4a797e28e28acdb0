"""Slurm behind a small interface: squeue reads the queue, scontrol changes jobs, in one process for many of them.

What goes to scontrol is numbers and words of ours: nothing that a user wrote.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from fikitd.base.validation import printable

from fikit.placement import jobs as queue
from fikit.placement.jobs import Job
from fikit.placement.pair import Gpu
from fikit.placement.pairing import Place
from fikit.placement.plan import OURS, Change, Mark
from fikit.slurm import versions as slurm_versions

TIMEOUT_S: Final = 10.0
LARGEST_ANSWER: Final = 2**26
REFUSED: Final = re.compile(r"for job (\d{1,10})\b", re.ASCII)
_ADMIN_COMMENT: Final = re.compile(r"\bAdminComment=(\S{0,200})")
_ALLOCATED: Final = re.compile(r" Nodes=([\w.-]{1,255}) CPU_IDs=\S* Mem=\d+ GRES=(\S*)", re.ASCII)
_GRES: Final = re.compile(r"(gpu|shard):([^:,()]+):(\d{1,9})(?=\(|,|$)", re.ASCII)
_FIELD: Final = re.compile(r"(?:^| )(NodeName|Gres|State|Partitions)=(\S*)")
_NUMBER: Final = re.compile(r"\d{1,9}", re.ASCII)
_CLOSED: Final = {
    "DOWN",
    "DRAIN",
    "DRAINED",
    "DRAINING",
    "FAIL",
    "FAILING",
    "MAINT",
    "FUTURE",
    "UNKNOWN",
    "NOT_RESPONDING",
    "REBOOT",
}


class SlurmError(Exception):
    """Slurm did not do what it was asked; one sentence."""


class Slurm(Protocol):
    """What the agent asks of Slurm. Each raises SlurmError."""

    def jobs(self) -> list[Job]:
        """All that wait or run."""

    def commented(self, numbers: Iterable[int]) -> set[int]:
        """Those whose AdminComment is somebody else's."""

    def update(self, changes: Sequence[Change]) -> set[int]:
        """The jobs that Slurm did not change."""


class Commands:
    """By Slurm's own programs, which are the same in every release."""

    def jobs(self) -> list[Job]:
        mark = secrets.token_hex(12)
        return queue.parse(_output(["squeue", "--noheader", "--all", f"--format={queue.squeue_format(mark)}"]), mark)

    def commented(self, numbers: Iterable[int]) -> set[int]:
        asked = set(numbers)
        # A name or a path may say "AdminComment=", too: every one of them has to be empty or ours.
        free = {
            job
            for job, said in _admin_comments(asked).items()
            if all(not each or each.startswith(OURS) for each in said)
        }
        return asked - free

    def notes(self, numbers: Iterable[int]) -> dict[int, str]:
        """What the agent has written of these jobs into their AdminComments."""
        return {
            job: said[-1] for job, said in _admin_comments(set(numbers)).items() if said and said[-1].startswith(OURS)
        }

    def gpus(self) -> list[Gpu]:
        return list(_gpus(_output(["scontrol", "--oneliner", "show", "node"])))

    def places(self, numbers: Iterable[int]) -> dict[int, list[Place]]:
        found = {}
        for job, said in _about(set(numbers), details=True).items():
            places = _ALLOCATED.findall(said)
            # A name or a path may say the same: then nobody knows.
            found[job] = list(_places(*places[0])) if len(places) == 1 else []
        return found

    def update(self, changes: Sequence[Change]) -> set[int]:
        lines = [_line(change) for change in changes]
        _, errors = _told(lines)
        complaints = [line.strip() for line in errors.splitlines() if line.strip()]
        if others := [line for line in complaints if not REFUSED.search(line)]:
            raise SlurmError(f"scontrol: {printable(others[-1])}")
        return {int(number) for line in complaints for number in REFUSED.findall(line)}


def setting(name: str) -> str:
    """A line of slurmctld's configuration, "" where there is none. Raises SlurmError."""
    found = re.search(rf"^{re.escape(name)}\s*=\s*(\S*)", _output(["scontrol", "show", "config"]), re.MULTILINE)
    return found[1] if found else ""


def _admin_comments(numbers: set[int]) -> dict[int, list[str]]:
    """What may be the AdminComment of each, of an array those of its tasks; a job that Slurm does not know is left out."""
    return {number: _ADMIN_COMMENT.findall(said) for number, said in _about(numbers).items()}


def _about(numbers: set[int], *, details: bool = False) -> dict[int, str]:
    """What `scontrol show job` says of each.

    Names, comments and paths are their users', may have line breaks, and may look like all of this. So each answer stands behind a
    mark that nobody can know beforehand, which scontrol prints because it is asked to.
    """
    if not numbers:
        return {}
    mark = f"x{secrets.token_hex(12)}x"
    lines = [line for number in sorted(numbers) for line in (f"show hostnames {mark}{number}", f"show job {number}")]
    answer, _ = _told([*lines, f"show hostnames {mark}0"], details=details)
    found = {}
    for number, said in re.findall(rf"^{mark}(\d+)$(.*?)(?=^{mark})", answer, re.MULTILINE | re.DOTALL):
        if "JobId=" in said:
            found[int(number)] = said
    return found


def _line(change: Change) -> str:
    fields = [f"SiteFactor={change.factor}"] if change.factor is not None else []
    if change.comment is not None:
        fields.append(f"AdminComment={change.comment}")
    fields += _placing(change.before, change.after)
    if change.begins:
        fields.append("StartTime=now")
    return f"update JobId={change.job} {' '.join(fields)}"


def _placing(before: Mark, after: Mark) -> list[str]:
    fields = []
    if before.type != after.type:
        fields.append(f"Gres=shard:{f'{after.type}:{after.shards}' if after.type else before.shards}")
    if before.node != after.node:
        fields.append(f"ReqNodeList={after.node}")
    if before.waits_for != after.waits_for:
        fields.append(f"Dependency={'?'.join(f'afterany:{job}' for job in after.waits_for)}")
    return fields


def _gpus(nodes: str) -> Iterator[Gpu]:
    """Of what `scontrol show node` says."""
    for line in nodes.splitlines():
        fields = dict(_FIELD.findall(line))
        state = set(re.split(r"[+*~#!%$@^-]", fields.get("State", "").upper()))
        if state & _CLOSED or "Gres" not in fields:
            continue
        named = (each.partition("(")[0] for each in fields["Gres"].split(","))
        gres = dict(each.rsplit(":", 1) for each in named if each.count(":") == 2)
        partitions = frozenset(fields.get("Partitions", "").split(","))
        for name, count in gres.items():
            kind, type_ = name.split(":")
            if kind == "gpu" and count == "1" and _NUMBER.fullmatch(gres.get(f"shard:{type_}", "")):
                yield Gpu(fields["NodeName"], type_, int(gres[f"shard:{type_}"]), partitions)


def _places(node: str, gres: str) -> Iterator[Place]:
    for kind, type_, count in _GRES.findall(gres):
        if int(count):
            yield Place(node, type_, alone=kind == "gpu")


def _told(lines: Sequence[str], *, details: bool = False) -> tuple[str, str]:
    """What scontrol answers to these, and its complaints; it goes on after one that it refuses."""
    return _run(["scontrol", "--oneliner", *(["--details"] if details else [])], "\n".join([*lines, "quit", ""]))


def _output(command: list[str]) -> str:
    answer, errors = _run(command, "")
    if not answer and errors.strip():
        raise SlurmError(_complaint(command[0], errors))
    return answer


def _complaint(program: str, errors: str) -> str:
    """`squeue: REASON`, of what the program wrote: `squeue: fatal: REASON`."""
    last = (errors.strip().splitlines() or ["it failed"])[-1]
    return f"{program}: {printable(re.sub(rf'^({program}: )?((fatal|error): )?', '', last))}"


def _run(command: list[str], told: str) -> tuple[str, str]:
    program = shutil.which(command[0], path=slurm_versions.SYSTEM_PATH)
    if program is None:
        raise SlurmError(f"there is no {command[0]} in PATH")
    env = {**os.environ, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run([program, *command[1:]], input=told, env=env, capture_output=True, text=True,
                              errors="replace", check=False, timeout=TIMEOUT_S)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]} did not answer within {TIMEOUT_S:g} s") from None
    except OSError as error:
        raise SlurmError(f"{command[0]} could not be started: {error.strerror}") from None
    if len(done.stdout) > LARGEST_ANSWER:
        raise SlurmError(f"{command[0]}'s answer is longer than {LARGEST_ANSWER >> 20} MiB")
    if command[0] == "squeue" and done.returncode != 0:
        raise SlurmError(_complaint("squeue", done.stderr))
    return done.stdout, done.stderr
