"""In a child of tests: the driver API by ctypes, and the kernel fikit_spin, on whatever libcuda.so.1 the loader finds."""

from __future__ import annotations

import ctypes
import time

cu = ctypes.CDLL("libcuda.so.1")
Handle = ctypes.c_void_p
DEPENDENT = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", Handle),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    ]


def check(result: int) -> None:
    if result:
        raise SystemExit(f"the driver says {result}")


def context() -> None:
    check(cu.cuInit(0))
    made = Handle()
    check(cu.cuCtxCreate_v2(ctypes.byref(made), 0, 0))


def function(name: str = "fikit_spin") -> Handle:
    module, found = Handle(), Handle()
    text = f".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry {name}(.param .u64 ns) {{ ret; }}\n"
    check(cu.cuModuleLoadData(ctypes.byref(module), text.encode() + b"\0"))
    check(cu.cuModuleGetFunction(ctypes.byref(found), module, name.encode()))
    return found


def stream() -> Handle:
    made = Handle()
    check(cu.cuStreamCreate(ctypes.byref(made), 1))
    return made


def event() -> Handle:
    made = Handle()
    check(cu.cuEventCreate(ctypes.byref(made), 0))
    return made


def record(at: Handle, on: Handle | None = None) -> None:
    check(cu.cuEventRecord(at, on))


def elapsed_us(start: Handle, end: Handle) -> float:
    ms = ctypes.c_float()
    check(cu.cuEventElapsedTime(ctypes.byref(ms), start, end))
    return ms.value * 1e3


def spin(kernel: Handle, us: float, on: Handle | None = None, grid: int = 1, *, dependent: bool = False) -> None:
    ns = ctypes.c_uint64(int(us * 1e3))
    arguments = (Handle * 1)(ctypes.addressof(ns))
    if dependent:
        attribute = Attribute(DEPENDENT, 0, (ctypes.c_int * 16)(1))
        shape = (ctypes.c_uint * 3)(grid, 1, 1), (ctypes.c_uint * 3)(32, 1, 1)
        config = Config(*shape, 0, on, ctypes.pointer(attribute), 1)
        check(cu.cuLaunchKernelEx(ctypes.byref(config), kernel, arguments, None))
    else:
        check(cu.cuLaunchKernel(kernel, grid, 1, 1, 32, 1, 1, 0, on, arguments, None))


def synchronize() -> None:
    check(cu.cuCtxSynchronize())


def now_us() -> float:
    return time.monotonic() * 1e6
