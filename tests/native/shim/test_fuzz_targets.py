"""The fuzz targets of tests/fuzz, without libFuzzer: their corpus and mutations of it, under the sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import sanitized_core

from scripts import native_program

pytestmark = pytest.mark.starts_processes

ROOT = Path(__file__).resolve().parents[3]
FUZZ = ROOT / "tests" / "fuzz"
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def built(directory: Path, target: str, *flags: str) -> Path:
    """The target with what it needs of the product, and a main of its own."""
    (source,) = FUZZ.glob(f"{target}.c*")
    return native_program.build(directory / target, [source, FUZZ / "alone.c"], ["-O1", "-g", *flags])


def play(program: Path, target: str, runs: int) -> None:
    corpus = sorted((FUZZ / "corpus" / target).iterdir())
    assert corpus
    command = [program, str(runs), *map(str, corpus)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip(f"the sanitizer does not run on this kernel: {done.stderr}")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{runs} inputs\n", "")


@pytest.mark.parametrize(
    ("target", "runs"), [("shim_page", 1000), ("shim_plan", 20_000), ("shim_movable", 300), ("shim_touches", 500)]
)
def test_whatever_stands_in_its_pages_launches_go_on(target: str, runs: int, tmp_path: Path) -> None:
    play(built(tmp_path, target, *SANITIZE), target, runs)


@pytest.mark.parametrize(("target", "runs"), [("shim_movable", 100), ("shim_touches", 100)])
def test_memory_that_comes_and_goes_in_one_thread_is_no_race_in_another(target: str, runs: int, tmp_path: Path) -> None:
    """By the thread sanitizer."""
    play(built(tmp_path, target, "-fsanitize=thread", "-Wno-tsan"), target, runs)


@pytest.mark.parametrize("target", ["core_accesses", "core_residency"])
def test_whatever_is_said_of_memory_bounds_and_budgets_hold(target: str, tmp_path: Path) -> None:
    play(built(tmp_path, target, *SANITIZE), target, 1000)


def test_whatever_a_client_writes_into_its_page_others_are_served(tmp_path: Path) -> None:
    program = sanitized_core.build(tmp_path, SANITIZE, [FUZZ / "core_page.cpp", FUZZ / "alone.c"])
    play(program, "core_page", 3000)
