"""Which processes NVML sees on this node's GPUs, as JSON: `python -m fikitd.gpu_processes`.

A program of its own: the driver is the machine's, it may hang or crash, and fikitd itself never loads it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pynvml


def devices() -> list[dict[str, Any]]:
    """Every GPU with its processes' ids. Raises pynvml.NVMLError."""
    found = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        device = pynvml.nvmlDeviceGetHandleByIndex(index)
        found.append(
            {
                "name": pynvml.nvmlDeviceGetName(device),
                "uuid": pynvml.nvmlDeviceGetUUID(device),
                "memory_bytes": pynvml.nvmlDeviceGetMemoryInfo(device).total,
                "processes": [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(device)],
            }
        )
    return found


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
