"""Priority names and numbers: 0 is the highest, 9 the lowest (FIKIT's Q0..Q9). The C and Lua tables are tested against this one."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

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


class Range(NamedTuple):
    """Priorities between which fikitd chooses (`auto`): highest <= lowest, as numbers."""

    highest: int
    lowest: int


AUTO: Final = "auto"


def parse_range(text: str, default: int) -> Range:
    """The range of `auto` (from `default`, the site's for jobs that name none, to low) or `auto:LOW-HIGH`; ValueError with one sentence."""
    if text == AUTO:
        return Range(default, max(default, NAMES["low"]))
    words = text.removeprefix(f"{AUTO}:").split("-")
    try:
        if not text.startswith(f"{AUTO}:") or len(words) != 2:
            raise ValueError
        low, high = map(parse, words)
    except ValueError:
        raise ValueError(
            f'priority "{text}" is not known; use high, normal, low, a number from 0 (highest) to 9, or auto, auto:LOW-HIGH'
        ) from None
    return Range(min(low, high), max(low, high))


def is_range(text: str) -> bool:
    """Whether it is meant as one."""
    return text == AUTO or text.startswith(f"{AUTO}:")


_BLANK: Final = r"[ \t\r]*"
_SLURM: Final = re.compile(rf"\[{_BLANK}slurm{_BLANK}\]{_BLANK}(?:#.*)?", re.DOTALL)
_DEFAULT: Final = re.compile(
    rf"""default_priority{_BLANK}={_BLANK}(?:"([^"]+)"|'([^']+)'|([^"' \t\r#][^ \t\r#]*)){_BLANK}(?:#.*)?""", re.DOTALL
)
_LONGEST_LINE: Final = 255


def site_default(text: str) -> int | None:
    """What a text of fikit.toml says by the line default_priority under [slurm]; None without one.

    The rule by which a node's prolog and slurmctld read it (fikit_site.c, fikit_site.lua): they know no other TOML.
    """
    inside = False
    for line in text.partition("\0")[0].split("\n"):
        begin = line.lstrip(" \t\r") if len(line.encode(errors="surrogateescape")) <= _LONGEST_LINE else ""
        if begin.startswith("["):
            inside = _SLURM.fullmatch(begin) is not None
        elif inside and (match := _DEFAULT.fullmatch(begin)):
            try:
                return parse(next(filter(None, match.groups())))
            except ValueError:
                continue
    return None
