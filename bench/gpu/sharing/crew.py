"""The workers: processes that are kept alive and do a program's requests when told (worker.py)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu.place import Place
from bench.gpu.processes import Program
from bench.record import BenchError

SCRIPT = Path(__file__).with_name("worker.py")
START_S = 20.0
END_S = 8.0
LATE_S = 15.0  # after its time a request may still take


class Worker:
    """One process; it may have been started by another one, `fikit run`, that is in its group."""

    def __init__(
        self, name: str, place: Place, device: str, env: Mapping[str, str], wrap: list[str] | None = None
    ) -> None:
        self.name, self.place = name, place
        command = [sys.executable, str(SCRIPT), "--device", device]
        env = {**env, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}  # or its results depend on the streams that are there
        if device == "cpu":
            # Several programs at a time: threads that wait awake would keep each other waiting. Triton looks when it is imported.
            env = {**env, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1"}
        self.program = Program(name, [*(wrap or []), *command], env, place.directory)
        self.loaded: dict[str, dict[str, Any]] = {}
        self.errors: dict[str, str] = {}
        self.broken = ""
        self.host: list[list[int]] = []  # of the last run: moments, and how long the same piece of work took the host
        self.process = 0  # the worker's own, once it has answered
        self._greeted = False

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        return self.program.process.pid

    def tell(self, command: Mapping[str, Any]) -> None:
        """BenchError with its last words: the worker has ended."""
        try:
            self.program.write(json.dumps(command))
        except BenchError as error:
            self.broken = str(error)
            raise

    def answer(self, deadline: float) -> dict[str, Any]:
        """BenchError with what went wrong in the program; a worker that says nothing in time is ended."""
        try:
            if not self._greeted:
                self.process = int(json.loads(self.program.line(deadline))["pid"])
                self._greeted = True
            found = json.loads(self.program.line(deadline))
        except (BenchError, ValueError, KeyError, TypeError) as error:
            self.broken = str(error)
            self.program.kill()
            raise BenchError(self.broken) from error
        if "error" in found:
            raise BenchError(f"{self.name}: {found['error']}")
        return dict(found)

    def end(self) -> None:
        end([self])


def end(workers: Sequence[Worker]) -> None:
    """Ends them at the same time. Each may go by itself within END_S, so that the driver has nothing to clean up."""
    going = [worker for worker in workers if not worker.broken]
    for worker in workers:
        if worker.broken:
            worker.program.kill()
    for worker in going:
        with suppress(OSError):
            assert worker.program.process.stdin is not None
            worker.program.process.stdin.close()
    deadline = time.monotonic() + END_S
    for worker in going:
        worker.program.finish(deadline)


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


@dataclass(frozen=True)
class Work:
    """Requests for a worker: in these windows (time.monotonic_ns), one after another or at `arrivals` (ns after the first window's begin)."""

    worker: Worker
    program: str
    windows: list[tuple[int, int]]
    arrivals: list[int] | None = None


Requests = list[list[int]]  # arrival, begin, end


def run(each: Sequence[Work]) -> list[list[Requests]]:
    """Requests of several workers at the same time, by worker and window. BenchError when one cannot."""
    for work in each:
        if work.worker.broken or work.program not in work.worker.loaded:
            why = work.worker.errors.get(work.program, f"{work.worker.name} has not loaded {work.program}")
            raise BenchError(work.worker.broken or why)
    told, found, failed = [], [], ""
    for work in each:
        try:
            work.worker.tell({"do": "run", "program": work.program, "windows": work.windows, "arrivals": work.arrivals})
            told.append(work.worker)
        except BenchError as error:
            failed = str(error)
    end_ns = max(end for work in each for _, end in work.windows)
    deadline = time.monotonic() + max(0, end_ns - time.monotonic_ns()) / 1e9 + LATE_S
    for worker in told:  # all of them, or the next answer would be taken for another question's
        try:
            answer = worker.answer(deadline)
            found.append(answer["requests"])
            worker.host = answer["host"]
        except (KeyError, TypeError) as error:
            failed = f"{worker.name} gave an answer that is none: {error}"
        except BenchError as error:
            failed = str(error)
    if failed:
        raise BenchError(failed)
    return found


def alone(worker: Worker, program: str, seconds: float) -> Requests:
    """A program's requests one after another, from now on."""
    begin = time.monotonic_ns() + 20_000_000
    ((requests,),) = run([Work(worker, program, [(begin, begin + round(seconds * 1e9))])])
    return requests
