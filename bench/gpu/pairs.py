"""A high and a low program together, in every way of sharing the GPU: what the high one pays, and what the low one gets.

The workers live as long as the part does, and the ways are switched by command: the same processes under another policy, others
without fikit, others by MPS. A cell is one pair in one way; the cells are in the order of their worth, so that what the time
cuts off is worth least.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from bench.gpu import crew, measures, mps
from bench.gpu.context import Context
from bench.gpu.crew import Worker
from bench.gpu.place import Place
from bench.gpu.service import Service
from bench.record import BenchError

Found = dict[str, Any]
Pair = tuple[str, str]  # the high program, the low one

TORCH_PAIRS: tuple[Pair, ...] = (
    ("transformer", "convolution"),
    ("decode", "batch"),
    ("transformer", "triton_softmax"),
    ("decode", "convolution"),
    ("triton_softmax", "batch"),
)
DRIVER_PAIRS: tuple[Pair, ...] = (("short_kernels", "long_kernels"),)
POLICIES = ("budget", "prio", "paper")
WAYS = ("slices", "budget", "budget_alone", "budget_asleep", "mps", "prio", "mps_priority", "paper")
"""In the order of their worth. budget_alone: the high program under fikit and nothing beside it; budget_asleep: a fikitd that never spins."""
FIRST_PAIRS = 2  # are measured in every way before the others
FIRST_WAYS = 4  # and in each of these with both kinds of requests before the other ways
LOAD = 0.3  # of the high program's requests that arrive by chance
WARM_UP = 0.15  # of a cell's time
LOAD_S = 100.0  # to start, import, compile, warm up
PROFILE = "programs"
RESTARTS = 3
ACCOUNT = ("elapsed_s", "alone_s", "waited_s", "delayed_s", "host_s", "unexplained_s", "gpu_time_s")


@dataclass(frozen=True)
class Cell:
    way: str
    pair: Pair
    kind: str  # "closed": one request after another; "arrivals"


@dataclass
class Setting:
    place: Place
    library: str  # the driver's
    device: str  # "cuda", or "cpu" to try the programs
    pairs: tuple[Pair, ...]
    seconds: float
    deadline: float  # time.monotonic
    exclusive: bool  # a second process gets no context of its own
    ways: tuple[str, ...] = WAYS
    kinds: tuple[str, ...] = ("closed", "arrivals")


def cells(pairs: tuple[Pair, ...], ways: tuple[str, ...], kinds: tuple[str, ...]) -> list[Cell]:
    """In the order of their worth; within a group by way, for changing the policy takes time."""
    pair_groups = [group for group in (pairs[:FIRST_PAIRS], pairs[FIRST_PAIRS:]) if group]
    way_groups = (ways[:FIRST_WAYS], ways[FIRST_WAYS:])
    return [
        Cell(way, pair, kind)
        for group in pair_groups
        for first_ways in way_groups
        for kind in kinds
        for way in first_ways
        for pair in group
    ]


class Measurement:
    """The part while it runs; `found` is what is known so far."""

    def __init__(self, setting: Setting, changed: Callable[[Found], None]) -> None:
        self.setting = setting
        self.found: Found = {"cells": [], "alone": {}, "device_ns": {}, "notes": []}
        self._changed = changed
        self._workers: dict[str, Worker] = {}
        self._made: dict[str, Callable[[], Worker]] = {}
        self._restarts = RESTARTS
        self._service: Service | None = None
        self._stack = ExitStack()

    def note(self, text: str) -> None:
        self.found["notes"].append(text)
        self._changed(self.found)

    # --- workers

    def _programs(self, key: str) -> list[str]:
        """What a worker prepares, by its role; the counting and measuring ones prepare all."""
        highs, lows = zip(*self.setting.pairs, strict=True)
        own = {"high": highs, "low": lows}.get(key.split(".")[1], (*highs, *lows))
        return list(dict.fromkeys(own))

    def _start(self, made: dict[str, Callable[[], Worker]]) -> None:
        """Workers by "kind.role"; what cannot be started or loaded is noted, and costs its own cells only."""
        self._made |= made
        started = {}
        for key, make in made.items():
            try:
                started[key] = self._workers[key] = make()
            except BenchError as error:
                self.note(f"{key}: {error}")
        deadline = min(time.monotonic() + LOAD_S, self.setting.deadline)
        crew.load(started, {key: self._programs(key) for key in started}, deadline)
        for key, worker in started.items():
            self.found.setdefault("loaded", {})[key] = worker.loaded
            for name, why in worker.errors.items():
                self.note(f"{key}: {name}: {why}")

    def _end(self, *keys: str) -> None:
        for key in keys:
            worker = self._workers.pop(key, None)
            if worker is not None:
                worker.end()

    def _whole(self, *keys: str) -> list[Worker]:
        """The workers, anew where one broke; BenchError when it has broken too often."""
        for key in keys:
            worker = self._workers.get(key)
            if worker is not None and not worker.broken:
                continue
            if key not in self._made:
                raise BenchError(f"there is no worker {key}")
            if self._restarts == 0:
                raise BenchError(worker.broken if worker is not None else f"{key} did not start")
            self._restarts -= 1
            self.note(f"{key} is started again: {worker.broken if worker is not None else 'it did not start'}")
            self._start({key: self._made[key]})
        return [self._workers[key] for key in keys if key in self._workers]

    # --- ways

    def _bare(self, name: str, **more: str) -> Callable[[], Worker]:
        place = self.setting.place
        return lambda: Worker(name, place, self.setting.device, {**place.env, **more})

    def _managed(self, name: str, priority: str, *options: str) -> Callable[[], Worker]:
        service, place = self._service, self.setting.place
        if service is None:
            raise BenchError("fikitd does not run")
        wrap = service.managed([], "--priority", priority, "--profile", PROFILE, *options)
        return lambda: Worker(name, place, self.setting.device, service.env, wrap)

    def _open(self) -> None:
        """Bare programs, and one that fikit measures: how long the device is busy with a request of each."""
        made = {"bare.high": self._bare("bare-high"), "bare.low": self._bare("bare-low")}
        measured: dict[str, Callable[[], Worker]] = {}
        try:
            service = Service(self.setting.place)
            self._stack.callback(service.stop)
            service.use("prio")
            self._service = service
            measured["measured.all"] = self._managed("measured", "high", "--measure")
        except (BenchError, OSError) as error:
            self.note(f"fikitd: {error}")
        if self.setting.exclusive:
            self.note("the GPU is in an exclusive compute mode: programs share it by MPS only")
            made, measured = {"bare.high": made["bare.high"]}, {}
        if self.setting.pairs == TORCH_PAIRS and not self.setting.exclusive:
            made["counted.all"] = self._bare("counted")
        self._start(made)
        if not self._complete() and self.setting.pairs != DRIVER_PAIRS:
            self.note("no pair of these programs could be loaded: those that need the driver only take their place")
            self.setting.pairs = DRIVER_PAIRS
            self._end(*self._workers)
            self._start({key: make for key, make in made.items() if key != "counted.all"})
        self._start(
            measured
        )  # once the others' warming up is over: what it is timed for is a GPU that nobody else uses
        with self._noting("measuring"):
            self._measure()
        with self._noting("PyTorch's profiler"):
            self._count()
        self._end("measured.all", "counted.all")
        if self._service is not None and not self.setting.exclusive:
            with self._noting("the profile"):
                self._service.wait_for_profile(PROFILE)
            with self._noting("managed programs"):
                self._start({
                    "managed.high": self._managed("managed-high", "high"),
                    "managed.low": self._managed("managed-low", "low"),
                })  # fmt: skip
        if {"mps", "mps_priority"} & set(self.setting.ways):
            with self._noting("MPS"):
                env = self._stack.enter_context(mps.server(self.setting.place, self.setting.library))
                self._start({
                    "mps.high": self._bare("mps-high", **env),
                    "mps.low": self._bare("mps-low", **env),
                    "mps_priority.low": self._bare("mps-low-below", **env, **mps.BELOW_NORMAL),
                })  # fmt: skip

    def _noting(self, what: str) -> Noting:
        return Noting(self, what)

    def _complete(self) -> bool:
        high, low = self._workers.get("bare.high"), self._workers.get("bare.low", self._workers.get("bare.high"))
        if high is None or low is None:
            return False
        exclusive = self.setting.exclusive
        return any(first in high.loaded and (exclusive or second in low.loaded) for first, second in self.setting.pairs)

    def _measure(self) -> None:
        """Device time and launches of a request, as fikit measures them of a program alone."""
        worker, service = self._workers.get("measured.all"), self._service
        if worker is None or service is None:
            return
        for name in self._programs("measured.all"):
            if name not in worker.loaded:
                continue
            before = service.report(worker.pid)
            start_ns = time.monotonic_ns() + 20_000_000
            (requests,) = crew.run([(worker, name, None)], start_ns, start_ns + round(self.setting.seconds * 4e8))
            time.sleep(0.05)  # until fikitd has read it
            after = service.report(worker.pid)
            if before is None or after is None:
                raise BenchError("fikitd does not know the program that it should measure: it runs unmanaged")
            busy_ns = ((after["gpu_time_s"] or 0) - (before["gpu_time_s"] or 0)) * 1e9 / max(1, len(requests))
            launches = (after["kernels"] - before["kernels"]) / max(1, len(requests))
            self.found["device_ns"][name] = {"fikit": round(busy_ns), "launches": launches, "requests": len(requests)}
            self._changed(self.found)

    def _count(self) -> None:
        worker = self._workers.get("counted.all")
        if worker is None:
            return
        for name in worker.loaded:
            worker.tell({"do": "count", "program": name, "requests": 3})
            counted = worker.answer(time.monotonic() + 20)
            of_program = self.found["device_ns"].setdefault(name, {})
            of_program |= {"profiler": round(counted["device_ns"]), "profiler_launches": counted["launches"]}

    # --- cells

    def _alone(self, name: str, kind: str) -> Found:
        """The program by itself, bare: request times, requests per second. Measured once."""
        key = f"{name}.{kind}"
        if key not in self.found["alone"]:
            role = "high" if name in self._programs("bare.high") else "low"
            (worker,) = self._whole(f"bare.{role}")
            length_ns = round(self.setting.seconds * 1e9 * (0.7 if kind == "closed" else 1))
            requests, window = self._run([(worker, name, self._arrivals(name, kind, length_ns))], length_ns)
            per_s = measures.done(requests[0], *window) / (window[1] - window[0]) * 1e9
            self.found["alone"][key] = {**measures.summary(measures.times(requests[0], window[0])), "per_s": per_s}
        return dict(self.found["alone"][key])

    def _arrivals(self, name: str, kind: str, length_ns: int) -> list[int] | None:
        if kind == "closed":
            return None
        return measures.arrivals(name, self._alone(name, "closed")["mean_ns"] / LOAD, length_ns)

    def _run(
        self, each: list[tuple[Worker, str, list[int] | None]], length_ns: int
    ) -> tuple[list[list[list[int]]], tuple[int, int]]:
        start_ns = time.monotonic_ns() + 30_000_000
        requests = crew.run(each, start_ns, start_ns + length_ns)
        return requests, (start_ns + round(length_ns * WARM_UP), start_ns + length_ns)

    def _busy_ns(self, name: str) -> float | None:
        of_program = self.found["device_ns"].get(name, {})
        return of_program.get("fikit") or of_program.get("profiler") or None

    def _cell(self, cell: Cell) -> Found:
        high, low = cell.pair
        alone_high, alone_low = self._alone(high, cell.kind), self._alone(low, "closed")
        length_ns = round(self.setting.seconds * 1e9)
        kind, low_key = {
            "slices": ("bare", "bare"),
            "mps": ("mps", "mps"),
            "mps_priority": ("mps", "mps_priority"),
        }.get(cell.way, ("managed", "managed"))
        workers = self._whole(f"{kind}.high", f"{low_key}.low")
        before: list[Found | None] = []
        if kind == "managed":
            if self._service is None:
                raise BenchError("fikitd does not run")
            self._service.use(cell.way.split("_")[0], spins=cell.way != "budget_asleep")
            before = [self._service.report(worker.pid) for worker in workers]
        each = [(workers[0], high, self._arrivals(high, cell.kind, length_ns)), (workers[1], low, None)]
        if cell.way == "budget_alone":
            del each[1:], workers[1:], before[1:]
        (of_high, *of_low), window = self._run(each, length_ns)
        device_ns = (self._busy_ns(high), self._busy_ns(low))
        found = measures.beside(of_high, of_low[0] if of_low else [], window, alone_high, alone_low["per_s"], device_ns)
        found["host_ns"] = measures.host_speed(workers[0].host)
        found["warm_up_us"] = [round((end - arrival) / 1e3, 1) for arrival, _, end in of_high if arrival < window[0]]
        if kind == "managed":
            found |= self._seen(workers, before)
        return found

    def _seen(self, workers: list[Worker], before: list[Found | None]) -> Found:
        """What fikitd counted meanwhile: a program of which it saw nothing ran unmanaged, and its figures are no policy's."""
        assert self._service is not None
        counted = []
        times = []
        for worker, first in zip(workers, before, strict=True):
            last = self._service.report(worker.pid)
            if first is None or last is None or last["kernels"] <= first["kernels"]:
                raise BenchError(f"{worker.name} ran unmanaged: {worker.program.last_words()}")
            counted.append(last["kernels"] - first["kernels"])
            times.append({key: round((last.get(key) or 0) - (first.get(key) or 0), 6) for key in ACCOUNT})
        return {"kernels": counted, "account": times}

    def run(self) -> Found:
        """Everything, as far as the time goes."""
        with self._stack:
            try:
                self._open()
                self._cells()
            finally:
                self._end(*self._workers)
        return self.found

    def _cells(self) -> None:
        wanted = cells(self.setting.pairs, self.setting.ways, self.setting.kinds)
        for number, cell in enumerate(wanted):
            if time.monotonic() + 2 * self.setting.seconds + 3 > self.setting.deadline:
                self.note(f"the time was over: {len(wanted) - number} of {len(wanted)} cells were not measured")
                break
            result: Found = {"way": cell.way, "pair": list(cell.pair), "kind": cell.kind}
            try:
                result |= self._cell(cell)
            except (BenchError, ValueError, OSError, KeyError) as error:
                result["error"] = str(error)
            self.found["cells"].append(result)
            self._changed(self.found)


