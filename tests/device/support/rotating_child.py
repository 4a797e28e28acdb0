"""Imported by programs whose memory does not fit beside that of others: buffers that a kernel increments, round after round."""

from __future__ import annotations

import ctypes
import time

from memory_child import MIB, alloc, check, context, cu, made, say

PTX = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry emu_increment(.param .u64 p)\n{\n ret;\n}\n\0"


def pattern(i: int, n: int) -> bytes:
    """Of a buffer, behind the counter at its beginning."""
    return (bytes((i * 37 + j) % 251 for j in range(251)) * (n // 251 + 1))[:n]


class Buffers:
    """`count` of `mib` each."""

    def __init__(self, count: int, mib: int) -> None:
        self.context = context()
        self.bytes, self.rounds = mib * MIB, 0
        module, self.kernel = ctypes.c_void_p(), ctypes.c_void_p()
        check(cu.cuModuleLoadData(ctypes.byref(module), PTX))
        check(cu.cuModuleGetFunction(ctypes.byref(self.kernel), module, b"emu_increment"))
        self.at = [made(alloc(self.bytes)) for _ in range(count)]
        for i, p in enumerate(self.at):
            content = bytes(4) + pattern(i, self.bytes - 4)
            check(cu.cuMemcpyHtoD_v2(ctypes.c_uint64(p), content, ctypes.c_size_t(self.bytes)))

    def go_round(self) -> None:
        """Touch all of it."""
        for p in self.at:
            argument = ctypes.c_uint64(p)
            parameters = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
            check(cu.cuLaunchKernel(self.kernel, 1, 1, 1, 1, 1, 1, 0, None, parameters, None))
        check(cu.cuCtxSynchronize())
        self.rounds += 1

    def go_on(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.go_round()

    def right(self) -> bool:
        """Every byte of every buffer."""
        for i, p in enumerate(self.at):
            out = ctypes.create_string_buffer(self.bytes)
            check(cu.cuMemcpyDtoH_v2(out, ctypes.c_uint64(p), ctypes.c_size_t(self.bytes)))
            if out.raw[:4] != self.rounds.to_bytes(4, "little") or out.raw[4:] != pattern(i, self.bytes - 4):
                return False
        return True


def main(count: int, mib: int, seconds: float) -> None:
    buffers = Buffers(count, mib)
    say("ready")
    buffers.go_on(seconds)
    say(buffers.right(), buffers.rounds)
