"""The native core compiled once more, under a sanitizer, with a program that tries it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "fikitd" / "core"
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
FLAGS = ("-std=c++20", "-O0", "-g1", f"-I{CORE}", f"-I{CORE / 'protocol'}")


def build(
    directory: Path,
    sanitize: Iterable[str],
    sources: Iterable[Path],
    without: Iterable[str] = (),
    link: Iterable[str] = (),
) -> Path:
    """A program of these sources and of the core's, but for files of the names `without`; it lies in `directory`. link: options."""
    flags = [*FLAGS, *sanitize]
    header = directory / "headers.hpp"
    header.write_text("".join(f"#include <{name}>\n" for name in HEADERS))
    subprocess.run(["c++", *flags, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    folders = ("policy", "predictor", "forecaster", "tracking", "dispatcher")
    parts = [path for part in folders for path in (CORE / part).rglob("*.cpp")]
    chosen = [path for path in parts if path.name not in {"bench.cpp", *without}]

    def compile_(source: Path) -> Path:
        target = directory / f"{source.parent.name}-{source.stem}.o"
        extra = ["-include", header] if source.suffix == ".cpp" else ["-x", "c++"]
        subprocess.run(["c++", *flags, *extra, "-c", source, "-o", target], check=True)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_, [*chosen, *sources]))
    program = directory / "program"
    subprocess.run(["c++", *sanitize, *link, "-o", program, *objects, "-lpthread"], check=True)
    return program
