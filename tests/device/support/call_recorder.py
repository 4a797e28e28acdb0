"""Which calls reach the driver: programs/shim/call_recorder.c built for a driver, and what it wrote."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "programs/shim/call_recorder.c"


class Recorder:
    """A directory with a libcuda.so.1 that notes every call on its way to `driver`."""

    def __init__(self, driver: Path, directory: Path, cc: Callable[..., Path]) -> None:
        self.driver, self.directory = driver, directory
        table = subprocess.run(
            ["nm", "-D", "--defined-only", driver], capture_output=True, text=True, check=True
        ).stdout
        symbols = (line.split() for line in table.splitlines() if " T cu" in line)
        offsets = {name.split("@")[0]: int(offset, 16) for offset, _, name in symbols}
        self.names = sorted(offsets)
        header = directory / "names.h"
        header.write_text("".join(f"NAME({name}, {offsets[name]:#x})\n" for name in self.names))
        flags = ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic", f'-DNAMES="{header}"', "-ldl")
        (directory / "libcuda.so.1").write_bytes(cc(SOURCE, *flags).read_bytes())
        (directory / "libcuda.so").symlink_to("libcuda.so.1")

    def environment(self, base: dict[str, str], calls: Path) -> dict[str, str]:
        path = f"{self.directory}:{base['LD_LIBRARY_PATH']}"
        return {**base, "LD_LIBRARY_PATH": path, "RECORDED_DRIVER": str(self.driver), "RECORDED_CALLS": str(calls)}

    def calls(self, file: Path, without: Iterable[str]) -> list[list[str]]:
        """The calls of each thread in order, but for some names; threads in an order that does not depend on chance."""
        data = file.read_bytes()
        (count,) = struct.unpack_from("<Q", data)
        assert 0 < count < 2**20, "nothing was recorded, or more than there is room for"
        left_out = set(without)
        threads: dict[int, list[str]] = {}
        for thread, number in struct.iter_unpack("<II", data[8 : 8 + 8 * count]):
            assert number, "a call was not noted"
            name = self.names[number - 1]
            threads.setdefault(thread, [])
            if name not in left_out:
                threads[thread].append(name)
        return sorted(calls for calls in threads.values() if calls)
