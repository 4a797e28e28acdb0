"""fikit-replay: recordings played on the device model in manual time, and through the emulated driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import ROOT, stats

sys.path.insert(0, str(ROOT))
from bench import recordings
from bench.emulator import replay

Env = Callable[..., dict[str, str]]
Play = Callable[..., dict[str, Any]]

RECORDED = sorted(recordings.RECORDED.glob("*.csv.gz"))
NAMES = {
    0: "gemm<float>(int, int)",
    1: "Memset (Device)",
    2: "Memcpy HtoD (Pageable -> Device)",
    3: "Memcpy DtoH (Device -> Pageable)",
    4: "sync",
}


def recording(*events: tuple[str, float, float, float, float, int, int]) -> bytes:
    """Text of (type, host_ts, host_dur, dev_start, dev_dur, stream, name) in us."""
    lines = [f"#N {number} {name}" for number, name in NAMES.items()]
    for kind, host, call, start, duration, stream, name in events:
        device = f"{start},{duration},{stream}" if kind != "S" else ",0.0,"
        lines.append(f"{kind},{host},{call},{device},8,1,1,64,1,1,32,0,{64 if kind == 'M' else ''},{name},0")
    return "\n".join([*lines, ""]).encode()


@pytest.fixture
def play(native: Path) -> Play:
    """Play a recording; what fikit-replay printed."""

    def run(text: bytes, *arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
        command = [native / "bin/fikit-replay", *(arguments or ("model",))]
        done = subprocess.run(command, input=text, env=env, capture_output=True, check=False, timeout=100)
        assert done.returncode == 0, done.stderr.decode()
        return dict(json.loads(done.stdout))

    return run


@pytest.mark.parametrize("make", [recordings.inference, recordings.training])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_made_up_recording_takes_as_long_again(play: Play, make: Callable[[int], recordings.Made], seed: int) -> None:
    played = play(make(seed).text())
    assert 0.97 < played["replayed_ms"] / played["recorded_ms"] < 1.03


@pytest.mark.skipif(not RECORDED, reason="the recorded timelines are not beside this repository")
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.split(".")[0])
def test_recorded_timeline_takes_as_long_again(play: Play, path: Path) -> None:
    played = play(recordings.recordings(path.parent)[path.name.split(".csv")[0]])
    assert 0.95 <= played["replayed_ms"] / played["recorded_ms"] <= 1.05


def test_long_call_on_a_busy_device_is_back_pressure(play: Play) -> None:
    # The first kernel covers the second call, whatever that call took: three kernels end to end.
    played = play(
        recording(("K", 0, 5, 8, 5000, 7, 0), ("K", 10, 3000, 5008, 100, 7, 0), ("K", 3010, 5, 5108, 100, 7, 0))
    )
    assert played["replayed_ms"] == pytest.approx(5.200, abs=0.001)


def test_long_call_on_an_idle_device_is_the_hosts_own_time(play: Play) -> None:
    played = play(
        recording(("K", 0, 5, 8, 10, 7, 0), ("K", 100, 3000, 3095, 100, 7, 0), ("K", 3110, 5, 3118, 10, 7, 0))
    )
    assert played["replayed_ms"] == pytest.approx(played["recorded_ms"], rel=0.005)


def test_pageable_copy_to_the_host_makes_it_wait(play: Play) -> None:
    played = play(
        recording(("K", 0, 5, 8, 1000, 7, 0), ("M", 10, 1010, 1008, 10, 7, 3), ("K", 1120, 5, 1128, 10, 7, 0))
    )
    assert played["replayed_ms"] == pytest.approx(1.130, abs=0.005)


def test_long_call_that_returned_before_its_copy_began_waited_for_room_only(play: Play) -> None:
    # As if it had waited, the other stream's kernel would end after 6 ms instead of during the first one.
    events = (("K", 0, 5, 8, 5000, 7, 0), ("M", 10, 250, 5008, 2, 7, 1), ("K", 270, 5, 278, 1000, 20, 0))
    assert play(recording(*events))["replayed_ms"] == pytest.approx(5.002, abs=0.001)


def test_synchronisation_waits_for_all_streams(play: Play) -> None:
    events = (
        ("K", 0, 5, 8, 1000, 7, 0),
        ("K", 10, 5, 18, 2000, 20, 0),
        ("S", 20, 2000, 0, 0, 0, 4),
        ("K", 2120, 5, 2128, 10, 7, 0),
    )
    assert play(recording(*events))["replayed_ms"] == pytest.approx(2.130, abs=0.005)


def test_a_replayed_kernel_takes_the_share_of_the_device_that_the_recorded_one_took(
    native: Path, emulator_env: Env, tmp_path: Path
) -> None:
    """By its registers and its shared memory, as in the simulator: those of a rule for all kernels would be others'."""
    config = tmp_path / "device.toml"
    config.write_text(replay.device_config(1, {"launch_latency_us": 5.0, "kernel_gap_us": 1.0}))
    env = emulator_env(EMUCUDA_CONFIG=str(config), EMUCUDA_TRACE="on")
    kernels = [(32, 0), (255, 0), (32, 200_000)]
    lines = [
        *(f"#N {number} kernel_{number}" for number in range(3)),
        *(
            f"K,{10 * n},5,{10 * n + 8},10,7,132,1,1,256,1,1,{regs},{shared},,{n},0"
            for n, (regs, shared) in enumerate(kernels)
        ),
    ]
    text = "\n".join([*lines, ""]).encode()
    command = [native / "bin/fikit-replay", "driver"]
    subprocess.run(command, input=text, env=env, capture_output=True, check=True, timeout=100)
    shown = subprocess.run([native / "bin/emuctl", "trace", "--json"], env=env, capture_output=True, check=True)
    demands = [event["demand"] for event in json.loads(shown.stdout)["events"] if event["kind"] == "kernel"]
    # A multiprocessor holds 8 blocks of 256 threads, 1 by these registers, 1 by this shared memory; there are as many blocks as multiprocessors.
    assert demands == pytest.approx([1 / 8, 1, 1], abs=1e-6)


