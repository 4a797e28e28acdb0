"""Which processes NVML sees on this node's GPUs, as JSON: `python -m fikitd.gpu_processes`.

A program of its own: the driver is the machine's, it may hang or crash, and fikitd itself never loads it.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any

import pynvml


def devices() -> list[dict[str, Any]]:
    """Every GPU, or the MIG instances that it is split into, with its processes' ids. Raises pynvml.NVMLError."""
    return [
        {
            "name": pynvml.nvmlDeviceGetName(device),
            "uuid": pynvml.nvmlDeviceGetUUID(device),
            "memory_bytes": pynvml.nvmlDeviceGetMemoryInfo(device).total,
            "processes": [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(device)],
        }
        for index in range(pynvml.nvmlDeviceGetCount())
        for device in _parts(pynvml.nvmlDeviceGetHandleByIndex(index))
    ]


def _parts(gpu: Any) -> list[Any]:
    """What programs can use of a GPU: itself, or its instances."""
    try:
        split = pynvml.nvmlDeviceGetMigMode(gpu)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    except pynvml.NVMLError_NotSupported:
        split = False
    if not split:
        return [gpu]
    parts = []
    for number in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        with suppress(pynvml.NVMLError_NotFound):
            parts.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, number))
    return parts


def main() -> int:
    try:
        pynvml.nvmlInit()
        print(json.dumps(devices()))
    except pynvml.NVMLError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
