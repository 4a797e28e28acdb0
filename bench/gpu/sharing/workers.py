"""The workers of the pairs by their keys "kind.role". A worker that breaks is started again, and costs the cells until then."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.gpu import mps
from bench.gpu.sharing import cores, crew
from bench.gpu.sharing.crew import Worker
from bench.record import BenchError

LOAD_S = 60.0  # to start, import, compile, warm up
MODE_S = 5.0
RESTARTS = 4


class Workers:
    """`note` stores a sentence in the file. `programs` names the programs that a worker with this key loads."""

    def __init__(self, deadline: float, note: Callable[[str], None], programs: Callable[[str], list[str]]) -> None:
        self._deadline, self._note, self._programs = deadline, note, programs
        self._workers: dict[str, Worker] = {}
        self._made: dict[str, Callable[[], Worker]] = {}
        self._restarts = RESTARTS
        self.loaded: dict[str, Any] = {}  # for the file

    def start(self, made: Mapping[str, Callable[[], Worker]]) -> None:
        """Starts workers and loads their programs, all at the same time. A failure becomes a note."""
        self._made |= made
        started = {}
        for key, make in made.items():
            try:
                started[key] = self._workers[key] = make()
            except BenchError as error:
                self._note(f"{key}: {error}")
        deadline = min(time.monotonic() + LOAD_S, self._deadline)
        crew.load(started, {key: self._programs(key) for key in started}, deadline)
        for key, worker in started.items():
            self.loaded[key] = worker.loaded
            for name, why in worker.errors.items():
                self._note(f"{key}: {name}: {why}")
            cores.pin(key.split(".")[1], worker.pid)

    def find(self, key: str) -> Worker | None:
        return self._workers.get(key)

    def end(self, *keys: str) -> None:
        """Ends these workers, or all."""
        gone = [self._workers.pop(key, None) for key in keys or list(self._workers)]
        crew.end([worker for worker in gone if worker is not None])

    def whole(self, *keys: str) -> list[Worker]:
        """These workers; broken ones are started again. BenchError: there is no such worker, or too many have broken."""
        for key in keys:
            worker = self._workers.get(key)
            if worker is not None and not worker.broken:
                continue
            if key not in self._made:
                raise BenchError(f"there is no worker {key}")
            why = worker.broken if worker is not None else f"{key} did not start"
            if self._restarts == 0:
                raise BenchError(why)
            self._restarts -= 1
            self._note(f"{key} is started again: {why}")
            self.start({key: self._made[key]})
        return [self._workers[key] for key in keys if key in self._workers]


def check_mode(worker: Worker, by_mps: bool, said: Mapping[str, Any] | None, managed: bool) -> None:
    """BenchError: the worker does not share the GPU in the way that its cell is named after.

    The driver says in the worker's process whether this is a client of MPS; where the driver denies it, the list of the MPS daemon
    counts. Of a managed worker fikitd has a word, too: `said` is its report.
    """
    worker.tell({"do": "mode"})
    answer = worker.answer(time.monotonic() + MODE_S)
    found = answer["mps"] or (by_mps and worker.process in mps.clients(worker.place, answer["pipes"]))
    if found != by_mps:
        wanted = "is no client of MPS" if by_mps else "is a client of MPS"
        raise BenchError(f"{worker.name} {wanted}, by the driver: {_why(said)}")
    if not managed:
        return
    if said is None:
        raise BenchError(f"{worker.name} ran unmanaged: {worker.program.last_words()}")
    if said["device_mode"] != ("mps" if by_mps else "slices"):
        raise BenchError(f"{worker.name} shares the GPU by {said['device_mode']}, by fikitd: {_why(said)}")


def _why(said: Mapping[str, Any] | None) -> str:
    return "; ".join(said["warnings"]) if said and said.get("warnings") else "nothing says why"
