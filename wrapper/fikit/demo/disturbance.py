"""Were other programs busy when the demo began, or when it had ended? Its times are real times."""

from __future__ import annotations

import os
import time
from pathlib import Path

WATCHED_S = 0.5


def busy_cores(before: list[int], after: list[int], cores: int) -> float:
    """How many of `cores` were busy between two readings of /proc/stat's first line (proc(5)).

    The load average would still hold what an earlier demo did.
    """
    spent = [end - begin for begin, end in zip(before, after, strict=True)]
    total, idle = sum(spent[:8]), sum(spent[3:5])  # guests' time is in user's; idle and waiting for a disk
    return cores * (total - idle) / total if total > 0 else 0.0


def look(when: str) -> str:
    """What to add to a failure when others are busy now. It watches for WATCHED_S; nothing is said where it cannot."""
    try:
        before = _reading()
        time.sleep(WATCHED_S)
        cores = os.cpu_count() or 1
        return sentence(busy_cores(before, _reading(), cores), cores, when)
    except (OSError, ValueError):
        return ""


def sentence(busy: float, cores: int, when: str = "before it began") -> str:
    """Empty unless more than a quarter of the machine was busy."""
    if busy <= cores / 4:
        return ""
    return f"other programs disturbed it ({busy:.1f} of {cores} cores were busy {when}), try again later"


def _reading() -> list[int]:
    with Path("/proc/stat").open() as file:
        return [int(word) for word in file.readline().split()[1:]]
