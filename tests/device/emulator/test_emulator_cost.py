"""What the emulated GPU may cost: an idle one nothing; and how many may use it. Times are the business of `python -m bench emulator`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import ROOT, stats

from fikitd import paths

Env = Callable[..., dict[str, str]]
SPIN = '[[kernel]]\nmatch = "fikit_spin"\nduration = "param0_ns"\n'


@pytest.fixture(scope="module")
def program() -> Path:
    return paths.native_dir() / "bin" / "fikit-emulator-bench"


def test_idle_device_costs_no_cpu(program: Path, emulator_env: Env) -> None:
    out = subprocess.run(
        [program, "idle", "500"], env=emulator_env(), check=True, capture_output=True, text=True
    ).stdout
    assert float(out) < 2000  # us in half a second; a thread that polls each millisecond would take more


def test_sixty_four_clients_on_one_device(native: Path, program: Path, emulator_env: Env) -> None:
    env = emulator_env()
    clients = [subprocess.Popen([program, "work", "20", "100"], env=env) for _ in range(64)]
    assert [client.wait(100) for client in clients] == [0] * 64
    (device,) = stats(native, env)
    assert [p["kernels"] for p in device["processes"]] == [20] * 64
    assert device["busy_ns"] == 64 * 20 * 100_000
    assert device["memory_used_bytes"] == 0


def test_eight_devices(native: Path, program: Path, emulator_env: Env, tmp_path: Path) -> None:
    (tmp_path / "eight.toml").write_text("[device]\ncount = 8\n" + SPIN)
    env = emulator_env(EMUCUDA_CONFIG=str(tmp_path / "eight.toml"))
    subprocess.run([program, "work", "20", "100"], env=env, check=True)
    assert [(d["index"], d["busy_ns"]) for d in stats(native, env)] == [(i, 2_000_000) for i in range(8)]


def test_bench_writes_its_samples(tmp_path: Path) -> None:
    file = tmp_path / "emulator.json"
    command = [sys.executable, "-m", "bench", "emulator", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    written = json.loads(file.read_text())
    assert "(emulated)" in done.stdout
    assert written["emulated"] is True
    assert len(written["samples"]["launch_ns"]) == written["settings"]["rounds"]
    assert {"launch_ns", "idle_cpu_us_per_s", "clients_wall_ms", "devices_wall_ms"} <= set(written["values"])
