"""The driver's semantics (tests/conformance): what its programs should say of a driver, and what the driver here makes them say.

The tests take the expectations from here, for both to read one file alike; a machine with a GPU may lack what the tests need.
"""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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
    """The driver's semantics (tests/conformance): which observations differ from what is expected."""
    deadline = time.monotonic() + limit_s
    names = PROGRAMS[:most]
    with ThreadPoolExecutor(max(1, min(4, os.cpu_count() or 1))) as pool:
        each = dict(zip(names, pool.map(lambda name: _observe(place, library, name, deadline), names), strict=True))
    different = {name: one for name, one in each.items() if one}
    return {"programs": len(names), "as_expected": len(names) - len(different), "different": different}


def _observe(place: Place, library: str, name: str, deadline: float) -> Found:
    """What is different in one program; nothing where nothing is."""
    program = place.directory / f"conformance-{name}"
    command = [os.environ.get("CC", "cc"), "-O1", "-o", str(program), str(SOURCES[name])]
    command += [library, "-Wl,--allow-shlib-undefined", "-pthread"]
    try:
        processes.run(f"building {name}", command, place.env, place.directory, max(1.0, deadline - time.monotonic()))
        limit_s = max(1.0, min(20.0, deadline - time.monotonic()))
        seen = said(processes.run(name, [program], place.env, place.directory, limit_s))
    except (BenchError, ValueError, OSError, subprocess.SubprocessError) as error:
        return {"error": str(error)}
    wanted = expected(name)
    return {
        key: {"expected": wanted.get(key), "said": seen.get(key)}
        for key in {*wanted, *seen}
        if wanted.get(key) != seen.get(key)
    }
