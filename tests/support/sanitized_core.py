"""The native core compiled once more, under a sanitizer, with a program that tries it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from scripts import native_program

# Two thirds of the compiler's time went into standard headers and optimization: neither finds anything.
HEADERS = [
    "algorithm",
    "array",
    "atomic",
    "cmath",
    "memory",
    "mutex",
    "optional",
    "span",
    "string",
    "thread",
    "unordered_map",
    "utility",
    "vector",
]


def build(directory: Path, sanitize: Iterable[str], sources: Iterable[Path], link: Iterable[str] = ()) -> Path:
    """A program of these sources and of what they need of the core; it lies in `directory`. link: options."""
    flags = ["-O0", "-g1", *sanitize]
    return native_program.build(directory / "program", sources, flags, link=[*link], headers=HEADERS)
