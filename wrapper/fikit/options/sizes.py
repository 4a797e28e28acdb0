"""Sizes of GPU memory as people write them, with Slurm's meaning of a plain number."""

from __future__ import annotations

import re

_UNITS = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(text: str) -> int:
    """`20G`, `512M`, `16GiB`, or a plain number of MiB (as in `sbatch --mem`) -> bytes. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size <= 0:
        raise ValueError(f'"{text}" is not a size; write 20G, 512M or a number of MiB')
    return size
