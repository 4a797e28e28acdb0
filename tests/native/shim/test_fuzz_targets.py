"""The fuzz targets of tests/fuzz, without libFuzzer: their corpus and mutations of it, under the sanitizers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import sanitized_core

pytestmark = pytest.mark.starts_processes

ROOT = Path(__file__).resolve().parents[3]
FUZZ, CORE, SHIM = ROOT / "tests" / "fuzz", ROOT / "fikitd" / "core", ROOT / "shim"
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SHIM_SOURCES = ("gate/gate", "memory/memory", "base/lock")


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


def test_whatever_a_client_writes_into_its_page_others_are_served(tmp_path: Path) -> None:
    without = ["dispatcher.cpp", "dispatcher_clients.cpp", "dispatcher_turns.cpp", "doorbells.cpp"]
    program = sanitized_core.build(tmp_path, SANITIZE, [FUZZ / "core_page.cpp", FUZZ / "alone.c"], without=without)
    play(program, "core_page", 3000)
