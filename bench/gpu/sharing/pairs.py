"""A high and a low program together, in nine ways of sharing the GPU: the cost for the high one, and the yield for the low one.

Workers live as long as the part. A way (cells.py) takes two of them: processes without fikit, under fikit in time slices, by plain MPS,
by fikit's MPS. For another policy fikitd changes, and its clients stay. A cell has windows (windows.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from bench.gpu import mps
from bench.gpu.context import Context
from bench.gpu.place import Place
from bench.gpu.service import Service
from bench.gpu.sharing import cells, cores, correctness, crew, measures, windows, workers
from bench.gpu.sharing.cells import Cell, Pair
from bench.gpu.sharing.clocks import Clocks
from bench.gpu.sharing.crew import Work, Worker
from bench.gpu.sharing.windows import Schedule
from bench.gpu.sharing.workers import Workers
from bench.record import BenchError

Found = dict[str, Any]

LOAD = 0.3  # of the high program's requests that arrive by chance
PROFILE = "programs"
ACCOUNT = ("elapsed_s", "alone_s", "waited_s", "delayed_s", "host_s", "unexplained_s", "gpu_time_s")
LEARN_S, LEARN_SAMPLES = 6.0, 12  # until fikitd knows the switch
LEARN_NS = 500_000_000
SAID_S = 5.0
ENOUGH_S = 2.0  # a cell's beyond its windows, at most
CLOSE_S = 10.0  # until all workers have ended


@dataclass
class Setting:
    place: Place
    library: str  # the driver's
    uuid: str  # the GPU's
    device: str  # "cuda", or "cpu" to try the programs
    pairs: tuple[Pair, ...]
    seconds: float  # of a cell's windows
    deadline: float  # time.monotonic
    exclusive: bool  # a second process gets no context of its own
    ways: tuple[str, ...] = tuple(cells.WAYS)
    kinds: tuple[str, ...] = cells.KINDS


class Measurement:
    """The part while it runs; `found` has the results so far."""

    runs_alone = "bare.high"  # the worker whose requests alone give the rate of arrivals

    def __init__(self, setting: Setting, changed: Callable[[Found], None]) -> None:
        self.setting = setting
        self.found: Found = {"cells": [], "alone": {}, "device_ns": {}, "correctness": {}, "notes": [], "took_s": {}}
        self.workers = Workers(setting.deadline, self.note, self.programs)
        self.found |= {"loaded": self.workers.loaded, "cores": cores.here()}
        self.services: dict[str, Service] = {}  # by the kind of worker: "managed", "managed_mps"
        self._changed = changed
        self._schedule = Schedule.of(setting.seconds)
        self._clocks = Clocks(setting.place, setting.uuid)
        self._stack = ExitStack()

    def note(self, text: str) -> None:
        self.found["notes"].append(text)
        self._changed(self.found)

    def programs(self, key: str) -> list[str]:
        """The programs that a worker loads: those of its role; the counting and the measuring worker load all."""
        highs, lows = zip(*self.setting.pairs, strict=True)
        return list(dict.fromkeys({"high": highs, "low": lows}.get(key.split(".")[1], (*highs, *lows))))

    def run(self) -> Found:
        """Opens everything and measures cells until the deadline."""
        with self._stack:
            try:
                self._open()
                self._cells()
            finally:
                self.workers.end()
                self._clocks.end()
        return self.found

    # --- before the cells

    def _open(self) -> None:
        setting = self.setting
        with self._step("bare and plain MPS workers"):
            self._open_bare()
        with self._step("measuring"):
            self._measure()
        with self._step("managed workers"):
            self._open_managed()
        with self._step("correctness"):
            correctness.check(self.workers, setting.pairs, self.found["correctness"])
        with self._step("alone"):
            for high, _ in setting.pairs:
                self._alone(high)
        with self._step("the switch"):
            self._learn_switch()

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """A failure within the block becomes a note. The file has the seconds that the block took."""
        begin = time.monotonic()
        try:
            yield
        except (BenchError, OSError, ValueError, KeyError) as error:
            self.note(f"{name}: {error}")
        self.found["took_s"][name] = round(time.monotonic() - begin, 1)
        self._changed(self.found)

    def _wanted(self) -> set[str]:
        """Keys of the workers of the ways that are asked for."""
        return {key for name in self.setting.ways for key in (cells.WAYS[name].high, cells.WAYS[name].low)}

    def _bare(self, name: str, env: Mapping[str, str], **more: str) -> Callable[[], Worker]:
        place, device = self.setting.place, self.setting.device
        return lambda: Worker(name, place, device, {**place.env, **env, **more})

    def _managed(self, service: Service, name: str, *options: str, **more: str) -> Callable[[], Worker]:
        wrap = service.managed([], *options, "--profile", PROFILE)
        return lambda: Worker(name, self.setting.place, self.setting.device, {**service.env, **more}, wrap)

    def _open_bare(self) -> None:
        """Workers without fikit: in time slices, by plain MPS, and one for PyTorch's profiler."""
        setting = self.setting
        made = {"bare.high": self._bare("bare-high", {}), "bare.low": self._bare("bare-low", {})}
        if setting.exclusive:
            self.note("the GPU is in an exclusive compute mode: programs share it by MPS only")
            made = {"bare.high": made["bare.high"]}
        elif setting.pairs == cells.TORCH_PAIRS:
            made["counted.all"] = self._bare("counted", {})
        if any(key.startswith("mps") for key in self._wanted()):
            with self._step("plain MPS"):
                env = self._stack.enter_context(mps.server(setting.place, setting.library))
                by_mps = {
                    "mps.high": self._bare("mps-high", env), "mps.low": self._bare("mps-low", env),
                    "mps_priority.low": self._bare("mps-low-below", env, **mps.BELOW_NORMAL),
                    "mps_half.low": self._bare("mps-low-half", env, **mps.HALF),
                }  # fmt: skip
                made |= {key: make for key, make in by_mps.items() if key in self._wanted()}
        self.workers.start(made)
        if not self._complete() and setting.pairs != cells.DRIVER_PAIRS:
            self.note("no pair of these programs could be loaded: those that need the driver only take their place")
            setting.pairs = cells.DRIVER_PAIRS
            self.workers.end()
            self.workers.start({key: make for key, make in made.items() if key != "counted.all"})

    def _complete(self) -> bool:
        high = self.workers.find("bare.high")
        low = self.workers.find("bare.low") or high
        if high is None or low is None:
            return False
        exclusive = self.setting.exclusive
        return any(first in high.loaded and (exclusive or second in low.loaded) for first, second in self.setting.pairs)

    def _measure(self) -> None:
        """Device time and launches of a request alone, by fikit and by PyTorch's profiler."""
        if self.setting.exclusive:
            return
        service = Service(self.setting.place)
        self._stack.callback(service.stop)
        service.use("budget")
        self.services["managed"] = service
        try:
            self.workers.start({"measured.all": self._managed(service, "measured", "--priority", "high", "--measure")})
            (worker,) = self.workers.whole("measured.all")
            for name in worker.loaded:
                self.found["device_ns"][name] = self._measured(service, worker, name)
            with self._step("PyTorch's profiler"):
                self._count()
        finally:
            self.workers.end("measured.all", "counted.all")
        service.wait_for_profile(PROFILE)

    def _measured(self, service: Service, worker: Worker, name: str) -> Found:
        before = service.report(worker.pid)
        requests = crew.alone(worker, name, min(1.0, self.setting.seconds / 2))
        time.sleep(0.05)  # until fikitd has read it
        after = service.report(worker.pid)
        if before is None or after is None:
            raise BenchError("fikitd does not know the program that it should measure: it runs unmanaged")
        busy_ns = ((after["gpu_time_s"] or 0) - (before["gpu_time_s"] or 0)) * 1e9 / max(1, len(requests))
        launches = (after["kernels"] - before["kernels"]) / max(1, len(requests))
        return {"fikit": round(busy_ns), "launches": launches, "requests": len(requests)}

    def _count(self) -> None:
        worker = self.workers.find("counted.all")
        for name in worker.loaded if worker is not None else ():
            assert worker is not None
            worker.tell({"do": "count", "program": name, "requests": 3})
            counted = worker.answer(time.monotonic() + 20)
            of_program = self.found["device_ns"].setdefault(name, {})
            of_program |= {"profiler": round(counted["device_ns"]), "profiler_launches": counted["launches"]}

    def _open_managed(self) -> None:
        """Workers under fikit: in time slices, and by fikitd's MPS servers."""
        wanted = self._wanted()
        made: dict[str, Callable[[], Worker]] = {}
        service = self.services.get("managed")
        if service is not None:
            made |= {
                f"managed.{role}": self._managed(service, f"managed-{role}", "--priority", role)
                for role in ("high", "low")
            }
        if any(key.startswith("managed_mps") for key in wanted):
            with self._step("fikitd's MPS"):
                by_mps = Service(
                    self.setting.place,
                    mps_on=self.setting.uuid,
                    profiles=service.profiles if service is not None else None,
                )
                self._stack.callback(by_mps.stop)
                by_mps.use("budget")
                self.found["mps_began_s"] = round(by_mps.begin_mps(), 3)
                self.services["managed_mps"] = by_mps
                made |= {
                    "managed_mps.high": self._managed(by_mps, "managed-mps-high", "--priority", "high"),
                    "managed_mps.low": self._managed(by_mps, "managed-mps-low", "--priority", "low"),
                    "managed_mps_half.low": self._managed(by_mps, "managed-mps-low-half", "--priority", "low", **mps.HALF),
                }  # fmt: skip
        self.workers.start({key: make for key, make in made.items() if key in wanted})

    def _alone(self, name: str) -> float:
        """Mean time of a program's requests alone in ns, measured once: the rate of arrivals follows from the mean."""
        if name not in self.found["alone"]:
            (worker,) = self.workers.whole(self.runs_alone)
            requests = crew.alone(worker, name, min(1.0, self.setting.seconds / 2))
            self.found["alone"][name] = measures.summary([end - begin for _, begin, end in requests])
        return float(self.found["alone"][name]["mean_ns"])

    def _learn_switch(self) -> None:
        """The first pair runs until fikitd has measured the switch. fikitd stores the switch, and the next fikitd begins with it."""
        service = self.services.get("managed")
        if service is None or not {"managed.high", "managed.low"} <= self._wanted():
            return
        high, low = self.setting.pairs[0]
        service.use("prio")  # the low program enters each pause, so the switch is soon known
        until = time.monotonic() + min(LEARN_S, 2 * self.setting.seconds)
        while (service.switch() or {"count": 0})["count"] < LEARN_SAMPLES and time.monotonic() < until:
            pair = self.workers.whole("managed.high", "managed.low")
            begin = time.monotonic_ns() + 20_000_000
            span = [(begin, begin + LEARN_NS)]
            due = measures.arrivals(f"switch {begin}", self._alone(high) / LOAD, LEARN_NS)
            crew.run([Work(pair[0], high, span, due), Work(pair[1], low, span)])
        self.found["switch_learnt"] = service.switch()
        if self.found["switch_learnt"] is None:
            self.note("fikitd has not measured the switch before the first cell, and assumes one")
        service.keep_switch(20)
        service.use("budget")  # the stored switch counts where later samples scatter too much

    # --- cells

    def _cells(self) -> None:
        wanted = cells.cells(self.setting.pairs, self.setting.ways, self.setting.kinds)
        for number, cell in enumerate(wanted):
            begin = time.monotonic()
            if begin + self.setting.seconds + ENOUGH_S > self.setting.deadline:
                self.note(f"the time was over: {len(wanted) - number} of {len(wanted)} cells were not measured")
                break
            result: Found = {"way": cell.way, "pair": list(cell.pair), "kind": cell.kind}
            try:
                result |= self._cell(cell)
            except (BenchError, ValueError, OSError, KeyError) as error:
                result["error"] = str(error)
            result["took_s"] = round(time.monotonic() - begin, 2)
            self.found["cells"].append(result)
            self._changed(self.found)

    def _cell(self, cell: Cell) -> Found:
        way = cells.WAYS[cell.way]
        pair = self.workers.whole(way.high, way.low)
        service = self.services.get(way.high.split(".")[0]) if way.policy else None
        if way.policy:
            if service is None:
                raise BenchError("fikitd does not run")
            service.use(way.policy)
        before = [service.report(worker.pid) if service is not None else None for worker in pair]
        for worker, said in zip(pair, before, strict=True):
            if self.setting.device == "cuda":
                workers.check_mode(worker, way.by_mps, said, service is not None)
        self._clocks.since()
        start_ns, due, (high, low) = self._windows(pair, cell)
        clocks = self._clocks.since()
        device_ns = self._busy_ns(cell.pair[0]), self._busy_ns(cell.pair[1])
        found = windows.cell(self._schedule, start_ns, high[0], low, device_ns, due)
        found["host_ns"] = measures.host_speed(pair[0].host)
        found["switch"] = service.switch() if service is not None else None
        if service is not None:
            found |= self._seen(service, pair, before)
        return found | clocks

    def _windows(self, pair: list[Worker], cell: Cell) -> tuple[int, list[int] | None, list[list[crew.Requests]]]:
        """Begin of the windows, the arrivals, and the requests of both programs by window."""
        schedule = self._schedule
        due = None
        if cell.kind == "arrivals":
            due = schedule.arrivals(cell.pair[0], self._alone(cell.pair[0]) / LOAD)
        start_ns = time.monotonic_ns() + 20_000_000
        high = [(start_ns + schedule.high[0], start_ns + schedule.high[1])]
        low = [(start_ns + begin, start_ns + end) for begin, end in schedule.low]
        return start_ns, due, crew.run([Work(pair[0], cell.pair[0], high, due), Work(pair[1], cell.pair[1], low)])

    def _busy_ns(self, name: str) -> float | None:
        of_program = self.found["device_ns"].get(name, {})
        return of_program.get("fikit") or of_program.get("profiler") or None

    def _seen(self, service: Service, pair: list[Worker], before: list[Found | None]) -> Found:
        """Launches and account of time since `before`, by fikitd. BenchError: fikitd saw no launch, so the program ran unmanaged."""
        counted, times = [], []
        for worker, first in zip(pair, before, strict=True):
            last = service.report(worker.pid)
            if first is None or last is None or last["kernels"] <= first["kernels"]:
                raise BenchError(f"{worker.name} ran unmanaged: {worker.program.last_words()}")
            counted.append(last["kernels"] - first["kernels"])
            times.append({key: round((last.get(key) or 0) - (first.get(key) or 0), 6) for key in ACCOUNT})
        return {"kernels": counted, "account": times}


