"""Beside whom do requests keep a deadline? The response-time test of docs/advice.md: a kernel that runs is not stopped.

A request of the job (what it launches between two waits for the GPU) takes R alone at its 99th percentile. Whatever of lower jobs is on the
device when it comes is waited for: their longest kernel, less the time for which the device is idle anyway. So R + max(0, K - slack) + 15 us.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fikit.advice.facts import Burst, Gpu, Neighbour

REACTION_S: Final = 15e-6


@dataclass(frozen=True)
class Kept:
    """Whether requests keep the deadline beside these jobs. keeps None: not known. by: the job that decides, "" for none."""

    gpu: str
    keeps: bool | None
    response_s: float | None
    by: str = ""


def response_s(burst: Burst, longest_kernel_s: float) -> float:
    return burst.p99_s + max(0.0, longest_kernel_s - burst.slack_s) + REACTION_S


def beside(gpu: Gpu, burst: Burst, deadline_s: float, priority: int) -> Kept:
    """Of a job with `priority` there. Jobs of higher priority promise nothing; of the same, as of lower, each kernel may be met."""
    if any(each.whole for each in gpu.neighbours):
        return Kept(gpu.name, None, None)
    worst = Kept(gpu.name, burst.p99_s + REACTION_S <= deadline_s, burst.p99_s + REACTION_S)
    for each in gpu.neighbours:
        if (found := _one(gpu.name, each, burst, deadline_s, priority)) and _worse(found, worst):
            worst = found
    return worst


def _one(gpu: str, neighbour: Neighbour, burst: Burst, deadline_s: float, priority: int) -> Kept:
    if neighbour.priority is not None and neighbour.priority < priority:
        return Kept(gpu, False, None, neighbour.job)
    if neighbour.longest_kernel_s is None:
        return Kept(gpu, None if burst.p99_s + REACTION_S <= deadline_s else False, None, neighbour.job)
    response = response_s(burst, neighbour.longest_kernel_s)
    return Kept(gpu, response <= deadline_s, response, neighbour.job)


def _worse(one: Kept, other: Kept) -> bool:
    rank = {True: 0, None: 1, False: 2}
    return (rank[one.keeps], one.response_s or 0.0) > (rank[other.keeps], other.response_s or 0.0)


def largest_delay_s(burst: Burst, deadline_s: float) -> float | None:
    """The longest kernel that a request may meet and keep the deadline, for --fikit-max-delay; None: it does not keep it even alone."""
    room_s = deadline_s - burst.p99_s - REACTION_S
    return room_s if room_s > 0 else None
