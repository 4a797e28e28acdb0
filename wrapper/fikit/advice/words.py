"""Times and requests for GPUs as Slurm's commands read and write them."""

from __future__ import annotations

import re
from math import inf
from typing import Final

ENDLESS: Final = ("UNLIMITED", "INFINITE", "PARTITION_LIMIT", "NOT_SET", "INVALID", "N/A", "NONE", "-1", "")
_TIME: Final = re.compile(r"(?:(\d{1,7})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", re.ASCII)
_GRES: Final = re.compile(
    r"(?:gres[:/])?(?P<kind>gpu|shard)(?::(?P<type>[A-Za-z_][^:=,()\s]*|\d+[A-Za-z_.][^:=,()\s]*))?(?:[:=](?P<count>\d{1,6}))?"
    r"(?:\([A-Z]*:?(?P<where>[^)]*)\))?"
)
_SCRIPT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}\.(sh|bash|sbatch|slurm|sl|job|batch|py)", re.ASCII)


def seconds(text: str) -> float:
    """`90` (minutes), `10:00`, `1:00:00`, `2-12`, `2-12:30`, `2-12:30:00`: sbatch(1), --time; inf for no limit. ValueError for anything else."""
    if text.strip().upper() in ENDLESS:
        return inf
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f'"{text}" is not a time of Slurm\'s, write minutes, HH:MM:SS or DAYS-HH:MM:SS')
    days, *rest = (int(part) if part else None for part in match.groups())
    first, second, third = rest
    if days is not None:
        return ((days * 24 + (first or 0)) * 60 + (second or 0)) * 60 + (third or 0)
    if third is not None:
        return ((first or 0) * 60 + (second or 0)) * 60 + third
    return (first or 0) * 60 + (second or 0)


def gres(text: str) -> list[tuple[str, str, int, list[int] | None]]:
    """`gres:gpu:h200:1`, `gres/shard=4`, `shard:h200:4(IDX:0-1)`, several with commas -> (kind, type, count, indices or None) of GPUs and shards;
    what else is asked for is left out."""
    found = []
    for part in re.findall(r"(?:[^,(]|\([^)]*\))+", text):
        if match := _GRES.fullmatch(part.strip()):
            where = None if match["where"] is None else indices(match["where"])
            found.append((match["kind"], match["type"] or "", int(match["count"] or 1), where))
    return found


def indices(text: str) -> list[int]:
    """`0-1,3` -> [0, 1, 3]; of shards that are counted for each GPU, `0/16,4/16` -> [1]; at most 64, empty for none."""
    parts = text.split(",")[:64]
    if "/" in text:
        return [index for index, part in enumerate(parts) if part.partition("/")[0].strip("0 ")]
    found: list[int] = []
    for part in parts:
        first, _, last = part.partition("-")
        if first.isdecimal() and first.isascii() and (not last or (last.isdecimal() and last.isascii())):
            begin, end = int(first[:4]), int((last or first)[:4])
            found += range(begin, min(end, begin + 63) + 1)
    return found[:64]


def script(name: str) -> str:
    """Of a job's name what to type behind sbatch. A name may be anything, and this is a line that people type: only a name that is a script's, as
    sbatch gives it, is taken for one."""
    return name if _SCRIPT.fullmatch(name) else "SCRIPT"
