"""`python -m bench.gpu.probe`: which GPU and driver this is, as JSON. A process of its own: even that may hang."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

NAME_BYTES = 256
ATTRIBUTES = {"multiprocessors": 16, "compute_mode": 20, "major": 75, "minor": 76, "stream_memory": 122}
MODES = {0: "default", 1: "exclusive", 2: "prohibited", 3: "exclusive_process"}


def look() -> dict[str, Any]:
    """SystemExit with a sentence where there is no GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise SystemExit(f"there is no CUDA driver on this machine: {error}") from None
    if (code := driver.cuInit(0)) != 0:
        raise SystemExit(f"the CUDA driver found no GPU that it can use: cuInit gave {code}")
    name, memory, count, version = (
        ctypes.create_string_buffer(NAME_BYTES),
        ctypes.c_size_t(),
        ctypes.c_int(),
        ctypes.c_int(),
    )
    if (code := driver.cuDeviceGetName(name, NAME_BYTES, 0)) != 0:
        raise SystemExit(f"the CUDA driver has no first GPU: cuDeviceGetName gave {code}")
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), 0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    driver.cuDriverGetVersion(ctypes.byref(version))
    uuid = (ctypes.c_ubyte * 16)()
    driver.cuDeviceGetUuid(uuid, 0)
    found: dict[str, Any] = {}
    for key, attribute in ATTRIBUTES.items():
        value = ctypes.c_int()
        found[key] = value.value if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0) == 0 else None
    text = name.value.decode(errors="replace")
    libraries = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libcuda.so" in line}
    return {
        "name": text, "memory_bytes": memory.value, "count": count.value, "cuda_version": version.value,
        "multiprocessors": found["multiprocessors"], "compute_mode": MODES.get(found["compute_mode"], "unknown"),
        "compute_capability": f"{found['major']}.{found['minor']}", "stream_memory_operations": bool(found["stream_memory"]),
        "mig": "MIG" in text, "emulated": "Emulated" in text, "library": min(libraries, default=""),
        "driver": _kernel_driver(), "uuid": f"GPU-{UUID(bytes=bytes(uuid))}",
    }  # fmt: skip


def _kernel_driver() -> str:
    try:
        return Path("/proc/driver/nvidia/version").read_text(errors="replace").splitlines()[0]
    except (OSError, IndexError):
        return ""


if __name__ == "__main__":
    json.dump(look(), sys.stdout)
