"""What a bench's file holds besides its samples: enough to run it again elsewhere and compare (D14)."""

from __future__ import annotations

import gzip
import json
import os
import platform
import shlex
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKED = ".gz"
"""The end of a compressed file's name."""


class BenchError(Exception):
    """A bench could not run; one sentence."""


@dataclass(frozen=True)
class Result:
    """One bench's outcome. `samples`: everything that was measured; `values`: what the summary says, in units of its names."""

    summary: str
    emulated: bool
    values: dict[str, float]
    samples: dict[str, list[float]]
    settings: dict[str, Any] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)  # what else belongs into the file
    table: str = ""  # Markdown, for a page that shows it (bench.page)


def machine() -> dict[str, Any]:
    """Processor, cores, kernel: what a reader needs to judge the figures."""
    cpu = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    return {"cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release(), "libc": " ".join(platform.libc_ver())}


def commit() -> str:
    """The working tree's commit, with "+changes" if it is not clean but for docs/, where tables go; "unknown" outside git."""
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        status = ["git", "status", "--porcelain", "--", ".", ":(exclude)docs"]
        changes = subprocess.run(status, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.strip() + ("+changes" if changes.stdout.strip() else "")


def command(without: Sequence[str] = ()) -> str:
    """What was typed; without: options that are left out, with their values."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word in without:
            next(words, None)
        elif not word.startswith(tuple(f"{option}=" for option in without)):
            kept.append(word)
    return shlex.join(["python", "-m", "bench", *kept])


def check(path: Path) -> None:
    """Can it be written? Asked before a bench takes its minutes. Raises BenchError."""
    is_new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise BenchError(f"couldn't write {path}: {error.strerror}") from error


def write(path: Path, name: str, result: Result) -> None:
    """Write one bench's file, whole or not at all; raises BenchError when it cannot be written."""
    content = {
        "format": "fikit-bench",
        "version": 1,
        "bench": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command(),
        "commit": commit(),
        "machine": machine(),
        "emulated": result.emulated,
        "settings": result.settings,
        "values": result.values,
        "samples": result.samples,
        **result.details,
    }
    write_whole(path, json.dumps(content, indent=1) + "\n")


def stem(path: Path) -> str:
    """The file's name without `.json` or `.json.gz`."""
    return path.name.removesuffix(PACKED).removesuffix(".json")


def read(path: Path) -> dict[str, Any]:
    """The object in a bench's JSON file. A name that ends in `.gz` means a compressed file. Raises BenchError."""
    try:
        raw = path.read_bytes()
        found = json.loads(gzip.decompress(raw) if path.suffix == PACKED else raw)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise BenchError(f"couldn't read {path}: {error}") from error
    if not isinstance(found, dict):
        raise BenchError(f"couldn't read {path}: it holds no JSON object")
    return found


def write_whole(path: Path, text: str) -> None:
    """Replace the file in one step, so that no reader sees half of it; compressed if its name ends in `.gz`. Raises BenchError."""
    content = text.encode()
    if path.suffix == PACKED:
        content = gzip.compress(content, mtime=0)  # the same text gives the same file
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        raise BenchError(f"couldn't write {path}: {error.strerror}") from error
