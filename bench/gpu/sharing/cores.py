"""Which cores programs run on: two each for fikitd, the high programs and the low ones, where there are enough."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from bench.gpu import processes

ROLES = ("fikitd", "high", "low")
EACH = 2
ENOUGH = 8  # so that two are left for everything else


def plan(cores: list[int]) -> dict[str, list[int]]:
    """The cores of each role; nothing where there are too few to give each role its own."""
    if len(cores) < ENOUGH:
        return {}
    return {role: cores[number * EACH : (number + 1) * EACH] for number, role in enumerate(ROLES)}


def here() -> dict[str, list[int]]:
    """The plan for the cores that this process may use."""
    return plan(sorted(os.sched_getaffinity(0)))


def pin(role: str, pid: int) -> bool:
    """Bind the process, its threads and its descendants to the role's cores: whether there are such cores."""
    cores = here().get(role)
    if cores is None:
        return False
    for each in processes.family(pid):
        with suppress(OSError):
            for thread in Path(f"/proc/{each}/task").iterdir():
                with suppress(OSError):  # it has ended meanwhile
                    os.sched_setaffinity(int(thread.name), cores)
    return True
