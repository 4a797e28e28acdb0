"""The CUDA driver by itself, without a framework: what programs here do that run wherever there is a driver.

`Driver().kernel(ns)` launches a kernel that takes so long; on the emulated GPU, too, which knows fikit_spin by its name.
"""

from __future__ import annotations

import ctypes

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry fikit_spin(.param .u64 ns)
{
 .reg .pred %early;
 .reg .b64 %now, %end;
 ld.param.u64 %end, [ns];
 mov.u64 %now, %globaltimer;
 add.u64 %end, %end, %now;
again:
 mov.u64 %now, %globaltimer;
 setp.lt.u64 %early, %now, %end;
 @%early bra again;
 ret;
}
"""
THREADS = 256


class Driver:
    """A context on the first GPU, and a stream."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._kernel, self._stream = ctypes.c_void_p(), ctypes.c_void_p()
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        self._do("cuInit", 0)
        self._do("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
        self._do("cuModuleLoadData", ctypes.byref(module), PTX)
        self._do("cuModuleGetFunction", ctypes.byref(self._kernel), module, b"fikit_spin")
        self._do("cuStreamCreate", ctypes.byref(self._stream), 1)
        self._launch = self._library.cuLaunchKernel
        self._context = context

    def _do(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} gave {code}")

    def enter(self) -> None:
        """Makes the context this thread's."""
        self._do("cuCtxSetCurrent", self._context)

    def kernel(self, ns: int, blocks: int) -> None:
        duration = ctypes.c_uint64(ns)
        parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(duration), ctypes.c_void_p))
        code = self._launch(self._kernel, blocks, 1, 1, THREADS, 1, 1, 0, self._stream, parameters, None)
        if code != 0:
            raise RuntimeError(f"cuLaunchKernel gave {code}")

    def wait(self) -> None:
        self._do("cuStreamSynchronize", self._stream)
