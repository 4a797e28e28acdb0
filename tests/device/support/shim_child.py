"""Imported by programs that run under the shim: a few driver calls through ctypes, and pauses for the test to steer."""

from __future__ import annotations

import ctypes
import os
import sys

cu = ctypes.CDLL("libcuda.so.1")
fake = ctypes.CDLL(os.environ["FAKE_CUDA"])  # the control functions of the stand-in driver


def check(result: int) -> None:
    if result != 0:
        raise SystemExit(f"driver call failed: {result}")


def context(device: int = 0) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    check(cu.cuInit(0))
    check(cu.cuCtxCreate_v2(ctypes.byref(handle), 0, device))
    return handle


def function(name: str, image: bytes = b".version 8.0") -> ctypes.c_void_p:
    module, handle = ctypes.c_void_p(), ctypes.c_void_p()
    check(cu.cuModuleLoadData(ctypes.byref(module), image))
    check(cu.cuModuleGetFunction(ctypes.byref(handle), module, name.encode()))
    return handle


def stream() -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    check(cu.cuStreamCreate(ctypes.byref(handle), 0))
    return handle


def launch(kernel: ctypes.c_void_p, on: ctypes.c_void_p | None = None, grid: int = 1, block: int = 1) -> int:
    return int(cu.cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, 0, on, None, None))


def calls(name: str) -> int:
    """How often the stand-in driver's function was really called."""
    return int(fake.fake_calls(name.encode()))


def say(*words: object) -> None:
    print(*words, flush=True)


def pause() -> None:
    """Wait for Program.go()."""
    sys.stdin.readline()
