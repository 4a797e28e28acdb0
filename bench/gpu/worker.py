"""A process that does programs' requests when it is told to: `python bench/gpu/worker.py [--device cpu|cuda]`.

It stays alive over many measurements, for a framework takes seconds to start. Commands come on its standard input, one JSON
object a line, and each is answered by one on its standard output: `{"error": "..."}`, or

    {"do": "load", "program": NAME}                    prepares it, and warms up -> {"took_s", "request_s"}
    {"do": "run", "program", "start_ns", "end_ns", "arrivals"}
                                                       requests from start to end, CLOCK_MONOTONIC: one after another, or,
                                                       with arrivals (ns after the start), each when it is there
                                                       -> {"requests": [[arrival_ns, begin_ns, end_ns], ...],
                                                           "host": [[moment_ns, took_ns], ...]}: how long a fixed piece of
                                                       the host's own work took after every eighth request
    {"do": "count", "program", "requests": N}          under PyTorch's profiler -> {"launches", "device_ns"}

A program is a file NAME.py, here in programs/ or in examples/gpu, with a function `prepare(device)` that returns a request: a
function that returns when the device has done what it asked for.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

Request = Callable[[], None]
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDERS = (HERE / "programs", ROOT / "examples" / "gpu")
WARM_UP, WARM_UP_S = 5, 1.0
HOST_EVERY, HOST_ROUNDS = 8, 400
LAUNCHES = ("LaunchKernel", "LaunchCooperativeKernel", "GraphLaunch")  # of the runtime's and the driver's names


def prepare(name: str, device: str) -> Request:
    for folder in FOLDERS:
        path = folder / f"{name}.py"
        if path.is_file():
            spec = importlib.util.spec_from_file_location(f"program_{name}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module  # Triton looks a kernel's names up there
            spec.loader.exec_module(module)
            made: Request = module.prepare(device)
            return made
    raise ValueError(f"there is no program {name}")


def warm_up(request: Request) -> float:
    """Seconds of a request, when it is warm: compiled, loaded, the clocks up."""
    begin = time.monotonic()
    done = 0
    while done < WARM_UP or time.monotonic() - begin < WARM_UP_S:
        request()
        done += 1
    last = time.monotonic()
    request()
    return time.monotonic() - last


def host_speed() -> list[int]:
    """When, and for how long a piece of work that is always the same kept the processor: longer where others slow that down."""
    begin = time.monotonic_ns()
    total = 0
    for number in range(HOST_ROUNDS):
        total += number * number
    return [begin, time.monotonic_ns() - begin]


def run(
    request: Request, start_ns: int, end_ns: int, arrivals: list[int] | None
) -> tuple[list[list[int]], list[list[int]]]:
    done: list[list[int]] = []
    host: list[list[int]] = []
    _wait_until(start_ns)
    if arrivals is None:
        begin = time.monotonic_ns()
        while begin < end_ns:
            request()
            end = time.monotonic_ns()
            done.append([begin, begin, end])
            if len(done) % HOST_EVERY == 0:
                host.append(host_speed())
                end = time.monotonic_ns()
            begin = end
    else:
        for offset in arrivals:
            if start_ns + offset >= end_ns or time.monotonic_ns() >= end_ns:
                break
            _wait_until(start_ns + offset)
            begin = time.monotonic_ns()
            request()
            done.append([start_ns + offset, begin, time.monotonic_ns()])
            if len(done) % HOST_EVERY == 0:
                host.append(host_speed())
    return done, host


def _wait_until(moment_ns: int) -> None:
    while (left := moment_ns - time.monotonic_ns()) > 0:
        if left > 300_000:
            time.sleep((left - 200_000) / 1e9)  # and the rest awake: a sleep ends late


def count(request: Request, requests: int) -> dict[str, float]:
    """Launches and device time of a request, as PyTorch's profiler sees them."""
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415 - where there is one

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(requests):
            request()
    events = list(profiler.events())
    launches = sum(any(part in event.name for part in LAUNCHES) for event in events)
    on_device = [event for event in events if str(getattr(event, "device_type", "")).endswith("CUDA")]
    device_us = sum(float(event.time_range.elapsed_us()) for event in on_device)
    return {"launches": launches / requests, "device_ns": device_us * 1e3 / requests}


def answer(command: dict[str, Any], programs: dict[str, Request], device: str) -> dict[str, Any]:
    name = str(command.get("program", ""))
    if command["do"] == "load":
        begin = time.monotonic()
        request = prepare(name, device)
        request_s = warm_up(request)
        programs[name] = request
        return {"took_s": time.monotonic() - begin, "request_s": request_s}
    if name not in programs:
        raise ValueError(f"{name} was not loaded")
    if command["do"] == "run":
        requests, host = run(programs[name], command["start_ns"], command["end_ns"], command["arrivals"])
        return {"requests": requests, "host": host}
    if command["do"] == "count":
        return count(programs[name], command["requests"])
    raise ValueError(f"there is no command {command['do']}")


def _own_output() -> TextIO:
    """Standard output for the answers; what a framework prints goes to standard error."""
    own = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    device = parser.parse_args().device
    answers = _own_output()
    sys.path.insert(0, str(ROOT))  # the programs share a module
    programs: dict[str, Request] = {}
    print(json.dumps({"pid": os.getpid()}), file=answers)
    for line in sys.stdin:
        try:
            found = answer(json.loads(line), programs, device)
        except Exception as error:  # a program's fault is its own
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {error}"[:400]}
        print(json.dumps(found), file=answers)


if __name__ == "__main__":
    main()
