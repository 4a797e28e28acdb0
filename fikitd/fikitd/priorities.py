"""Priority names and numbers: 0 is the highest, 9 the lowest (FIKIT's Q0..Q9). The C and Lua tables are tested against this one."""

from __future__ import annotations

from typing import Final

LOWEST: Final = 9
NAMES: Final[dict[str, int]] = {"high": 1, "normal": 5, "low": 8}
_BY_NUMBER: Final = {number: name for name, number in NAMES.items()}


def parse(text: str) -> int:
    """Number of a priority given as `high`, `normal`, `low` or a digit; ValueError with one sentence for anything else."""
    if text in NAMES:
        return NAMES[text]
    if len(text) == 1 and text in "0123456789":
        return int(text)
    raise ValueError(f'priority "{text}" is not known; use high, normal, low, or a number from 0 (highest) to 9')


def name(priority: int) -> str:
    """`high` for 1 and so on; numbers without a name are their own name."""
    return _BY_NUMBER.get(priority, str(priority))
