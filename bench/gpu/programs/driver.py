"""The CUDA driver by itself, without a framework: what programs here do that run wherever there is a driver.

`Driver().kernel(ns)` launches a kernel that takes so long; on the emulated GPU, too, which knows fikit_spin by its name, and emu_increment, of which
it writes the first word only.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

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
.visible .entry emu_increment(.param .u64 at, .param .u64 words, .param .u64 stride)
{
 .reg .pred %over;
 .reg .b32 %x, %thread, %block, %threads, %blocks;
 .reg .b64 %begin, %i, %step, %count, %bytes, %word;
 ld.param.u64 %begin, [at];
 ld.param.u64 %count, [words];
 ld.param.u64 %bytes, [stride];
 cvta.to.global.u64 %begin, %begin;
 mov.u32 %thread, %tid.x;
 mov.u32 %block, %ctaid.x;
 mov.u32 %threads, %ntid.x;
 mov.u32 %blocks, %nctaid.x;
 cvt.u64.u32 %i, %thread;
 mad.wide.u32 %i, %block, %threads, %i;
 mul.wide.u32 %step, %threads, %blocks;
next:
 setp.ge.u64 %over, %i, %count;
 @%over ret;
 mad.lo.u64 %word, %i, %bytes, %begin;
 ld.global.u32 %x, [%word];
 add.u32 %x, %x, 1;
 st.global.u32 [%word], %x;
 add.u64 %i, %i, %step;
 bra next;
}
"""
THREADS, MOST_BLOCKS = 256, 1024


@dataclass(frozen=True)
class Memory:
    at: int
    bytes: int


class Driver:
    """A context on the first GPU, and a stream."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._kernel, self._increment, self._stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        self._do("cuInit", 0)
        self._do("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
        self._do("cuModuleLoadData", ctypes.byref(module), PTX)
        self._do("cuModuleGetFunction", ctypes.byref(self._kernel), module, b"fikit_spin")
        self._do("cuModuleGetFunction", ctypes.byref(self._increment), module, b"emu_increment")
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

    def memory(self, size: int) -> Memory:
        """Plain, and all zeros."""
        at = ctypes.c_uint64()
        self._do("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        self._do("cuMemsetD8_v2", at, 0, ctypes.c_size_t(size))
        return Memory(at.value, size)

    def word(self, memory: Memory) -> int:
        """Its first one."""
        found = ctypes.c_uint32()
        self._do("cuMemcpyDtoH_v2", ctypes.byref(found), ctypes.c_uint64(memory.at), ctypes.c_size_t(4))
        return found.value

    def kernel(self, ns: int, blocks: int) -> None:
        self._start(self._kernel, blocks, ns)

    def increment(self, memory: Memory, stride: int) -> None:
        """Adds 1 to a word in every `stride` bytes."""
        words = memory.bytes // stride
        self._start(self._increment, max(1, min(words // THREADS, MOST_BLOCKS)), memory.at, words, stride)

    def _start(self, kernel: ctypes.c_void_p, blocks: int, *numbers: int) -> None:
        values = [ctypes.c_uint64(number) for number in numbers]
        parameters = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        code = self._launch(kernel, blocks, 1, 1, THREADS, 1, 1, 0, self._stream, parameters, None)
        if code != 0:
            raise RuntimeError(f"cuLaunchKernel gave {code}")

    def wait(self) -> None:
        self._do("cuStreamSynchronize", self._stream)
