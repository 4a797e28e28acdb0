"""The bench for real GPUs, tried on the emulated one: whoever gets a GPU for ten minutes must not find it broken."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.parts import Setting, coverage
from bench.gpu.programs import Managed, run, site
from bench.record import ROOT, BenchError


def bench(tmp_path: Path, *parts: str) -> dict[str, Any]:
    file = tmp_path / "gpu.json"
    command = [sys.executable, "-m", "bench.gpu", "--emulated", "--seconds", "0.2", "--json", str(file)]
    done = subprocess.run([*command, "--parts", *parts], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert found["emulated"] is True
    assert "Emulated" in found["settings"]["device"]
    return dict(found["parts"])


def test_pairs_say_what_the_high_job_pays_and_what_the_low_one_gets(tmp_path: Path) -> None:
    found = bench(tmp_path, "pairs", "--policies", "prio")
    ways = found["pairs"]["tinygrad+tinygrad"]
    assert 0 < ways["high_busy"] < 1
    assert {"default", "prio"} < set(ways)
    for way in ("default", "prio"):
        assert ways[way]["high_p50_ratio"] > 0  # how busy the machine is decides it as well
        assert ways[way]["low_speed"] > 0
        assert ways[way]["harvest"] > 0


def test_a_program_that_cannot_start_costs_its_own_line_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # a cupy that is broken, whether or not one is installed
    (tmp_path / "cupy.py").write_text("raise ImportError('no cupy today')\n")
    with tempfile.TemporaryDirectory() as short:  # sockets' paths have 107 bytes
        found = coverage(Setting(Path(short), True, 0.1, ("cupy", "tinygrad"), (), ()))
    assert found["cupy"] == {"error": "cupy: ImportError: no cupy today"}
    assert found["tinygrad"].get("fikit", 0) > 0, found


def test_a_program_that_runs_unmanaged_is_not_counted_as_managed(tmp_path: Path) -> None:
    with site(tmp_path, True) as place:
        (place.root / "run").mkdir()
        (place.root / "run" / "fikitd.sock").mkdir()  # where the daemon's socket should be: it cannot start
        with pytest.raises(BenchError, match="tinygrad ran unmanaged"):
            run(place, "tinygrad", Managed(), "--seconds", "0.1")
