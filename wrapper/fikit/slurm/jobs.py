"""The numbers of Slurm's jobs: users know array tasks and components as 12_3 and 12+1, records have each one's own number."""

from __future__ import annotations

import re
import shutil
import subprocess

TIMEOUT_S = 5.0


def is_task(jobid: str) -> bool:
    """12_3, or a component, 12+1."""
    return re.fullmatch(r"\d+[_+]\d+", jobid, re.ASCII) is not None


def split(jobid: str) -> tuple[str, str]:
    """The number of the whole and which part of it: 12 and 3 of 12_3 and of 12+3, the second empty where it is no part."""
    whole, _, part = jobid.replace("+", "_").partition("_")
    return whole, part


def number(jobid: str) -> str:
    """The own number of an array's task or a heterogeneous job's component; `jobid` itself, where Slurm cannot say or it is none.

    slurmctld forgets a job some minutes after its end (MinJobAge); then slurmdbd knows it, where there is one.
    """
    if not is_task(jobid):
        return jobid
    if known := re.match(r"JobId=(\d+) ", shown(jobid)):
        return known[1]
    accounted = _output("sacct", "-n", "-X", "-P", "-j", jobid, "-o", "JobIDRaw").split()
    return (
        accounted[-1] if accounted and accounted[-1].isdecimal() else jobid
    )  # a job that ran again has a line for each run, with one number


def shown(jobid: str) -> str:
    """What Slurm says of a job, in one line; empty where it does not know it."""
    return _output("scontrol", "show", "job", "--oneliner", jobid)


def _output(program: str, *arguments: str) -> str:
    """Empty where the program is not there, fails or takes too long."""
    if not shutil.which(program):
        return ""
    try:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, errors="replace", check=False, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