def measure_pairs(context: Context) -> Found:
    """The part."""
    pairs = cells.TORCH_PAIRS if context.options.with_torch() else cells.DRIVER_PAIRS
    return measure(context, pairs, context.options.ways or tuple(cells.WAYS), cells.KINDS, context.options.seconds)


def measure(
    context: Context, pairs: tuple[Pair, ...], ways: tuple[str, ...], kinds: tuple[str, ...], seconds: float,
    *, form: type[Measurement] = Measurement,
) -> Found:  # fmt: skip
    """These pairs in these ways, with `seconds` of windows in a cell. `form`: the course of the measurement."""

    def changed(found: Found) -> None:
        context.changed(found)
        if len(found["cells"]) > said[0]:
            said[0] = len(found["cells"])
            last = found["cells"][-1]
            name = f"{' + '.join(last['pair'])}, {last['way']}, {last['kind']}"
            context.say(
                name, last.get("error", f"JCT ratio {last.get('jct_ratio')}, low speed {last.get('low_speed')}")
            )

    said = [0]
    setting = Setting(
        context.place, context.library, context.gpu["uuid"], context.options.device, pairs, seconds,
        context.deadline - CLOSE_S, context.exclusive, ways, kinds,
    )  # fmt: skip
    return form(setting, changed).run()
