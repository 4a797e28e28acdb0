"""`python -m bench.gpu [--json FILE]`: what only a GPU can tell, part by part; `run.sh` builds fikit and calls this.

The file is written anew after each part and each cell, so that a run that is cut short keeps what it found.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import sys
import tarfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from fikitd.base import build

from bench.gpu import conformance, memory, pairs, parts, plans, processes, tables
from bench.gpu.place import Place, place
from bench.record import ROOT, BenchError, Result, check, write

PARTS = ("costs", "launch", "timing", "slices", "mps", "memory", "conformance", "plans", "pairs", "frameworks")
MINUTES = 9.5  # of ten that the machine is there
Found = dict[str, Any]


class Run:
    """What was found so far, and its file."""

    def __init__(self, arguments: argparse.Namespace, began: float) -> None:
        self.arguments = arguments
        self.began = began
        self.deadline = began + arguments.minutes * 60
        self.device: Found = {}
        self.parts: dict[str, Found] = {}
        self.seconds: dict[str, float] = {}

    def write(self) -> None:
        settings = {
            "device": self.device.get("name", ""), "gpu": {**self.device, "library": Path(self.device.get("library", "")).name}, "quick": self.arguments.quick, "fikit": build.identity(),
            "seconds": {**self.seconds, "all": round(time.monotonic() - self.began, 1)}, "stuck": processes.stuck,
            "python": sys.version.split()[0], "torch": _version("torch"),
        }  # fmt: skip
        emulated = bool(self.device.get("emulated"))
        write(self.arguments.json, "gpu", Result("", emulated, {}, {}, settings, {"parts": self.parts}))

    def part(self, name: str, measure: Callable[[], Found]) -> None:
        """One that fails says why, and hinders no other."""
        if name not in self.arguments.parts:
            return
        begin = time.monotonic()
        try:
            self.parts[name] = measure() if self.left() > 5 else {"error": "the time was over"}
        except Exception as error:  # whatever it is: the GPU is there for minutes
            self.parts[name] = {**self.parts.get(name, {}), "error": f"{_named(error)}{error}"}
        self.seconds[name] = round(time.monotonic() - begin, 1)
        self.write()
        self.say(name, self.parts[name].get("error", "done"))

    def say(self, name: str, what: str) -> None:
        print(f"{time.monotonic() - self.began:5.0f} s  {name}: {what}", flush=True)

    def left(self) -> float:
        return float(self.deadline - time.monotonic())


def _named(error: Exception) -> str:
    return "" if isinstance(error, BenchError) else f"{type(error).__name__}: "


def _version(module: str) -> str:
    with suppress(ImportError, ValueError):
        from importlib.metadata import version  # noqa: PLC0415

        return version(module)
    return ""


def measure(run: Run, where: Place) -> None:
    """All parts, what nobody can tell without hardware first."""
    arguments = run.arguments
    scale = parts.QUICK if arguments.quick else parts.Scale()
    command = [sys.executable, "-m", "bench.gpu.probe"]
    run.device = json.loads(processes.run("looking for a GPU", command, where.env, where.directory, 60))
    run.write()
    run.say(run.device["name"], f"{run.device['driver'] or 'no NVIDIA kernel driver'}, {arguments.json}")
    library = parts.library_path(run.device["library"])
    exclusive = run.device["compute_mode"] in ("exclusive", "exclusive_process")
    run.part("costs", lambda: parts.costs(where, scale, min(45, run.left())))
    run.part("launch", lambda: parts.launch(where, scale, min(45, run.left())))
    run.part("timing", lambda: parts.timing(where, scale, min(45, run.left())))
    if exclusive:
        run.parts["slices"] = {
            "error": f"the GPU's compute mode is {run.device['compute_mode']}: one process has it at a time"
        }
    else:
        run.part("slices", lambda: parts.slices(where, scale))
    run.part("mps", lambda: parts.by_mps(where, scale, library))
    run.part("memory", lambda: memory.memory(where, arguments.quick, arguments.evict, min(45, run.left())))
    run.part("conformance", lambda: conformance.conformance(where, scale.programs, library, min(60, run.left())))
    run.part("plans", lambda: _plans(run, where))
    run.part("pairs", lambda: _pairs(run, where, library, exclusive))
    run.part("frameworks", lambda: dict(pairs.frameworks(where, run.deadline)))


def _with_torch(arguments: argparse.Namespace) -> bool:
    return arguments.programs == "torch" or (
        arguments.programs == "auto" and importlib.util.find_spec("torch") is not None
    )


def _plans(run: Run, where: Place) -> Found:
    names = [plans.BARE, *(["deep"] if _with_torch(run.arguments) else [])]
    return plans.plans(where, run.arguments.device, names, min(2.0, run.arguments.seconds), run.deadline - 5)


def _pairs(run: Run, where: Place, library: str, exclusive: bool) -> Found:
    arguments = run.arguments
    with_torch = _with_torch(arguments)
    deadline = run.deadline - (25 if "frameworks" in arguments.parts else 0)

    def changed(found: Found) -> None:
        run.parts["pairs"] = found
        run.write()
        if found["cells"]:
            last = found["cells"][-1]
            run.say(
                f"{' + '.join(last['pair'])}, {last['way']}, {last['kind']}",
                last.get("error", f"JCT ratio {last.get('jct_ratio')}"),
            )

    setting = pairs.Setting(
        where, library, arguments.device, pairs.TORCH_PAIRS if with_torch else pairs.DRIVER_PAIRS,
        arguments.seconds, deadline, exclusive, tuple(arguments.ways),
    )  # fmt: skip
    return pairs.Measurement(setting, changed).run()


def _pack(directory: Path, target: Path) -> None:
    """What programs and daemons have said."""
    try:
        with tarfile.open(target, "w:gz") as packed:
            for pattern in ("**/*.err", "**/*.log"):
                for path in directory.glob(pattern):
                    packed.add(path, path.relative_to(directory))
    except OSError as error:
        print(f"bench.gpu: couldn't write {target}: {error.strerror}", file=sys.stderr)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/gpu/run.sh", description=__doc__.splitlines()[0])
    default = ROOT / "bench" / "results" / f"gpu-{datetime.now(UTC):%Y-%m-%d-%H%M}.json"
    parser.add_argument(
        "--json", type=Path, default=default, metavar="FILE", help="default: bench/results/gpu-DATE.json"
    )
    parser.add_argument(
        "--logs", type=Path, metavar="FILE.tar.gz", help="also keep what every program and daemon has said"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART",
                        help=f"which of {', '.join(PARTS)}")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for everything, the build included")
    parser.add_argument("--seconds", type=float, default=None, help="length of a cell of the pairs; default 4")
    parser.add_argument("--quick", action="store_true", help="a short form of every part, to try the bench itself")
    parser.add_argument("--ways", nargs="+", choices=pairs.WAYS, default=list(pairs.WAYS), metavar="WAY",
                        help=f"pairs: in which of {', '.join(pairs.WAYS)}")  # fmt: skip
    parser.add_argument("--evict", action="store_true",
                        help="memory: fill the GPU and push managed memory out; of some virtual machines the GPU hangs then")  # fmt: skip
    parser.add_argument("--programs", choices=("auto", "torch", "driver"), default="auto",
                        help="of the pairs: PyTorch's, or such that need the CUDA driver only; auto: PyTorch's where it is")  # fmt: skip
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="cpu: the programs of the pairs on the processor, to try them without a GPU")  # fmt: skip
    arguments = parser.parse_args()
    arguments.seconds = arguments.seconds or (0.3 if arguments.quick else 4.0)
    return arguments


def _began() -> float:
    """When run.sh began, by time.monotonic; the build counts."""
    try:
        return time.monotonic() - max(0.0, time.time() - float(os.environ["FIKIT_GPU_BEGAN"]))
    except (KeyError, ValueError):
        return time.monotonic()


def _stop(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> int:
    arguments = _arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    run = Run(arguments, _began())
    try:
        check(arguments.json)
        with place() as where:
            try:
                measure(run, where)
            finally:
                processes.end_all()
                run.write()
                if arguments.logs is not None:
                    _pack(where.directory, arguments.logs)
    except BenchError as error:
        print(f"bench.gpu: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"bench.gpu: it was stopped; what was found is in {arguments.json}", file=sys.stderr)
        return 130
    print(tables.of(json.loads(arguments.json.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
