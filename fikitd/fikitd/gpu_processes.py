"""This node's GPUs and the processes that NVML sees on them, as JSON: `python -m fikitd.gpu_processes`.

A program of its own: the driver is the machine's, it may hang or crash, and fikitd itself never loads it. With `--view` also what only
people look at: how busy each GPU is, and whose its processes are.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pynvml

from fikitd.jobs import identify

RECENT_S: Final = 2.0  # who computed then computes now
PROC: Final = Path("/proc")


def devices(view: bool = False) -> list[dict[str, Any]]:
    """Every GPU, or the MIG instances that it is split into, with its processes. Raises pynvml.NVMLError.

    `index`: how NVML counts the GPUs; `minor`: N of the device file /dev/nvidiaN, None where NVML does not tell; of an instance those
    of its GPU. `compute_mode`: as NVML numbers them. `processes`: ids; `used_bytes`: by id, where NVML tells; `busy`: who computed lately, None where NVML does not tell. With `view` also `use` (0 to 1), `held_bytes` and `power_w`, None where NVML does not tell, and `owners`: by
    process `{"job", "uid"}`, None where there is none, or nobody says it.
    """
    return [
        _described(device, index, gpu, mig) | (_viewed(device, gpu, mig) if view else {})
        for index in range(pynvml.nvmlDeviceGetCount())
        for gpu in [pynvml.nvmlDeviceGetHandleByIndex(index)]
        for mig, device in _parts(gpu)
    ]


def _described(device: Any, index: int, gpu: Any, mig: bool) -> dict[str, Any]:
    processes = [*pynvml.nvmlDeviceGetComputeRunningProcesses(device), *_mps_clients(device)]
    return {
        "name": pynvml.nvmlDeviceGetName(device),
        "uuid": pynvml.nvmlDeviceGetUUID(device),
        "index": index,
        "minor": _minor(gpu),
        "mig": mig,
        "memory_bytes": pynvml.nvmlDeviceGetMemoryInfo(device).total,
        "compute_mode": _compute_mode(gpu),
        "processes": list(dict.fromkeys(process.pid for process in processes)),
        "used_bytes": {str(process.pid): process.usedGpuMemory for process in processes if process.usedGpuMemory},
        "busy": None if mig else _busy(device),
    }


def _viewed(device: Any, gpu: Any, mig: bool) -> dict[str, Any]:
    pids = [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(device) + _mps_clients(device)]
    return {
        "use": None if mig else _told(lambda: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100),
        "held_bytes": _told(lambda: pynvml.nvmlDeviceGetMemoryInfo(device).used),
        "power_w": None if mig else _told(lambda: pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000),
        "owners": {str(pid): {"job": identify.job_of_process(PROC, pid), "uid": _uid(pid)} for pid in pids},
    }


def _told(ask: Callable[[], float]) -> float | None:
    try:
        return ask()
    except pynvml.NVMLError:
        return None


def _uid(pid: int) -> int | None:
    try:
        return (PROC / str(pid)).stat().st_uid
    except OSError:
        return None


def _minor(gpu: Any) -> int | None:
    try:
        return int(pynvml.nvmlDeviceGetMinorNumber(gpu))
    except pynvml.NVMLError:
        return None


def _mps_clients(device: Any) -> list[Any]:
    """Clients of MPS, whom NVML may list apart."""
    try:
        return list(pynvml.nvmlDeviceGetMPSComputeRunningProcesses(device))
    except pynvml.NVMLError:
        return []


def _compute_mode(gpu: Any) -> int | None:
    try:
        return int(pynvml.nvmlDeviceGetComputeMode(gpu))
    except pynvml.NVMLError:
        return None


def _busy(device: Any) -> list[int] | None:
    since_us = int((time.time() - RECENT_S) * 1e6)
    try:
        return sorted({s.pid for s in pynvml.nvmlDeviceGetProcessUtilization(device, since_us) if s.smUtil > 0})
    except pynvml.NVMLError_NotFound:  # nobody did
        return []
    except pynvml.NVMLError:
        return None


def _parts(gpu: Any) -> list[tuple[bool, Any]]:
    """What programs can use of a GPU, and whether that is an instance: itself, or its instances."""
    try:
        split = pynvml.nvmlDeviceGetMigMode(gpu)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    except pynvml.NVMLError_NotSupported:
        split = False
    if not split:
        return [(False, gpu)]
    parts = []
    for number in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        with suppress(pynvml.NVMLError_NotFound):
            parts.append((True, pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, number)))
    return parts


def main() -> None:
    """Print the devices, or as a string why NVML tells none. Any other end of this program is no answer of NVML's."""
    try:
        pynvml.nvmlInit()
        answer: list[dict[str, Any]] | str = devices("--view" in sys.argv[1:])
    except pynvml.NVMLError as error:
        answer = str(error)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
