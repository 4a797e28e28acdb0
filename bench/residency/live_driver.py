"""The CUDA driver as the live programs of this bench use it: a context with kernels in it, and the first word of a piece of memory."""

from __future__ import annotations

import ctypes


def check(result: int) -> None:
    if result != 0:
        raise SystemExit(f"driver call failed: {result}")


def begin(ptx: bytes, *names: str) -> tuple[ctypes.CDLL, list[ctypes.c_void_p]]:
    """The driver with a context on the first GPU, and the kernels of these names."""
    cu = ctypes.CDLL("libcuda.so.1")
    context, module = ctypes.c_void_p(), ctypes.c_void_p()
    kernels = [ctypes.c_void_p() for _ in names]
    check(cu.cuInit(0))
    check(cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
    check(cu.cuModuleLoadData(ctypes.byref(module), ptx))
    for kernel, name in zip(kernels, names, strict=True):
        check(cu.cuModuleGetFunction(ctypes.byref(kernel), module, name.encode()))
    return cu, kernels


def first_word(cu: ctypes.CDLL, at: ctypes.c_uint64) -> int:
    """Of the GPU memory there."""
    found = ctypes.c_uint32()
    check(cu.cuMemcpyDtoH_v2(ctypes.byref(found), at, ctypes.c_size_t(4)))
    return found.value
