"""For tests of bench/gpu."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_machine import Machine

from bench.gpu import processes
from bench.gpu.place import Place, place
from bench.record import ROOT

Env = Callable[..., dict[str, str]]


@pytest.fixture
def machine(tmp_path: Path, native: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "bare", native)
    yield machine
    env = {**os.environ, "EMUCUDA_NAME": machine.name}
    subprocess.run([native / "bin" / "emuctl", "reset"], env=env, check=False, capture_output=True)


@pytest.fixture
def bench_env(emulator_env: Env) -> dict[str, str]:
    return emulator_env(PYTHONPATH=str(ROOT))


@pytest.fixture
def somewhere(bench_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    for variable in ("LD_LIBRARY_PATH", "EMUCUDA_NAME", "PYTHONPATH"):
        monkeypatch.setenv(variable, bench_env[variable])
    with place() as made:
        yield made
    processes.end_all()
