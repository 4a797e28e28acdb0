"""`python -m bench measure` compares all ways of timing and keeps its samples. What it measures is not tested here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RUN = [sys.executable, "-m", "bench", "measure"]


def test_measure_bench_compares_the_ways_of_timing(tmp_path: Path) -> None:
    file = tmp_path / "measure.json"
    command = [*RUN, "--json", str(file), "--repeats", "1", "--rounds", "6"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "emulated" in done.stdout
    record = json.loads(file.read_text())
    assert record["emulated"] is True
    for work in ("inference", "training"):
        for way in ("gated", "sampled", "measured"):
            assert record["values"][f"{work}_{way}_ratio"] > 0.5
            assert len(record["samples"][f"{work}_{way}_ratio"]) == 1
        assert f"{work}_sampled_overhead_percent" in record["values"]


def test_measure_bench_says_what_it_cannot_do() -> None:
    done = subprocess.run([*RUN, "--repeats", "0"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        1, "bench measure: --repeats must be 1 or more, and --rounds 4 or more\n"
    )  # fmt: skip
