"""How the room on a GPU is divided among jobs, and what a job gets among its processes, which run at once (docs/design/residency.md, "A job of several processes"). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from fikitd.gpus.residency import share_room

MOST_LEVELS: Final = 16  # of a job: as many as the options of a single process


class Option(NamedTuple):
    """With so many bytes on the GPU a process loses such a share of its work."""

    bytes: int
    lost: float


Process = Sequence[Option]
"""The options of a process: at least one."""


class Level(NamedTuple):
    """So many bytes a job's processes need together for none of them to lose more than `lost`."""

    lost: float
    bytes: int


def shares(room_bytes: int, peaks: Sequence[int]) -> list[int]:
    """The room in proportion to what each process has at its peak, and to none more than that."""
    total = sum(peaks)
    return [peak if total <= room_bytes else room_bytes * peak // total for peak in peaks]


def levels(processes: Sequence[Process]) -> list[Level]:
    """A job is as slow as the slowest of its processes: so for each bound on the loss of all of them, from the lowest that can be kept, what they need. A
    higher bound needs fewer bytes."""
    options = sorted((option.lost, option.bytes, of) for of, process in enumerate(processes) for option in process)
    fewest: dict[int, int] = {}
    found: list[Level] = []
    for lost, bytes_, of in options:
        fewest[of] = min(bytes_, fewest.get(of, bytes_))
        if len(fewest) < len(processes):
            continue
        total = sum(fewest.values())
        if found and found[-1].lost == lost:
            found.pop()
        if not found or total < found[-1].bytes:
            found.append(Level(lost, total))
    if len(found) <= MOST_LEVELS:
        return found
    return [found[i * (len(found) - 1) // (MOST_LEVELS - 1)] for i in range(MOST_LEVELS)]


def divide(room_bytes: int, jobs: Sequence[Sequence[Process]]) -> list[list[int]] | None:
    """The number of the option that each process of each job is to have; None: not even the smallest options fit.

    Of all combinations of levels that fit it is the one with the least sum of losses. What is left of the room goes to the processes that lose most, one after the
    other: each gets the best option that fits.
    """
    of_jobs = [levels(processes) for processes in jobs]
    chosen = share_room([[(level.bytes, level.lost) for level in each] for each in of_jobs], max(room_bytes, 0))
    if len(chosen) < len(jobs):
        return None
    found = [
        [_within(process, of_job[which].lost) for process in processes]
        for processes, of_job, which in zip(jobs, of_jobs, chosen, strict=True)
    ]
    left = room_bytes - sum(of_job[which].bytes for of_job, which in zip(of_jobs, chosen, strict=True))
    _improve(left, jobs, found)
    return found


def _within(process: Process, lost: float) -> int:
    """Its smallest option that loses no more than that."""
    return min((option.bytes, option.lost, number) for number, option in enumerate(process) if option.lost <= lost)[2]


def _improve(left: int, jobs: Sequence[Sequence[Process]], found: list[list[int]]) -> None:
    places = [(job, of) for job, processes in enumerate(jobs) for of in range(len(processes))]
    for job, of in sorted(places, key=lambda place: -jobs[place[0]][place[1]][found[place[0]][place[1]]].lost):
        process, now = jobs[job][of], jobs[job][of][found[job][of]]
        better = [
            (option.lost, option.bytes, number)
            for number, option in enumerate(process)
            if option.lost < now.lost and option.bytes - now.bytes <= left
        ]
        if better:
            _, bytes_, found[job][of] = min(better)
            left -= bytes_ - now.bytes
