"""What the emulated GPU costs: ns per launch, CPU of an idle device, many clients and many devices at once."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.record import BenchError, Result
from fikitd import paths

ABOUT = "cost of the emulated GPU itself"
ROUNDS, LAUNCHES = 300, 100
IDLE_MS = 2000
CLIENTS, KERNELS, KERNEL_US = 64, 50, 100
DEVICES = 8


class _Devices:
    """A set of emulated devices of this bench's own."""

    def __init__(self, directory: Path, count: int) -> None:
        config = directory / f"{count}.toml"
        config.write_text(f'[device]\ncount = {count}\n[[kernel]]\nmatch = "fikit_spin"\nduration = "param0_ns"\n')
        self.env = {
            **{key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES")},
            "LD_LIBRARY_PATH": str(paths.emulator_dir()),
            "EMUCUDA_CONFIG": str(config),
            "EMUCUDA_NAME": f"bench-{os.getpid()}-{count}",
        }

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        program = paths.native_dir() / "bin" / "fikit-emulator-bench"
        return subprocess.Popen(
            [program, *map(str, arguments)], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def emuctl(self, *arguments: str) -> str:
        command = [str(paths.emuctl()), *arguments]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False).stdout

    def stats(self) -> list[dict[str, Any]]:
        return list(json.loads(self.emuctl("stats", "--json"))["devices"])


def _finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate()
    if process.returncode != 0:
        raise BenchError((err.strip().splitlines() or ["it failed without a word"])[-1])
    return out


def _crowd(devices: _Devices) -> dict[str, float]:
    """Many clients on one device: how much longer they take than their kernels."""
    begin = time.monotonic()
    clients = [devices.start("work", KERNELS, KERNEL_US) for _ in range(CLIENTS)]
    for client in clients:
        _finish(client)
    wall_ms = (time.monotonic() - begin) * 1e3
    (device,) = devices.stats()
    kernels = sum(process["kernels"] for process in device["processes"])
    if kernels != CLIENTS * KERNELS:
        raise BenchError(f"{CLIENTS} clients ran {kernels} kernels instead of {CLIENTS * KERNELS}")
    return {"clients_wall_ms": wall_ms, "clients_busy_ms": device["busy_ns"] / 1e6}


def _farm(devices: _Devices) -> dict[str, float]:
    """One client that uses every device, one after the other."""
    begin = time.monotonic()
    _finish(devices.start("work", KERNELS, KERNEL_US))
    wall_ms = (time.monotonic() - begin) * 1e3
    kernels = [sum(process["kernels"] for process in device["processes"]) for device in devices.stats()]
    if kernels != [KERNELS] * DEVICES:
        raise BenchError(f"{DEVICES} devices ran {kernels} kernels instead of {KERNELS} each")
    return {"devices_wall_ms": wall_ms}


def run(*, emulated: bool) -> Result:
    """Measure; raises BenchError when a client fails or a kernel is missing."""
    if not emulated:
        raise BenchError("it is about the emulated GPU, leave --real away")
    with tempfile.TemporaryDirectory(prefix="fikit-bench-") as directory:
        one, many = _Devices(Path(directory), 1), _Devices(Path(directory), DEVICES)
        try:
            measured = json.loads(_finish(one.start("launch", ROUNDS, LAUNCHES)))
            idle_us = float(_finish(one.start("idle", IDLE_MS)))
            one.emuctl("reset")
            values = {**_crowd(one), **_farm(many), "idle_cpu_us_per_s": idle_us / IDLE_MS * 1e3}
        finally:
            one.emuctl("reset")
            many.emuctl("reset")
    samples = list(map(float, measured["launch_ns"]))
    tenths = statistics.quantiles(samples, n=10)
    values |= {"launch_ns": statistics.median(samples), "launch_p10_ns": tenths[0], "launch_p90_ns": tenths[8]}
    summary = (
        f"{measured['device']} (emulated): cuLaunchKernel {values['launch_ns']:.0f} ns "
        f"(p10 {tenths[0]:.0f}, p90 {tenths[8]:.0f}); idle {values['idle_cpu_us_per_s']:.0f} us of CPU a second; "
        f"{CLIENTS} clients {values['clients_wall_ms']:.0f} ms for {values['clients_busy_ms']:.0f} ms of kernels; "
        f"{DEVICES} devices {values['devices_wall_ms']:.0f} ms"
    )
    settings = {
        "rounds": ROUNDS, "launches_per_round": LAUNCHES, "idle_ms": IDLE_MS, "clients": CLIENTS,
        "kernels_per_client": KERNELS, "kernel_us": KERNEL_US, "devices": DEVICES,
    }  # fmt: skip
    return Result(summary, True, values, {"launch_ns": samples}, settings)
