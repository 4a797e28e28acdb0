"""`python -m bench.gpu [--json FILE]`: what only a GPU can tell, part by part; `run.sh` builds fikit and calls this.

The file is written anew after each part, so that a run that is cut short keeps what it found.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.gpu.parts import PARTS, Found, Setting, run_all
from bench.gpu.workload import WORKLOADS
from bench.record import ROOT, Result, write
from fikitd import config, paths

WORKLOADS_ON_GPU = tuple(name for name in WORKLOADS if name != "tinygrad")
PAIRS_ON_GPU = (("resnet50", "train"), ("bert", "train"), ("cuda_graph", "resnet50"))
NAME_BYTES = 256


def _device(emulated: bool) -> str:
    """Name of the first device; SystemExit with a sentence where there is none."""
    library = str(paths.emulator_dir() / "libcuda.so.1") if emulated else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        raise SystemExit(
            "bench.gpu: there is no CUDA driver on this machine, use --emulated to try the bench itself"
        ) from None
    name = ctypes.create_string_buffer(NAME_BYTES)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetName(name, NAME_BYTES, 0) != 0:
        raise SystemExit("bench.gpu: the CUDA driver found no GPU, use --emulated to try the bench itself")
    return name.value.decode()


def _table(pairs: Found) -> Table:
    """Who pays what: one line per pair and way of sharing."""
    table = Table(title="high job beside a low one, against the high job alone")
    for column in ("pair", "sharing", "high p50", "high p99", "low speed", "harvest"):
        table.add_column(column, justify="left" if column in ("pair", "sharing") else "right")
    for pair, ways in pairs.items():
        for way, found in ways.items():
            if isinstance(found, dict):
                keys = ("high_p50_ratio", "high_p99_ratio", "low_speed", "harvest")
                table.add_row(pair, way, *(f"{found[key]:.2f}" if key in found else "-" for key in keys))
        if "error" in ways:
            table.add_row(pair, ways["error"])
    return table


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/gpu/run.sh", description=__doc__.splitlines()[0])
    default = ROOT / "bench" / "results" / f"gpu-{datetime.now(UTC):%Y-%m-%d}.json"
    parser.add_argument(
        "--json", type=Path, default=default, metavar="FILE", help="default: bench/results/gpu-DATE.json"
    )
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART",
                        help=f"which of {', '.join(PARTS)}")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each measured piece of work")
    parser.add_argument(
        "--policies", nargs="+", choices=config.POLICIES, default=["prio", config.SchedulerConfig().policy]
    )
    parser.add_argument("--emulated", action="store_true", help="try the bench itself on the emulated GPU")
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    console = Console()
    if arguments.emulated:
        os.environ["EMUCUDA_NAME"] = f"bench-gpu-{os.getpid()}"
    device = _device(arguments.emulated)
    console.print(f"{device}, {len(arguments.parts)} parts -> {arguments.json}")
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="fikit-bench-gpu-") as directory:
        setting = Setting(
            Path(directory),
            arguments.emulated,
            arguments.seconds,
            ("tinygrad",) if arguments.emulated else WORKLOADS_ON_GPU,
            (("tinygrad", "tinygrad"),) if arguments.emulated else PAIRS_ON_GPU,
            tuple(dict.fromkeys(arguments.policies)),
        )
        begin = time.monotonic()
        for name, part in run_all(setting, arguments.parts):
            console.print(f"{time.monotonic() - begin:5.0f} s  {name}: {part.get('error', 'done')}")
            found[name] = part
            settings = {"device": device, "seconds": setting.seconds, "policies": setting.policies}
            write(arguments.json, "gpu", Result("", arguments.emulated, {}, {}, settings, {"parts": found}))
    if "error" not in found.get("pairs", {"error": ""}):
        console.print(_table(found["pairs"]))


if __name__ == "__main__":
    main()