def test_unusable_line_is_named(native: Path) -> None:
    text = recording(("K", 0, 5, 8, 10, 7, 0)) + b"K,abc,5,8,10,7,1,1,1,1,1,1,0,0,,0,0\n"
    done = subprocess.run([native / "bin/fikit-replay", "model"], input=text, capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == "fikit-replay: couldn't use line 7: 'abc' in column 2 is no time in us\n"


def test_names_grids_copies_and_streams_reach_the_driver(
    native: Path, play: Play, emulator_env: Env, tmp_path: Path
) -> None:
    config = tmp_path / "device.toml"
    # Only a launch under its recorded name, with its recorded grid (8 blocks of 64), takes 2,048 us.
    config.write_text(
        '[device]\nname = "Emulated GPU"\nconcurrent_kernels = 8\n[[kernel]]\nmatch = "k0_*regs_gemm_float_int_int"\nns_per_thread = 4000.0\nbase_us = 0.0\n'
    )
    env = emulator_env(EMUCUDA_CONFIG=str(config))
    events = [("K", 10.0 * i, 5.0, 10.0 * i + 8, 10.0, stream, 0) for i, stream in enumerate((7, 20, 7))]
    played = play(recording(*events, ("M", 40, 5, 48, 2, 7, 2), ("M", 50, 5, 58, 2, 7, 3)), "driver", env=env)
    assert "Emulated" in played["device"]
    assert played["replayed_ms"] > 4.096  # two of the three in one stream
    (device,) = stats(native, env)
    (process,) = device["processes"]
    assert process["kernels"] == 3
    assert 4_096_000 <= process["busy_ns"] < 3 * 2_048_000  # the third ran beside them


def test_bench_replays_live_through_the_emulated_driver(tmp_path: Path) -> None:
    (tmp_path / "requests.csv").write_bytes(recordings.inference(1).text())
    file = tmp_path / "replay.json"
    command = [sys.executable, "-m", "bench", "replay", "--live", "--traces", str(tmp_path), "--json", str(file)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Emulated" in done.stdout
    (row,) = json.loads(file.read_text())["traces"]
    assert row["name"] == "requests"
    assert row["ratio"] == pytest.approx(row["replayed_ms"] / row["recorded_ms"])
    # No upper bound: a busy machine's host is late, and an inference waits for its host.
    assert row["ratio"] > 0.95


def test_bench_says_where_it_found_no_recording(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "replay", "--traces", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        f"bench replay: couldn't find a recording (*.csv.gz or *.csv) in {tmp_path}\n",
    )
