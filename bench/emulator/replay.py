"""Recorded GPU timelines, played again: does the device take as long for the same calls as the recorded one did?"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fikitd.simulation.simulator import MERGED, Device

from bench.record import BenchError, Result
from bench.recordings import recordings
from fikitd import paths

ABOUT = "recorded timelines on the device model, or through the driver (--live, --real)"
DILATION = 10.0  # of the emulated device, when live: a shared machine's jitter of 0.1 ms is 10 us of the recording
NS_PER_BYTE = 100.0  # its copy engines: a copy's size stands for its recorded time, whatever memory it came from

DEVICE = """\
[device]
name = "Emulated GPU (replay)"
dilation = {dilation}
launch_latency_us = {launch_latency_us}
kernel_gap_us = {kernel_gap_us}
concurrent_kernels = {concurrent_kernels}
sharing = "{sharing}"
slice_us = {slice_us}
switch_us = {switch_us}
mps_model = "{mps_model}"
mps_switch_us = {mps_switch_us}
overlap_slowdown = {overlap_slowdown}
[copy]
latency_us = 0.0
h2d_gbps = {gbps}
d2h_gbps = {gbps}
d2d_gbps = {gbps}
"""
KERNELS = """\
[[kernel]]
match = "{match}"
duration = "param0_ns"
registers = {registers}
"""
LIMITLESS = 1  # a thread with so few registers fits wherever one fits whose registers are not known
MOST_REGISTERS = 255


def device_config(
    dilation: float, like: Mapping[str, float], *, concurrent_kernels: int = 1, shared: Device = MERGED
) -> str:
    """A device.toml: the recorded device's launch latency and gap, shared by programs as `shared` says (by default one plays alone), and
    kernels and copies that take as long as they are told to. Kernels of `fikit-replay` have the registers of their names, and by them the
    same demand as simulated ones."""
    constants = {name: like[name] for name in ("launch_latency_us", "kernel_gap_us")}
    rules = [(f"k[0-9]*_{count}regs_*", count) for count in range(1, MOST_REGISTERS + 1)]
    kernels = (KERNELS.format(match=match, registers=count) for match, count in [*rules, ("*", LIMITLESS)])
    device = DEVICE.format(
        dilation=dilation, gbps=1 / NS_PER_BYTE, concurrent_kernels=concurrent_kernels, sharing=shared.sharing,
        slice_us=shared.slice_ns / 1e3, switch_us=shared.switch_ns / 1e3, mps_model=shared.mps_model,
        mps_switch_us=shared.mps_switch_ns / 1e3, overlap_slowdown=shared.overlap_slowdown, **constants,
    )  # fmt: skip
    return device + "".join(kernels)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument(
        "--traces",
        type=Path,
        metavar="DIR",
        help="recordings (*.csv.gz, *.csv), or one file; default: those of this project",
    )
    parser.add_argument("--live", action="store_true", help="in real time, through libcuda.so.1")


@contextmanager
def _emulated_device(like: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The environment of a slow emulated device of our own, with the recorded device's launch latency and gap."""
    with tempfile.TemporaryDirectory(prefix="fikit-replay-") as directory:
        config = Path(directory) / "device.toml"
        config.write_text(device_config(DILATION, like, concurrent_kernels=128))
        environment = {
            **os.environ,
            "EMUCUDA_CONFIG": str(config),
            "EMUCUDA_NAME": f"replay-{os.getpid()}",
            "LD_LIBRARY_PATH": str(paths.emulator_dir()),
        }
        try:
            yield environment
        finally:
            subprocess.run([paths.emuctl(), "reset"], env=environment, capture_output=True, check=False)


def _play(name: str, text: bytes, *arguments: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    command = [str(paths.native_dir() / "bin" / "fikit-replay"), *arguments]
    done = subprocess.run(command, input=text, env=environment, capture_output=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{name}: {(done.stderr.decode().strip().splitlines() or ['it failed without a word'])[-1]}")
    return dict(json.loads(done.stdout))


def _replay(name: str, text: bytes, *, live: bool, emulated: bool) -> dict[str, Any]:
    if not emulated:
        played = _play(name, text, "driver")
    else:
        played = _play(name, text, "model")
        if live:
            with _emulated_device(played) as environment:
                options = ("--dilation", str(DILATION), "--ns-per-byte", str(NS_PER_BYTE))
                played = _play(name, text, "driver", *options, environment=environment)
    return {"name": name, **played, "ratio": played["replayed_ms"] / played["recorded_ms"]}


def _table(rows: list[dict[str, Any]], title: str) -> str:
    width = max(len(row["name"]) for row in rows)
    lines = [title, f"{'recording':{width}}  {'events':>7}  {'recorded ms':>12}  {'replayed ms':>12}  {'ratio':>6}"]
    for row in rows:
        times = f"{row['recorded_ms']:12.3f}  {row['replayed_ms']:12.3f}  {row['ratio']:6.3f}"
        lines.append(f"{row['name']:{width}}  {row['events']:7}  {times}")
    return "\n".join(lines)


def run(*, emulated: bool, traces: Path | None = None, live: bool = False) -> Result:
    """Play every recording; raises BenchError when one cannot be played."""
    rows = [_replay(name, text, live=live, emulated=emulated) for name, text in recordings(traces).items()]
    how = f"live, dilation {DILATION:g}" if live else "manual time"
    title = f"{rows[0]['device']} (emulated), {how}" if emulated else f"{rows[0]['device']}, live"
    ratios = [row["ratio"] for row in rows]
    settings = {
        "live": live or not emulated,
        "dilation": DILATION if emulated and live else 1.0,
        "device": rows[0]["device"],
    }
    values = {"lowest_ratio": min(ratios), "highest_ratio": max(ratios)}
    return Result(_table(rows, title), emulated, values, {"ratio": ratios}, settings, details={"traces": rows})
