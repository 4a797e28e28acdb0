"""Shares and times as people write them: `5%`, `200us`, `1.5ms`. The SPANK plugin reads the same (fikit_quantities.c)."""

from __future__ import annotations

import re
from typing import Final

_NS: Final = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
MAX_NS: Final = 3_600 * 1_000_000_000  # an hour: nobody bounds a delay of a kernel by more


def share(text: str) -> float:
    """`5%` or `0.05`, from 0 to 100 %, to a millionth; ValueError with one sentence for anything else."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)(%?)", text, re.ASCII)
    value = float(match[1]) / (100 if match[2] else 1) if match else 2.0
    if value > 1:
        raise ValueError(f'"{text}" is not a share, write 5% or 0.05')
    return round(value, 6)


def nanoseconds(text: str) -> int:
    """`200us`, `1.5ms`, `2s`, an hour at most; ValueError with one sentence for anything else."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([a-zµ]+)", text, re.ASCII)
    value = round(float(match[1]) * _NS[match[2]]) if match and match[2] in _NS else MAX_NS + 1
    if value > MAX_NS:
        raise ValueError(f'"{text}" is not a time, write it as 200us, 1.5ms or 2s')
    return value


def percent(value: float) -> str:
    """0.05 -> `5 %`."""
    return f"{100 * value:.4f}".rstrip("0").rstrip(".") + " %"
