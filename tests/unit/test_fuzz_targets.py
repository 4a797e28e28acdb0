"""The fuzz targets of tests/fuzz, without libFuzzer: their corpus and mutations of it, under the sanitizers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FUZZ, CORE, SHIM = ROOT / "tests" / "fuzz", ROOT / "fikitd" / "core", ROOT / "shim"
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SHIM_SOURCES = ("gate", "memory", "lock")


def play(program: Path, target: str, runs: int) -> None:
    corpus = sorted((FUZZ / "corpus" / target).iterdir())
    assert corpus
    command = [program, str(runs), *map(str, corpus)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{runs} inputs\n", "")


def test_whatever_stands_in_its_pages_a_held_launch_goes_on(cc: Callable[..., Path]) -> None:
    sources = [str(SHIM / f"{name}.c") for name in SHIM_SOURCES]
    flags = ["-D_GNU_SOURCE", *SANITIZE, f"-I{SHIM}", f"-I{CORE / 'protocol'}", "-pthread"]
    play(cc(FUZZ / "shim_page.c", str(FUZZ / "alone.c"), *flags, *sources), "shim_page", 1000)


@pytest.mark.timeout(300)  # most of it is the compiler's
def test_whatever_a_client_writes_into_its_page_others_are_served(tmp_path: Path) -> None:
    sources = [
        path for part in ("policy", "predictor", "foresight", "dispatcher") for path in (CORE / part).glob("*.cpp")
    ]
    sources = [
        path
        for path in sources
        if path.name not in {"bench.cpp", "dispatcher.cpp", "dispatcher_clients.cpp", "doorbells.cpp"}
    ]
    flags = ["-std=c++20", "-O1", "-g", *SANITIZE, f"-I{CORE}", f"-I{CORE / 'protocol'}"]

    def compile_(source: Path) -> Path:
        target = tmp_path / f"{source.parent.name}-{source.stem}.o"
        subprocess.run(["c++", *flags, "-c", source, "-o", target], check=True)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_, [*sources, FUZZ / "core_page.cpp", FUZZ / "alone.c"]))
    program = tmp_path / "core_page"
    subprocess.run(["c++", *SANITIZE, "-o", program, *objects, "-lpthread"], check=True)
    play(program, "core_page", 3000)
