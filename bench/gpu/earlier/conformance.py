"""The driver's semantics (tests/conformance): what its programs should say of a driver, and what the driver here makes them say.

The tests take the expectations from here, for both to read one file alike; a machine with a GPU may lack what the tests need.
`python -m bench.gpu.earlier.conformance RESULT.json[.gz]` makes a run's part the file of that device (tests/conformance/results).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import record
from bench.gpu import processes
from bench.gpu.place import Place
from bench.record import ROOT, BenchError

Found = dict[str, Any]
HERE = ROOT / "tests" / "conformance"
SOURCES = {source.stem: source for source in HERE.rglob("*.c")}
PROGRAMS = sorted(SOURCES)


def lines() -> list[str]:
    text = (HERE / "expectations.txt").read_text()
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def expected(program: str) -> dict[str, str]:
    named = (line.split() for line in lines())
    return {name.removeprefix(f"{program}."): value for name, value in named if name.startswith(f"{program}.")}


def said(output: str) -> dict[str, str]:
    """The observations in a program's output; ValueError for one that is there twice."""
    pairs = [line.split() for line in output.splitlines()]
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an observation's name is used twice")
    return found


def conformance(place: Place, most: int | None, library: str, limit_s: float) -> Found:
    """The driver's semantics (tests/conformance): all that the driver says, and which of it differs from what is expected."""
    deadline = time.monotonic() + limit_s
    names = PROGRAMS[:most]
    alone = [
        name for name in names if "cuMemGetInfo" in SOURCES[name].read_text()
    ]  # their neighbours' memory would be seen
    beside = [name for name in names if name not in alone]
    with ThreadPoolExecutor(max(1, min(4, os.cpu_count() or 1))) as pool:
        found = dict(zip(beside, pool.map(lambda name: _observe(place, library, name, deadline), beside), strict=True))
    found |= {name: _observe(place, library, name, deadline) for name in alone}
    different = {name: one for name in names if (one := _different(name, *found[name]))}
    return {
        "programs": len(names),
        "as_expected": len(names) - len(different),
        "different": different,
        "said": {name: found[name][0] for name in names},
    }


def _observe(place: Place, library: str, name: str, deadline: float) -> tuple[dict[str, str], str]:
    """What one program saw, and how it failed; a program that crashed has said what it saw before."""
    program, output = place.directory / f"conformance-{name}", place.directory / f"conformance-{name}.out"
    command = [os.environ.get("CC", "cc"), "-O1", "-o", str(program), str(SOURCES[name])]
    command += [library, "-Wl,--allow-shlib-undefined", "-pthread"]
    error = ""
    try:
        processes.run(f"building {name}", command, place.env, place.directory, max(1.0, deadline - time.monotonic()))
        limit_s = max(1.0, min(20.0, deadline - time.monotonic()))
        into_file = ["/bin/sh", "-c", 'exec "$0" >"$1"', str(program), str(output)]
        processes.run(name, into_file, place.env, place.directory, limit_s)
    except (BenchError, OSError, subprocess.SubprocessError) as failure:
        error = str(failure)
    try:
        return said(output.read_text(errors="replace") if output.exists() else ""), error
    except ValueError as failure:
        return {}, error or str(failure)


def _different(name: str, seen: dict[str, str], error: str) -> Found:
    """What is different in one program; nothing where nothing is. Of one that failed, the last that it saw."""
    wanted = expected(name)
    values: Found = {
        key: {"expected": wanted.get(key), "said": seen.get(key)}
        for key in [*wanted, *(key for key in seen if key not in wanted)]
        if wanted.get(key) != seen.get(key) and not (error and key not in seen)
    }
    if not error:
        return values
    return {"error": error, "last": next(reversed(seen), None), **values}


def _said_in(everything: Found, observation: str) -> bool:
    program, _, key = observation.partition(".")
    return key in everything.get(program, {})


def result(document: Found) -> str:
    """A run's conformance as the file of its device: every observation, and "# " where it differs, for somebody to write why."""
    part, gpu = document["parts"]["conformance"], document["settings"]["gpu"]
    version = re.search(r"\d+\.\d+(\.\d+)?", gpu["driver"] or "")
    failed = [name for name, one in part["different"].items() if "error" in one]
    head = [
        "# What a real driver said to the programs of tests/conformance. Where that is not what is expected the line says why.",
        f"# device: {gpu['name']}",
        f"# driver: {version[0] if version else 'unknown'}, CUDA {gpu['cuda_version'] // 1000}.{gpu['cuda_version'] % 1000 // 10}",
        f"# date: {document['date'][:10]}",
        *(f"# failed: {part['different'][name]['error']}" for name in failed),
    ]
    body = [
        f"{name}.{key} {value}" + ("" if expected(name).get(key) == value else "  # ")
        for name, seen in part["said"].items()
        for key, value in seen.items()
    ]
    silent = [f"# unsaid: {line.split()[0]}" for line in lines() if not _said_in(part["said"], line.split()[0])]
    return "\n".join([*head, *silent, *body]) + "\n"


if __name__ == "__main__":
    print(result(record.read(Path(sys.argv[1]))), end="")
