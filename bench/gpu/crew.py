"""The workers: processes that are kept alive and do a program's requests when told (worker.py)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.gpu.place import Place
from bench.gpu.processes import Program
from bench.record import BenchError

SCRIPT = Path(__file__).with_name("worker.py")
START_S = 20.0
LATE_S = 15.0  # after its time a request may still take


class Worker:
    """One process; it may have been started by another one, `fikit run`, that is in its group."""

    def __init__(
        self, name: str, place: Place, device: str, env: Mapping[str, str], wrap: list[str] | None = None
    ) -> None:
        self.name = name
        command = [sys.executable, str(SCRIPT), "--device", device]
        if device == "cpu":
            # Several programs at a time: threads that wait awake would keep each other waiting. Triton looks when it is imported.
            env = {**env, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1"}
        self.program = Program(name, [*(wrap or []), *command], env, place.directory)
        self.loaded: dict[str, dict[str, Any]] = {}
        self.errors: dict[str, str] = {}
        self.broken = ""
        self.host: list[list[int]] = []  # of the last run: moments, and how long the same piece of work took the host
        self._greeted = False

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        return self.program.process.pid

    def tell(self, command: Mapping[str, Any]) -> None:
        self.program.write(json.dumps(command))

    def answer(self, deadline: float) -> dict[str, Any]:
        """BenchError with what went wrong in the program; a worker that says nothing in time is ended."""
        try:
            if not self._greeted:
                self.program.line(deadline)
                self._greeted = True
            found = json.loads(self.program.line(deadline))
        except (BenchError, ValueError) as error:
            self.broken = str(error)
            self.program.kill()
            raise BenchError(self.broken) from error
        if "error" in found:
            raise BenchError(f"{self.name}: {found['error']}")
        return dict(found)

    def end(self) -> None:
        """Lets it go by itself, so that the driver has nothing to clean up; then not."""
        if self.program.process.stdin is not None and not self.broken:
            self.program.process.stdin.close()
            self.program.finish(time.monotonic() + 8)
        else:
            self.program.kill()


def load(workers: Mapping[str, Worker], programs: Mapping[str, Iterable[str]], deadline: float) -> None:
    """Each worker prepares its programs, all at the same time. What went wrong is in `errors` of the worker."""
    waiting = {key: list(dict.fromkeys(programs[key])) for key in workers}
    for key, worker in workers.items():
        for name in waiting[key]:
            try:
                worker.tell({"do": "load", "program": name})
            except BenchError as error:
                worker.errors[name] = str(error)
    for key, worker in workers.items():
        for name in waiting[key]:
            if name in worker.errors:
                continue
            try:
                worker.loaded[name] = worker.answer(deadline)
            except BenchError as error:
                worker.errors[name] = str(error)


def run(each: Iterable[tuple[Worker, str, list[int] | None]], start_ns: int, end_ns: int) -> list[list[list[int]]]:
    """Requests of several workers at the same time: (worker, program, arrivals). BenchError when one cannot."""
    chosen = list(each)
    for worker, name, _ in chosen:
        if worker.broken or name not in worker.loaded:
            raise BenchError(worker.broken or worker.errors.get(name, f"{worker.name} has not loaded {name}"))
    told, found, failed = [], [], ""
    for worker, name, arrivals in chosen:
        try:
            worker.tell({"do": "run", "program": name, "start_ns": start_ns, "end_ns": end_ns, "arrivals": arrivals})
            told.append(worker)
        except BenchError as error:
            failed = worker.broken = str(error)
    deadline = time.monotonic() + (end_ns - time.monotonic_ns()) / 1e9 + LATE_S
    for worker in told:  # all of them, or the next answer would be taken for another question's
        try:
            answer = worker.answer(deadline)
            found.append(answer["requests"])
            worker.host = answer["host"]
        except BenchError as error:
            failed = str(error)
    if failed:
        raise BenchError(failed)
    return found
