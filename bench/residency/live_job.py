"""A job of `bench residency --live`, as a program: python -m bench.residency.live_job high|low MIB SECONDS SLOWER [WARM_UP_S]. Prints one line of JSON at its end, of
the time after WARM_UP_S, by when fikitd knows the high job's rhythm.

The high one repeats a copy in, kernels and a busy host; a low one touches all its memory, a buffer after the other, again and again.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from typing import Final

from bench.residency.live_driver import begin, check, first_word

MIB: Final = 2**20
BUFFER: Final = 32  # MiB, which a low kernel of 1 ms touches: all of 6.4 GiB in 200 ms, as in the simulated case
PTX: Final = (
    b".version 7.0\n.target sm_70\n.address_size 64\n"
    b".visible .entry emu_increment(.param .u64 p)\n{\n ret;\n}\n.visible .entry fikit_spin(.param .u64 p)\n{\n ret;\n}\n\0"
)
KERNEL_NS: Final = 1_000_000  # of the device's time
COPY_BYTES: Final = 96_000_000  # 4 ms of a link of 24 GB/s
HIGH_KERNELS: Final = 36
HOST_NS: Final = 40_000_000
WARM_UP_S: Final = 20.0


class Program:
    """One context, two kernels, and memory."""

    def __init__(self, mib: int) -> None:
        self.cu, (self.increment, self.spin) = begin(PTX, "emu_increment", "fikit_spin")
        self.buffers = []
        for _ in range(mib // BUFFER):
            at = ctypes.c_void_p()
            check(self.cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(BUFFER * MIB)))
            check(self.cu.cuMemsetD8_v2(at, 0, ctypes.c_size_t(BUFFER * MIB)))
            self.buffers.append(ctypes.c_uint64(at.value or 0))
        self.synchronize()

    def launch(self, kernel: ctypes.c_void_p, argument: ctypes.c_uint64) -> None:
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
        check(self.cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, parameters, None))

    def synchronize(self) -> None:
        check(self.cu.cuCtxSynchronize())

    def counts(self) -> list[int]:
        """What the kernels have left in each buffer."""
        return [first_word(self.cu, at) for at in self.buffers]


def high(program: Program, seconds: float, slower: int, warm_up_s: float = WARM_UP_S) -> dict[str, object]:
    host = ctypes.create_string_buffer(COPY_BYTES)
    at, spins = program.buffers[0], ctypes.c_uint64(KERNEL_NS * slower)
    took = []
    start = time.monotonic()
    while (began := time.monotonic()) < start + warm_up_s + seconds:
        for part in range(0, COPY_BYTES, BUFFER * MIB):  # into one buffer: the link's time is what counts
            check(program.cu.cuMemcpyHtoD_v2(at, host, ctypes.c_size_t(min(BUFFER * MIB, COPY_BYTES - part))))
        for _ in range(HIGH_KERNELS):
            program.launch(program.spin, spins)
        program.synchronize()
        time.sleep(HOST_NS * slower / 1e9)
        if began >= start + warm_up_s:
            took.append(time.monotonic() - began)
    return {"took_s": took}


def low(program: Program, seconds: float) -> dict[str, object]:
    """Kernels that were done, and whether each has left its trace."""
    done, before, start = 0, 0, time.monotonic()
    expected = [0] * len(program.buffers)
    while (now := time.monotonic()) < start + WARM_UP_S + seconds:
        before = done if now < start + WARM_UP_S else before
        for _ in range(8):
            number = done % len(program.buffers)
            program.launch(program.increment, program.buffers[number])
            expected[number] += 1
            done += 1
        program.synchronize()
    return {"kernels": done - before, "right": program.counts() == expected}


def main() -> None:
    role, mib, seconds, slower, *warm_up_s = (
        sys.argv[1],
        int(sys.argv[2]),
        float(sys.argv[3]),
        int(sys.argv[4]),
        *sys.argv[5:],
    )
    program = Program(mib)
    print("ready", flush=True)
    sys.stdin.readline()
    print(
        json.dumps(high(program, seconds, slower, *map(float, warm_up_s)) if role == "high" else low(program, seconds)),
        flush=True,
    )


if __name__ == "__main__":
    main()
