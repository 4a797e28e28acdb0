"""Imported by programs that run under the shim on the emulated GPU: the driver's memory calls through ctypes."""

from __future__ import annotations

import ctypes
import sys

MIB = 2**20
cu = ctypes.CDLL("libcuda.so.1")
OUT_OF_MEMORY = 2


class PoolProperties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("security", ctypes.c_void_p),
        ("max_bytes", ctypes.c_size_t),
        ("reserved", ctypes.c_ubyte * 56),
    )


def check(result: int) -> None:
    if result != 0:
        raise SystemExit(f"driver call failed: {result}")


def context() -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    check(cu.cuInit(0))
    check(cu.cuCtxCreate_v2(ctypes.byref(handle), 0, 0))
    return handle


def call(name: str, *arguments: object) -> tuple[int, int]:
    """(result, handle) of a call that makes something."""
    out = ctypes.c_void_p()
    return getattr(cu, name)(ctypes.byref(out), *arguments), out.value or 0


def alloc(bytes_: int) -> tuple[int, int]:
    return call("cuMemAlloc_v2", ctypes.c_size_t(bytes_))


def free(pointer: int) -> int:
    return int(cu.cuMemFree_v2(ctypes.c_uint64(pointer)))


def made(answer: tuple[int, int]) -> int:
    check(answer[0])
    return answer[1]


def pitched(width: int, height: int) -> tuple[int, int]:
    pitch = ctypes.c_size_t()
    return call("cuMemAllocPitch_v2", ctypes.byref(pitch), ctypes.c_size_t(width), ctypes.c_size_t(height), 4)


def managed(bytes_: int) -> tuple[int, int]:
    return call("cuMemAllocManaged", ctypes.c_size_t(bytes_), 1)


def stream_ordered(bytes_: int, name: str = "cuMemAllocAsync") -> tuple[int, int]:
    return call(name, ctypes.c_size_t(bytes_), None)


def from_pool(bytes_: int) -> tuple[int, int]:
    pool = made(call("cuMemPoolCreate", ctypes.byref(PoolProperties(type=1, location_type=1))))
    return call("cuMemAllocFromPoolAsync", ctypes.c_size_t(bytes_), ctypes.c_void_p(pool), None)


def free_async(pointer: int, name: str = "cuMemFreeAsync") -> int:
    return int(getattr(cu, name)(ctypes.c_uint64(pointer), None))


def info() -> tuple[int, int]:
    """(free, total) as cuMemGetInfo says."""
    free_bytes, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(cu.cuMemGetInfo_v2(ctypes.byref(free_bytes), ctypes.byref(total)))
    return free_bytes.value, total.value


def total_memory() -> int:
    total = ctypes.c_size_t()
    check(cu.cuDeviceTotalMem_v2(ctypes.byref(total), 0))
    return total.value


def say(*words: object) -> None:
    print(*words, flush=True)


def pause() -> None:
    """Wait for the test."""
    sys.stdin.readline()
