"""`python -m bench launch` runs, counts every launch and keeps what D14 asks for. What it measures is not tested here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_launch_bench_keeps_its_raw_samples(tmp_path: Path) -> None:
    file = tmp_path / "launch.json"
    command = [sys.executable, "-m", "bench", "launch", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "emulated" in done.stdout
    record = json.loads(file.read_text())
    assert record["emulated"] is True
    assert {"cpu", "cores", "kernel"} <= set(record["machine"])
    assert record["command"].startswith("python -m bench launch")
    assert record["commit"]
    rounds = record["settings"]["rounds"]
    for threads in ("", "threads4_", "threads16_"):
        assert [len(record["samples"][f"{threads}{way}_ns"]) for way in ("direct", "shim")] == [rounds, rounds]
        launches = record["launches_by_ns"][f"{threads}shim_launches"]
        assert sum(launches.values()) == rounds * record["settings"]["launches_per_round"]
    assert 0 < record["values"]["direct_ns"] < record["values"]["shim_ns"]