class Noting:
    """What fails inside costs a note."""

    def __init__(self, measurement: Measurement, what: str) -> None:
        self._measurement, self._what = measurement, what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, BenchError | OSError | ValueError | KeyError):
            self._measurement.note(f"{self._what}: {error}")
            return True
        return False


def measure_pairs(context: Context) -> Found:
    """The part: BenchError where not even the workers can be started."""
    options = context.options

    def changed(found: Found) -> None:
        context.changed(found)
        if found["cells"]:
            last = found["cells"][-1]
            name = f"{' + '.join(last['pair'])}, {last['way']}, {last['kind']}"
            context.say(name, last.get("error", f"JCT ratio {last.get('jct_ratio')}"))

    setting = Setting(
        context.place, context.library, options.device, TORCH_PAIRS if options.with_torch() else DRIVER_PAIRS,
        options.seconds, context.deadline, context.exclusive, options.ways or WAYS,
    )  # fmt: skip
    return Measurement(setting, changed).run()


def frameworks(place: Place, deadline: float) -> Iterator[tuple[str, Found]]:
    """Programs of other frameworks under fikit: do they run, and does fikit see their launches?"""
    with ExitStack() as stack:
        service = Service(place)
        stack.callback(service.stop)
        service.use("budget")
        for name in ("cupy_sums", "jax_steps", "compiled"):
            if time.monotonic() + 15 > deadline:
                yield name, {"error": "the time was over"}
                continue
            try:
                worker = Worker(name, place, "cuda", service.env, service.managed([], "--priority", "low"))
            except BenchError as error:
                yield name, {"error": str(error)}
                continue
            try:
                crew.load({"a.all": worker}, {"a.all": [name]}, min(deadline, time.monotonic() + 60))
                if name in worker.errors:
                    raise BenchError(worker.errors[name])
                report = service.report(worker.pid)
                yield name, {"kernels": report["kernels"] if report else 0, **worker.loaded[name]}
            except BenchError as error:
                yield name, {"error": str(error)}
            finally:
                with suppress(BenchError):
                    worker.end()
