"""The GPU's clock and power during a cell: `python bench/gpu/sharing/clocks.py UUID`, a process of its own, because NVML may hang.

The process asks NVML four times a second. It answers a line on its standard input by the values since the last line:
{"sm_clock_mhz": {"mean", "min", "max"} or null, "power_w": the same}.
"""

from __future__ import annotations

import ctypes
import json
import select
import statistics
import sys
import time
from pathlib import Path
from typing import Any

if __name__ != "__main__":
    from bench.gpu.place import Place
    from bench.gpu.processes import Program
    from bench.record import BenchError

EVERY_S = 0.25
ANSWER_S = 1.0
SM = 1  # NVML_CLOCK_SM
NOTHING: dict[str, Any] = {"sm_clock_mhz": None, "power_w": None}


class Clocks:
    """The process, or nulls in its place when it does not answer within ANSWER_S."""

    def __init__(self, place: Place, uuid: str) -> None:
        self._program: Program | None = None
        try:
            self._program = Program("clocks", [sys.executable, str(Path(__file__)), uuid], place.env, place.directory)
        except BenchError:
            return

    def since(self) -> dict[str, Any]:
        """Clock and power since the last call."""
        if self._program is not None:
            try:
                self._program.write("since")
                return dict(json.loads(self._program.line(time.monotonic() + ANSWER_S)))
            except (BenchError, ValueError):
                self.end()
        return dict(NOTHING)

    def end(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program = None


class Nvml:
    """One GPU by NVML's C library. OSError, AttributeError where there is none."""

    def __init__(self, uuid: str) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._device = ctypes.c_void_p()
        name = uuid.encode()
        if self._library.nvmlInit_v2() or self._library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(self._device)):
            raise OSError("NVML does not know the GPU")

    def _asked(self, name: str, *arguments: object) -> int | None:
        value = ctypes.c_uint()
        code = getattr(self._library, name)(self._device, *arguments, ctypes.byref(value))
        return None if code else value.value

    def look(self) -> tuple[int | None, float | None]:
        """MHz and W."""
        power_mw = self._asked("nvmlDeviceGetPowerUsage")
        return self._asked("nvmlDeviceGetClockInfo", SM), None if power_mw is None else power_mw / 1000


def spread(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {"mean": round(statistics.mean(values), 1), "min": min(values), "max": max(values)}


def main() -> None:
    try:
        nvml: Nvml | None = Nvml(sys.argv[1])
    except (OSError, AttributeError):
        nvml = None
    seen: list[tuple[int | None, float | None]] = []
    while True:
        asked = select.select([sys.stdin], [], [], EVERY_S)[0]
        if nvml is not None:
            seen.append(nvml.look())
        if not asked:
            continue
        if not sys.stdin.readline():
            return
        clocks = [float(clock) for clock, _ in seen if clock is not None]
        powers = [power for _, power in seen if power is not None]
        print(json.dumps({"sm_clock_mhz": spread(clocks), "power_w": spread(powers)}), flush=True)
        seen.clear()


if __name__ == "__main__":
    main()
