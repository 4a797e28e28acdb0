"""`python -m bench progress` finds every idle moment of its job. How well it was believed is not tested here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_progress_bench_compares_every_idle_moment(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    command = [sys.executable, "-m", "bench", "progress", "--json", str(file), "--bursts", "20"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "emulated" in done.stdout
    record = json.loads(file.read_text())
    assert record["emulated"] is True
    assert record["settings"]["scale"] == 10
    assert len(record["samples"]["marked_error_us"]) >= 15
    assert 0 < record["values"]["marked_p50_us"] <= record["values"]["marked_p99_us"]
    assert record["values"]["marked_known"] >= 0.75
