"""A process that does programs' requests when it is told to: `python bench/gpu/sharing/worker.py [--device cpu|cuda]`.

It stays alive over many measurements, for a framework takes seconds to start. Commands come on its standard input, one JSON
object a line, and each is answered by one on its standard output: `{"error": "..."}`, or

    {"do": "load", "program": NAME}                    prepares it, and warms up -> {"took_s", "request_s"}
    {"do": "run", "program", "windows", "arrivals"}    requests in each window [begin_ns, end_ns], CLOCK_MONOTONIC: one after
                                                       another, or, with arrivals (ns after the first window's begin), each
                                                       when it is there. A window ends with a request, so the next one may
                                                       begin later: the pause between them is kept
                                                       -> {"requests": for each window [[arrival_ns, begin_ns, end_ns], ...],
                                                           "host": [[moment_ns, took_ns], ...]}: how long a fixed piece of
                                                       the host's own work took after every eighth request
    {"do": "digest", "program", "requests": N}         the program anew, and N requests of it -> {"digest": SHA-256 of what they
                                                       returned}
    {"do": "mode"}                                     -> {"mps": whether the driver says that the process is a client of MPS,
                                                           "pipes": the directory by which it joined, or was told to}
    {"do": "count", "program", "requests": N}          under PyTorch's profiler -> {"launches", "device_ns"}

A program is a file NAME.py, in bench/gpu/programs or in examples/gpu, with a function `prepare(device)` that returns a request: a
function that returns its result when the device has done what it asked for. Results are the same in each run: PyTorch computes with
its deterministic algorithms here.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import importlib.util
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

Request = Callable[[], object]
ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (ROOT / "bench" / "gpu" / "programs", ROOT / "examples" / "gpu")
WARM_UP, WARM_UP_S = 5, 1.0
HOST_EVERY, HOST_ROUNDS = 8, 400
MPS_ENABLED = 133  # CU_DEVICE_ATTRIBUTE_MPS_ENABLED
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
            if "torch" in sys.modules:
                _deterministic()
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
    request: Request, windows: list[list[int]], arrivals: list[int] | None
) -> tuple[list[list[list[int]]], list[list[int]]]:
    """Requests by window, and how fast the host was."""
    host: list[list[int]] = []
    if arrivals is not None:
        return [_as_they_come(request, windows[0], arrivals, host)], host
    done: list[list[list[int]]] = []
    over, before = 0, windows[0][0]
    for nominal, nominal_end in windows:
        begin = max(nominal, over + nominal - before)
        end = min(begin + nominal_end - nominal, windows[-1][1])
        done.append(_one_after_another(request, begin, end, host))
        over, before = done[-1][-1][2] if done[-1] else over, nominal_end
    return done, host


def _one_after_another(request: Request, begin_ns: int, end_ns: int, host: list[list[int]]) -> list[list[int]]:
    done: list[list[int]] = []
    _wait_until(begin_ns)
    begin = time.monotonic_ns()
    while begin < end_ns:
        request()
        end = time.monotonic_ns()
        done.append([begin, begin, end])
        if len(done) % HOST_EVERY == 0:
            host.append(host_speed())
            end = time.monotonic_ns()
        begin = end
    return done


def _as_they_come(request: Request, window: list[int], arrivals: list[int], host: list[list[int]]) -> list[list[int]]:
    done: list[list[int]] = []
    start_ns, end_ns = window
    for offset in arrivals:
        if start_ns + offset >= end_ns or time.monotonic_ns() >= end_ns:
            break
        _wait_until(start_ns + offset)
        begin = time.monotonic_ns()
        request()
        done.append([start_ns + offset, begin, time.monotonic_ns()])
        if len(done) % HOST_EVERY == 0:
            host.append(host_speed())
    return done


def _wait_until(moment_ns: int) -> None:
    while (left := moment_ns - time.monotonic_ns()) > 0:
        if left > 300_000:
            time.sleep((left - 200_000) / 1e9)  # and the rest awake: a sleep ends late


def _deterministic() -> None:
    """The same results in each run; a kernel of which there is no such form is left as it is. cuBLAS reads CUBLAS_WORKSPACE_CONFIG, too."""
    import torch  # noqa: PLC0415 - where there is one

    torch.use_deterministic_algorithms(True, warn_only=True)
    with suppress(AttributeError):  # of PyTorch 2.1 and newer
        torch.utils.deterministic.fill_uninitialized_memory = False  # it would add kernels to the program's
    torch.backends.cudnn.benchmark = False


def digest(name: str, device: str, requests: int) -> str:
    """Of what a new program's first requests return."""
    request = prepare(name, device)
    found = hashlib.sha256()
    for _ in range(requests):
        for part in _parts(request()):
            found.update(part)
    return found.hexdigest()


def _parts(result: object) -> Iterator[bytes]:
    """The bytes of a result: numbers, tensors, or sequences of them. ValueError for a program that returns nothing."""
    if isinstance(result, list | tuple):
        for each in result:
            yield from _parts(each)
    elif isinstance(result, int | float):
        yield repr(result).encode()
    elif "torch" in sys.modules and isinstance(result, sys.modules["torch"].Tensor):
        here = result.detach().contiguous().cpu()
        yield ctypes.string_at(here.data_ptr(), here.numel() * here.element_size())
    else:
        raise ValueError(f"the program returns {type(result).__name__}, of which there is no digest")


def by_mps() -> bool:
    """What the driver says of this process's contexts. OSError, ValueError where it says nothing."""
    value, driver = ctypes.c_int(), ctypes.CDLL("libcuda.so.1")
    code = driver.cuInit(0) or driver.cuDeviceGetAttribute(ctypes.byref(value), MPS_ENABLED, 0)
    if code:
        raise ValueError(f"the driver does not say whether this is a client of MPS: {code}")
    return bool(value.value)


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
    if command["do"] == "mode":
        return {"mps": by_mps(), "pipes": os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "")}
    if command["do"] == "digest":
        return {"digest": digest(name, device, command["requests"])}
    if name not in programs:
        raise ValueError(f"{name} was not loaded")
    if command["do"] == "run":
        requests, host = run(programs[name], command["windows"], command["arrivals"])
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
