"""A program that takes training steps, for `bench residency --live`: python -m bench.residency.live_step SCRIPT.

It says "ready", takes steps, and reads words: "begin" (the steps count from here), "end". At its end it prints one line of JSON: how long each step that counts
took, and whether the memory is right; after "enough" it has not looked, which it does in a step unlike the others. Each kernel adds 1 to the first word of the first block that it names.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

from bench.residency.live_driver import begin, check, first_word
from bench.residency.live_script import ARGUMENTS, STREAM_ORDER, Script, read

NAMES: Final = [f"p{number}" for number in range(ARGUMENTS)]
PTX: Final = (
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    f".visible .entry emu_increment({', '.join(f'.param .u64 {name}' for name in NAMES)})\n{{\n ret;\n}}\n\0"
).encode()
SMALL_BYTES: Final = 4096


class Program:
    """One context, one kernel, the script's memory."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._cu, (self._kernel,) = begin(PTX, "emu_increment")
        self._blocks = [ctypes.c_uint64() for _ in script.blocks]
        self._expected: Counter[int] = Counter()
        self._right = True
        self._in_order = script.manner == STREAM_ORDER
        small, none = ctypes.c_uint64(), ctypes.c_uint64(0)
        check(self._cu.cuMemAlloc_v2(ctypes.byref(small), ctypes.c_size_t(SMALL_BYTES)))
        for block in script.kept:
            self._take(block)
            self._clear(block)
        self._parameters = []
        for launch in script.launches:
            values = [self._blocks[block] for block in launch.blocks] or [small]
            values += [none] * (ARGUMENTS - len(values))
            self._parameters.append((ctypes.c_void_p * ARGUMENTS)(*(ctypes.addressof(value) for value in values)))
        self._held = (small, none)
        check(self._cu.cuCtxSynchronize())

    def step(self, *, looks: bool = False) -> None:
        """looks: whether what comes and goes within the step is right, too; slow."""
        for launch, parameters in zip(self._script.launches, self._parameters, strict=True):
            for block in launch.takes:
                self._take(block)
                if looks:
                    self._clear(block)
            check(self._cu.cuLaunchKernel(self._kernel, launch.grid, 1, 1, 1, 1, 1, 0, None, parameters, None))
            if launch.blocks:
                self._expected[launch.blocks[0]] += 1
            for block in launch.gives:
                self._right = self._right and (not looks or self._is_right(block))
                self._give(block)
        check(self._cu.cuCtxSynchronize())

    def right(self) -> bool:
        self.step(looks=True)
        return self._right and all(self._is_right(block) for block in self._script.kept)

    def _take(self, block: int) -> None:
        size, at = ctypes.c_size_t(self._script.blocks[block]), ctypes.byref(self._blocks[block])
        check(self._cu.cuMemAllocAsync(at, size, None) if self._in_order else self._cu.cuMemAlloc_v2(at, size))
        self._expected[block] = 0

    def _give(self, block: int) -> None:
        at = self._blocks[block]
        check(self._cu.cuMemFreeAsync(at, None) if self._in_order else self._cu.cuMemFree_v2(at))

    def _clear(self, block: int) -> None:
        check(self._cu.cuMemsetD8_v2(self._blocks[block], 0, ctypes.c_size_t(4)))

    def _is_right(self, block: int) -> bool:
        return first_word(self._cu, self._blocks[block]) == self._expected[block]


def _word() -> str:
    """Without waiting; "" where nobody has said one. Unbuffered: a step may last longer than it takes to say two."""
    found = b""
    while select.select([0], [], [], 0)[0] and (one := os.read(0, 1)) not in {b"\n", b""}:
        found += one
    return found.decode()


def main() -> None:
    program = Program(read(Path(sys.argv[1])))
    took: list[float] = []
    print("ready", flush=True)
    while (word := _word()) not in {"end", "enough"}:
        began = time.monotonic()
        if word == "begin":
            took.clear()
        program.step()
        took.append(time.monotonic() - began)
    print(json.dumps({"took_s": took, "right": word == "end" and program.right()}), flush=True)


if __name__ == "__main__":
    main()
