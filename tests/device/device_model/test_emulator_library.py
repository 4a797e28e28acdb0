"""The emulator's device model as a library of its own, for simulators: what it can do, and what it does not need."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import MODEL, ROOT, SOURCES, model_flags

from bench.__main__ import main
from bench.emulator import model

CASES = [
    "next_event_leads_from_one_to_the_next",
    "abandoned_context_leaves_the_engine_to_others",
    "a_marker_releases_streams_before_its_own",
    "records_of_a_killed_context_are_closed",
    "trace_follows_ops_until_its_ring_is_full",
    "names_of_the_trace_run_out_without_harm",
]


@pytest.fixture(scope="module")
def sources() -> list[str]:
    """The sources of the CMake target emu_device_model."""
    text = (ROOT / "emulator/CMakeLists.txt").read_text()
    target = re.search(r"add_library\(emu_device_model STATIC(.*?)\)", text, re.DOTALL)
    assert target is not None
    return [str(ROOT / "emulator" / name) for name in target[1].split()]


@pytest.fixture(scope="module")
def library(cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_library.cpp", *model_flags(cc))


@pytest.mark.parametrize("case", CASES)
def test_model_as_a_library(library: Path, case: str) -> None:
    done = subprocess.run([library, case], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_every_library_case_is_listed(library: Path) -> None:
    assert subprocess.run([library], capture_output=True, text=True, check=True).stdout.split() == CASES


def test_model_needs_neither_threads_nor_shared_memory_nor_time(cc: Callable[..., Path], sources: list[str]) -> None:
    flags = ("-std=c++20", "-shared", "-fPIC", f"-I{ROOT / 'emulator'}", *sources)
    built = cc(MODEL / "device_model.cpp", *(flag for flag in flags if not flag.endswith("/device_model.cpp")))
    out = subprocess.run(["nm", "-D", "-u", built], check=True, capture_output=True, text=True).stdout
    needed = {line.split()[-1].split("@")[0] for line in out.splitlines()}
    system = re.compile(r"pthread|shm_|mmap|clock|time|open|read|write|syscall|getpid|getenv|sleep|futex")
    assert {name for name in needed if system.search(name) and not name.startswith("_Z")} == set()


def test_bench_model_writes_its_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.json"
    monkeypatch.setattr(model, "ROUNDS", 1)
    monkeypatch.setattr(model, "POLICIES", ("budget",))
    monkeypatch.setattr(sys, "argv", ["bench", "model", "--json", str(file)])
    assert main() == 0
    written = json.loads(file.read_text())
    assert "emulated" in capsys.readouterr().out
    assert len(written["samples"]["simulated_budget_mkernels_per_s"]) == 1
    assert written["emulated"] is True
    # No claim about speed on a busy machine: an order of magnitude below what it takes there.
    assert 1 < written["values"]["kernel_ns_2"] < 10_000
    assert len(written["samples"]["kernel_ns_10"]) >= 10
