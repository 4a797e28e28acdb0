"""bench pairs --live: two recordings as real programs under a real fikitd, beside the same in manual time.

How near the two are is a matter of a quiet machine: `python -m bench pairs --live` says it. Here is what a busy one does not
move: without gates the device's queue decides, and with priority the high job's work hardly ever stands behind lower work.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import ROOT
from fikitd.simulation.simulator import MERGED

sys.path.insert(0, str(ROOT))
from bench import recordings
from bench.live import live_pairs
from bench.live import stages as live

SECONDS = 0.4
NAMES = ("serve", "train")


def without_gates(directory: Path, texts: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Under `fifo`: what the simulator says, and what was measured."""
    book = live_pairs.Book(directory, texts, SECONDS, MERGED)
    case = live_pairs.Case.of(book, "serve + train", NAMES, "closed")
    with live.stage(directory, live_pairs.STRETCH, {"policy": "fifo"}) as stage:
        measured, seen = live_pairs.measure(stage, book, case)
    assert seen == live_pairs.Reactions()  # nobody waits at a gate
    return case.simulate("fifo", seen), measured


def by_command(traces: Path, policy: str, *more: str) -> tuple[dict[str, Any], str]:
    """Its row of the one case, and what it said of its progress."""
    file = traces / "out.json"
    options = ["--traces", str(traces), "--pairs", "serve + train", "--arrivals", "closed", "--seconds", str(SECONDS)]
    command = [
        sys.executable,
        "-m",
        "bench",
        "pairs",
        "--live",
        *options,
        "--policy",
        policy,
        *more,
        "--json",
        str(file),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "emulated" in done.stdout
    (row,) = json.loads(file.read_text())["cases"]
    return dict(row), done.stderr


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A directory with two made recordings."""
    directory = tmp_path / "traces"
    directory.mkdir()
    for name, made in (("serve", recordings.inference(1)), ("train", recordings.training(1))):
        (directory / f"{name}.csv").write_bytes(made.text())
    return directory


def test_live_pairs_do_on_the_device_what_the_simulator_says(tmp_path: Path, traces: Path) -> None:
    simulated, fifo = without_gates(tmp_path, recordings.recordings(traces))
    assert simulated["high_jct_ratio"] > 1.4
    assert 1.2 < fifo["high_jct_ratio"] < 2.4
    assert 0.7 < fifo["harvest"] < 1.3
    for _ in range(3):  # where others compute, a high job's host may be late too
        row, _ = by_command(traces, "prio")
        (prio,) = row["live"]
        if 3 * prio["delayed_ms"] < fifo["delayed_ms"]:
            break
    assert 0 < 3 * prio["delayed_ms"] < fifo["delayed_ms"]
    assert 0 < prio["harvest"] < fifo["harvest"]
    for shares in (prio["low_time"], row["simulated"]["low_time"]):
        assert sum(shares.values()) == pytest.approx(1)
        assert 0 < shares["runs"] < 1
    assert prio["low_time"]["held"] > 0
    assert fifo["low_time"]["held"] == 0
    seen = row["reactions_us"]
    assert seen["wake"]["count"] == seen["observe"]["count"] > 20
    assert 0 < seen["wake"]["p50"] < 100_000


def test_with_mps_the_low_job_has_what_the_simulator_says_and_a_later_call_goes_on(traces: Path) -> None:
    """Kernels of both overlap: without gates the low one has nearly all that the other's demand leaves."""
    options = ("--device", "mps", "--resume", str(traces / "kept"))
    row, said = by_command(traces, "fifo", *options)
    assert "1/1  serve + train closed, round 1" in said
    (live,) = row["live"]
    assert 0.7 < live["harvest"] / row["simulated"]["harvest"] < 1.3
    again, said = by_command(traces, "fifo", *options)
    assert said == ""
    assert again["live"] == row["live"]


def test_fikitd_measures_the_switch_of_the_device(traces: Path) -> None:
    """In some rounds on a busy machine its reports are too far apart to say: then it says nothing."""
    options = ("--device", "slices", "--switch", "200us", "--seconds", "4")
    for _ in range(4):
        row, said = by_command(traces, "prio", *options)
        (found,) = [seen["switch_us"] for seen in row["live"]]
        if found is not None:
            break
    assert found == pytest.approx(200, rel=0.2)
    assert f"switch {found:.0f} us" in said
