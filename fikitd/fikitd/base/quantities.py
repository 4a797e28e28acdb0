"""Sizes, shares and times as people write them: `20G`, `5%`, `200us`. slurmctld and the SPANK plugin read the same."""

from __future__ import annotations

import re
from typing import Final

_NS: Final = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_BYTES: Final = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_MILLION: Final = 1_000_000
MAX_NS: Final = 3_600 * 1_000_000_000  # an hour: nobody bounds a delay of a kernel by more
MAX_BYTES: Final = 2**53


def size(text: str) -> int:
    """`20G`, `512M`, `16GiB` or a plain number of MB -> bytes, 8 PiB at most; ValueError with one sentence for anything else."""
    match = re.fullmatch(r"(\d{1,16})(?:([KMGT])(?:i?B)?)?", text, re.ASCII | re.IGNORECASE)
    value = int(match[1]) * _BYTES[(match[2] or "").upper()] if match else 0
    if not 0 < value <= MAX_BYTES:
        raise ValueError(f'"{text}" is not a size, write it as 20G, 512M or 1T')
    return value


def written(size_bytes: int) -> str:
    """The same as somebody would type it: `20G`, `65M`; whole kibibytes always, as every size is that."""
    for unit in "TGM":
        if size_bytes % _BYTES[unit] == 0:
            return f"{size_bytes // _BYTES[unit]}{unit}"
    return f"{size_bytes // _BYTES['K']}K"


def share(text: str) -> float:
    """`5%` or `0.05`, from 0 to 100 %, to a millionth; ValueError with one sentence for anything else."""
    millionths, unit = _decimal(text)
    whole = {"": 1, "%": 100}.get(unit, 0)
    if not whole or millionths > whole * _MILLION:
        raise ValueError(f'"{text}" is not a share, write 5% or 0.05')
    return millionths // whole / _MILLION


def nanoseconds(text: str) -> int:
    """`200us`, `1.5ms`, `2s`, an hour at most; ValueError with one sentence for anything else."""
    millionths, unit = _decimal(text)
    ns = _NS.get(unit, 0)
    if not ns or millionths * ns > MAX_NS * _MILLION:
        raise ValueError(f'"{text}" is not a time, write it as 200us, 1.5ms or 2s')
    return millionths * ns // _MILLION


def _decimal(text: str) -> tuple[int, str]:
    """`1.5ms` -> 1500000, `ms`; the unit is no unit where the text is no number."""
    match = re.fullmatch(r"(\d{1,12})(?:\.(\d{1,6}))?([^\d.].*)?", text, re.ASCII | re.DOTALL)
    if not match:
        return 0, "?"
    return int(match[1]) * _MILLION + int((match[2] or "").ljust(6, "0")), match[3] or ""


def percent(value: float) -> str:
    """0.05 -> `5 %`."""
    return f"{100 * value:.4f}".rstrip("0").rstrip(".") + " %"
