"""Outcomes from AdminComments (`admin_comment_s`), where there is slurmdbd: what to ask sacct, and what its answer says.

A job's name is its user's and may hold anything, line breaks and separators too. So fields end in a separator that nobody can know
beforehand, and an answer in which they do not come out even is none.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Final

from fikitd.api.outcomes import UNKNOWN, Outcome, name_key, recorded_name

COLUMNS: Final = ("JobIDRaw", "UID", "End", "AdminComment", "JobName")
ENVIRONMENT: Final = {"SLURM_TIME_FORMAT": "%s"}
DAYS: Final = 30
_OURS: Final = re.compile(r"fikit:([a-z_]+=[0-9.]+(?:,[a-z_]+(?:=[0-9.]+)?)*)")
_NUMBER: Final = re.compile(r"\d{1,10}(?:\.\d{1,6})?", re.ASCII)
_JOB: Final = re.compile(r"\d{1,10}", re.ASCII)


def new_separator() -> str:
    return f"<{secrets.token_hex(12)}>"


def command(separator: str, user: int | None = None) -> list[str]:
    """For subprocess, with ENVIRONMENT added; `user`: this uid's jobs alone, None: of all whom the caller may see."""
    whose = ["--allusers"] if user is None else ["--uid", str(user)]
    return [
        "sacct", "--noheader", "--allocations", "--parsable", f"--delimiter={separator}", f"--starttime=now-{DAYS}days",
        *whose, f"--format={','.join(COLUMNS)}",
    ]  # fmt: skip


def parse(text: str, separator: str) -> list[Outcome]:
    """The runs of which fikit left its figures. ValueError: it is no answer to `command`."""
    *fields, rest = text.split(separator)
    if rest.strip() or len(fields) % len(COLUMNS):
        raise ValueError("sacct's answer has another number of fields")
    return list(_runs(fields))


def _runs(fields: list[str]) -> Iterator[Outcome]:
    for first in range(0, len(fields), len(COLUMNS)):
        job, uid, ended, comment, name = fields[first : first + len(COLUMNS)]
        said = _OURS.findall(comment)
        if said and all(_JOB.fullmatch(each.strip()) for each in (job, uid, ended)):
            yield _outcome(
                int(job), int(uid), int(ended), name_key(recorded_name(name)), said[-1]
            )  # of one that ran again the last


def _outcome(job: int, uid: int, ended_s: int, name: int, said: str) -> Outcome:
    words = [word.partition("=") for word in said.split(",")]
    numbers = {key: float(value) for key, _, value in words if _NUMBER.fullmatch(value)}

    def of(key: str) -> float:
        return numbers.get(key, UNKNOWN)

    return Outcome(
        job=job, uid=uid, name=name, ended_s=ended_s, elapsed_s=of("elapsed_s"), busy=min(of("busy"), 1.0),
        peak_mib=int(numbers.get("peak_mib", 0)), slowdown=of("slowdown"), given_s=of("given_s"),
        priority=min(int(numbers.get("priority", Outcome.priority)), 9),
        emulated=int("emulated" in (key for key, _, _ in words)),
    )  # fmt: skip
