"""Memory that leaves the GPU by a plan and comes back, under a real fikitd: what a pass costs with all of its memory there, and with a part of it
(docs/design/residency.md, case B).

The GPU itself is never full: fikitd is told of one with less memory, so that a program's moves are as on a small one, and a miss is a page fault as
there; what no plan has sent away stays.
"""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from typing import Any, Final

from bench.gpu.place import Place
from bench.gpu.service import Service
from bench.gpu.sharing import crew
from bench.gpu.sharing.crew import Worker
from bench.record import BenchError

Found = dict[str, Any]
PART: Final = 0.65  # of its memory a program is to have on the GPU
LOW: Final = ("--priority", "low")
LOAD_S: Final = 60.0
LOOK_S: Final = 1.0  # of passes, between two looks at its plan
LEARNS_S: Final = 25.0
CALM_PASSES: Final = 8  # by the newest plan, before passes count
BARE: Final = "layers"  # needs a driver only


def _mib(size: int) -> str:
    return f"{-(-size // 2**20)}M"


class Programs:
    """One program after the other, in the ways that it can have its memory."""

    def __init__(self, place: Place, device: str, seconds: float, deadline: float) -> None:
        self._place, self._device, self._seconds, self._deadline = place, device, seconds, deadline
        self._service = Service(place)

    def end(self) -> None:
        self._service.stop()

    def measure(self, name: str, found: Found) -> None:
        """ns of a pass: bare; with memory that could leave and need not; with a part of it on the GPU. What fikitd says of the plan. What is found
        stands in `found` at once."""
        found["bare_ns"] = self._passes(name, [])
        self._service.take_gpu_for(0)
        self._service.use("budget")
        profile = ("--profile", f"plans-{name}")
        options = [*LOW, *profile, "--measure"]
        peak = self._learnt(name, options)
        found["peak_bytes"] = peak
        host = ("--mem", _mib(peak), "--mem-host", _mib(peak))
        found["managed_ns"] = self._passes(name, self._service.managed([], *LOW, *host, *profile))
        found["room_bytes"] = room = int(peak * PART)
        self._service.policy = ""
        self._service.take_gpu_for(room)
        self._service.use("budget")
        part = ("--mem", _mib(room), "--mem-host", _mib(room))
        self._planned(name, self._service.managed([], *LOW, *part, *profile), found)

    def _worker(self, name: str, wrap: list[str]) -> Worker:
        worker = Worker(
            f"plans-{name}", self._place, self._device, self._service.env if wrap else self._place.env, wrap
        )
        crew.load({"a": worker}, {"a": [name]}, min(self._deadline, time.monotonic() + LOAD_S))
        if name in worker.errors:
            worker.end()
            raise BenchError(worker.errors[name])
        return worker

    def _run(self, worker: Worker, name: str, seconds: float) -> list[int]:
        return [end - begin for _, begin, end in crew.alone(worker, name, seconds)]

    def _passes(self, name: str, wrap: list[str]) -> dict[str, float]:
        worker = self._worker(name, wrap)
        try:
            return spread(self._run(worker, name, self._seconds))
        finally:
            worker.end()

    def _learnt(self, name: str, options: list[str]) -> int:
        """Measures it, and says how much memory it has at its peak."""
        worker = self._worker(name, self._service.managed([], *options))
        try:
            self._run(worker, name, self._seconds)
            said = self._service.report(worker.pid)
        finally:
            worker.end()
        if said is None or not said["memory"]["peak_bytes"]:
            raise BenchError(f"fikitd does not know how much memory {name} has")
        self._service.wait_for_profile(f"plans-{name}")
        return int(said["memory"]["peak_bytes"])

    def _planned(self, name: str, wrap: list[str], found: Found) -> None:
        """Passes until there is a plan that has held for a while, then those that count."""
        worker = self._worker(name, wrap)
        found["trail"] = []
        try:
            began = time.monotonic()
            while time.monotonic() < min(began + LEARNS_S, self._deadline - self._seconds - 2):
                took = self._run(worker, name, LOOK_S)
                memory = self._memory(worker)
                plan = memory.get("plan") or {}
                found["trail"].append(
                    [round(time.monotonic() - began, 1), statistics.fmean(took), plan.get("passes", 0)]
                )
                if plan.get("passes", 0) >= CALM_PASSES and len(found["trail"]) >= 8:
                    break
            before = self._memory(worker)
            took = self._run(worker, name, self._seconds)
            after = self._memory(worker)
            found["planned_ns"] = spread(took)
            found["memory"] = after
            for key in ("in_bytes", "out_bytes", "missed_bytes"):
                with suppress(KeyError):
                    found[f"{key}_per_pass"] = (after["moved"][key] - before["moved"][key]) / len(took)
        finally:
            found["log"] = [line[-400:] for line in self._service.lines() if "plan" in line or "memory" in line][-12:]
            worker.end()

    def _memory(self, worker: Worker) -> Found:
        said = self._service.report(worker.pid)
        if said is None:
            raise BenchError("fikitd does not know the program: it runs unmanaged")
        memory = dict(said["memory"])
        moved = dict(memory.get("moved") or {})
        moved.pop("history", None)
        return memory | {"moved": moved}


def spread(took: list[int]) -> dict[str, float]:
    """Of passes one after the other, ns."""
    if not took:
        raise BenchError("no pass ended in its time")
    each = sorted(took)
    return {
        "mean": statistics.fmean(each),
        "p50": statistics.median(each),
        "p90": each[9 * (len(each) - 1) // 10],
        "count": len(each),
    }


def derived(found: Found) -> Found:
    """EOR: by how much a pass is longer with a part of its memory. What could not be measured is left out."""
    out: Found = {}
    if "bare_ns" in found and "managed_ns" in found:
        out["managed_over_bare"] = round(found["managed_ns"]["p50"] / found["bare_ns"]["p50"], 4)
    if "managed_ns" in found and "planned_ns" in found:
        out["eor"] = round(found["planned_ns"]["p50"] / found["managed_ns"]["p50"] - 1, 4)
    plan = (found.get("memory") or {}).get("plan")
    if plan:
        out["msr"] = round(1 - plan["budget_bytes"] / plan["peak_bytes"], 4)
    return out


def plans(place: Place, device: str, names: list[str], seconds: float, deadline: float) -> Found:
    """Each program's figures; one that fails says why, and hinders no other."""
    found: Found = {}
    for name in names:
        programs = Programs(place, device, seconds, deadline)
        found[name] = {}
        try:
            programs.measure(name, found[name])
        except (BenchError, OSError, KeyError, ValueError) as error:
            found[name]["error"] = f"{type(error).__name__}: {error}"
        finally:
            programs.end()
        found[name] |= derived(found[name])
    return found
