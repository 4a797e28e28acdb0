"""The part `time_slices`: do the driver's own controls of a channel group change a turn on the GPU, and what do they cost?

Each process controls its own channel groups only (native/channel_group.c), and no setting of the GPU changes. No part of fikit makes
these calls. {"groups", "by_libcuda": what the driver's library did, "slices": {SETTING: ...}, "waits": {SETTING: ...}, "calls": {...}}.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from bench.gpu import stamps
from bench.gpu.context import Context, Found
from bench.gpu.earlier.parts import FULL, ONE, Role
from bench.gpu.place import Place
from bench.gpu.processes import Program
from bench.record import BenchError

CONTROLS = "FIKIT_GPU_CONTROLS"
SHORTEST_US, LONGEST_US = 1, 1_000_000
FAR_APART = "high 1 s, low 1 us"
SETTINGS: dict[str, tuple[int, int]] = {  # us of each process; 0: as the driver has it
    "default": (0, 0),
    "500": (500, 500),
    "1000": (1000, 1000),
    "2000": (2000, 2000),
    "8000": (8000, 8000),
    FAR_APART: (LONGEST_US, SHORTEST_US),
}
QUICK = (
    ("slices", "default"), ("slices", "500"), ("waits", "default"), ("waits", "500"), ("calls", "preempt"), ("calls", "schedule"),
)  # fmt: skip
ORDER = (
    ("slices", "default"), ("slices", "500"), ("slices", FAR_APART), ("waits", "default"), ("waits", FAR_APART), ("calls", "preempt"),
    ("slices", "8000"), ("waits", "500"), ("slices", "1000"), ("slices", "2000"), ("calls", "schedule"),
)  # fmt: skip
"""By worth; but a group off its run list may hang the GPU, and so comes last."""
READY_S, LATE_S = 8.0, 3.0
OFF_MS = 40  # a channel group is off the run list


class Turns(Role):
    """A role of the program that controls its channel groups."""

    def command(self, place: Place, ms: int) -> list[str]:
        _, *words = super().command(place, ms)
        return [str(place.program("fikit-gpu-turns")), *words]


def measure(context: Context) -> Found:
    return Measurement(context).run()


class Measurement:
    """Two processes with contexts of their own, without MPS."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ms = 150 if context.options.quick else 400
        self._usual: dict[Role, stamps.Alone] = {}
        self.found: Found = {"slices": {}, "waits": {}, "calls": {}}

    def run(self) -> Found:
        """Each experiment costs its own figures only."""
        if self._context.exclusive:
            mode = self._context.gpu["compute_mode"]
            raise BenchError(f"the GPU's compute mode is {mode}: one process has it at a time")
        said = self._together([(ONE, "")])[0]
        self._usual[ONE] = stamps.alone(stamps.pairs(said["stamps"]))
        self.found |= {"groups": said["groups"], "by_libcuda": said["by_libcuda"]}
        if not said["groups"]:
            raise BenchError("no channel group was seen: this libcuda makes no calls to /dev/nvidiactl through ioctl")
        step = self._ms // 10
        preempts = " ".join(f"{ms}:preempt" for ms in range(step, self._ms - step, step))
        calls = {"preempt": preempts, "schedule": f"{2 * step}:schedule:0 {2 * step + OFF_MS}:schedule:1"}
        for kind, name in QUICK if self._context.options.quick else ORDER:
            if kind == "calls":
                self._try(kind, name, self._calls, calls[name])
            else:
                measure = self._slices if kind == "slices" else self._wait
                self._try(kind, name, measure, *map(_slice, SETTINGS[name]))
        return self.found

    def _try(self, kind: str, name: str, measure: Callable[..., Found], *controls: str) -> None:
        begin = time.monotonic()
        try:
            if self._context.left() < 3:
                raise BenchError("the time was over")
            entry = measure(*controls)
        except (BenchError, ValueError, KeyError, TypeError, OSError) as error:
            entry = {"error": str(error)}
        self.found[kind][name] = {**entry, "took_s": round(time.monotonic() - begin, 2)}
        self._context.changed(self.found)
        self._context.say(f"{kind}, {name}", str(entry.get("error", "done")))

    def _together(self, each: Sequence[tuple[Role, str]]) -> list[Found]:
        """What each program prints, with its controls; they begin together. A program that hangs in a control is ended soon."""
        place, programs = self._context.place, list[Program]()
        try:
            for number, (role, controls) in enumerate(each):
                command = Turns(role.blocks, role.kernel_ns, role.gaps).command(place, self._ms)
                programs.append(Program(f"turns-{number}", command, {**place.env, CONTROLS: controls}, place.directory))
            deadline = time.monotonic() + self._context.left(READY_S)
            for program in programs:
                program.line(deadline)
            for program in programs:
                program.write("go")
            deadline = time.monotonic() + self._context.left(self._ms / 1e3 + LATE_S)
            return [dict(json.loads(program.line(deadline))) for program in programs]
        finally:
            for program in programs:
                program.finish(time.monotonic() + 0.5)

    def _slices(self, high: str, low: str) -> Found:
        """Lengths of the turns of two processes that always have work."""
        said = self._together([(ONE, high), (ONE, low)])
        of = [stamps.pairs(one["stamps"]) for one in said]
        found: Found = {
            "controls": [one["controls"] for one in said], "kernels": [len(side) for side in of],
            "longest_pauses_ns": [_longest_pauses(side) for side in of],
        }  # fmt: skip
        with suppress(ValueError):  # one of them may have had no turn
            found |= stamps.chains(of[0], of[1], self._usual[ONE], self._usual[ONE])
        found["turns_ns"] = [
            stamps.spread([turn.length_ns for turn in stamps.turns(side, self._usual[ONE])])
            for side in stamps.common(of[0], of[1])
        ]
        return found

    def _wait(self, high: str, low: str) -> Found:
        """How long a lone kernel of 20 us takes beside a chain of kernels that fill the GPU."""
        said = self._together([(Role(gaps=True), high), (FULL, low)])
        return {
            "took_ns": stamps.latencies(said[0]["took_ns"], said[0]["gap_ns"])["all"],
            "controls": [one["controls"] for one in said],
        }

    def _calls(self, controls: str) -> Found:
        """Durations of the calls within a chain of kernels, and the chain's longest pause: does the chain stop?"""
        (said,) = self._together([(ONE, controls)])
        of = stamps.pairs(said["stamps"])
        return {
            "took_ns": stamps.spread([control["took_ns"] for control in said["controls"]]),
            "controls": said["controls"], "longest_pauses_ns": _longest_pauses(of), "kernels": len(of),
        }  # fmt: skip


def _longest_pauses(of: Sequence[stamps.Stamp]) -> list[int]:
    return sorted((after[0] - before[1] for before, after in itertools.pairwise(of)), reverse=True)[:5]


def _slice(us: int) -> str:
    return f"0:timeslice:{us}" if us else ""
