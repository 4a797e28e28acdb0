"""`python -m bench.gpu [--call 2] [--json FILE]`: what only a GPU can tell, part by part; `run.sh` builds fikit and calls this.

The file is written anew whenever a part, a cell or a question ends, so that a run that is cut short keeps what it found.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tarfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from fikitd.base import build

from bench.gpu import calls, mps, processes, reaper
from bench.gpu.context import Context, Found, Options, Part
from bench.gpu.earlier import parts
from bench.gpu.pages import tables
from bench.gpu.place import Place, place
from bench.gpu.sharing import cells
from bench.record import ROOT, BenchError, Result, check, read, write

GRACE_S = 3.0  # a part that has not ended so long after its deadline is broken off


class Run:
    """What was found so far, and its file."""

    def __init__(self, arguments: argparse.Namespace, began: float) -> None:
        self.arguments = arguments
        self.options = Options(
            arguments.quick, arguments.seconds, arguments.device, arguments.programs, tuple(arguments.ways), arguments.evict,
        )  # fmt: skip
        self.began = began
        self.deadline = began + arguments.minutes * 60
        self.device: Found = {}
        self.parts: dict[str, Found] = {}
        self.seconds: dict[str, float] = {}

    def write(self) -> None:
        settings = {
            "device": self.device.get("name", ""), "gpu": {**self.device, "library": Path(self.device.get("library", "")).name}, "quick": self.options.quick, "fikit": build.identity(),
            "seconds": {**self.seconds, "all": round(time.monotonic() - self.began, 1)}, "stuck": processes.stuck,
            "python": sys.version.split()[0], "torch": _version("torch"), "call": self.arguments.call,
        }  # fmt: skip
        emulated = bool(self.device.get("emulated"))
        write(self.arguments.json, "gpu", Result("", emulated, {}, {}, settings, {"parts": self.parts}))

    def part(self, name: str, part: Part, where: Place, library: str) -> None:
        """A part that fails leaves its error, and hinders no other."""
        begin = time.monotonic()

        def changed(found: Found) -> None:
            self.parts[name] = found
            self.write()

        deadline = min(self.deadline, begin + part.most_s)
        context = Context(where, library, self.device, self.options, deadline, changed, self.say)
        try:
            if self.left() <= 5:
                raise BenchError("the time was over")
            with Alarm(max(0.1, deadline - begin) + GRACE_S, name):
                self.parts[name] = part.measure(context)
        except (Exception, Overdue) as error:  # whatever it is: the GPU is there for minutes
            self.parts[name] = {**self.parts.get(name, {}), "error": f"{_named(error)}{error}"}
        self.seconds[name] = round(time.monotonic() - begin, 1)
        self.write()
        self.say(name, self.parts[name].get("error", "done"))

    def say(self, name: str, what: str) -> None:
        print(f"{time.monotonic() - self.began:5.0f} s  {name}: {what}", flush=True)

    def left(self) -> float:
        return float(self.deadline - time.monotonic())


class Overdue(BaseException):
    """A part is broken off. No `except Exception` within the part stops this."""


class Alarm:
    """Ends all programs and raises Overdue in the main thread when the block takes longer than `limit_s`."""

    def __init__(self, limit_s: float, name: str) -> None:
        self._limit_s, self._name = limit_s, name

    def __enter__(self) -> None:
        signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self._limit_s)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, number: int, frame: object) -> NoReturn:
        processes.end_all()
        raise Overdue(f"{self._name} took longer than {self._limit_s:.0f} s and was broken off")


def _named(error: BaseException) -> str:
    return "" if isinstance(error, BenchError | Overdue) else f"{type(error).__name__}: "


def _version(module: str) -> str:
    with suppress(ImportError, ValueError):
        from importlib.metadata import version  # noqa: PLC0415

        return version(module)
    return ""


def measure(run: Run, where: Place) -> None:
    """The parts of the call, one after another."""
    arguments = run.arguments
    command = [sys.executable, "-m", "bench.gpu.probe"]
    run.device = json.loads(processes.run("looking for a GPU", command, where.env, where.directory, 60))
    run.write()
    run.say(run.device["name"], f"{run.device['driver'] or 'no NVIDIA kernel driver'}, {arguments.json}")
    library = parts.library_path(run.device["library"])
    where.env.update(mps.with_mps_on_path(where.env, library))
    os.environ["PATH"] = where.env["PATH"]  # fikitd's
    for name, part in calls.chosen(arguments.call, arguments.parts):
        run.part(name, part, where, library)


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
    parser.add_argument("--call", type=int, choices=calls.CALLS, default=1,
                        help="1: questions and pairs, 9.5 minutes; 2: what may be dropped or may hang a GPU, 2.5 minutes")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: bench/results/gpu-DATE-callN.json.gz")
    parser.add_argument(
        "--logs", type=Path, metavar="FILE.tar.gz", help="also keep what every program and daemon has said"
    )
    parser.add_argument("--parts", nargs="+", choices=calls.PARTS, metavar="PART",
                        help=f"these only, of {', '.join(calls.PARTS)}")  # fmt: skip
    parser.add_argument("--minutes", type=float, help="for everything, the build included; default: the call's")
    parser.add_argument("--seconds", type=float, help="windows of a cell of the pairs; default 3.65")
    parser.add_argument("--quick", action="store_true", help="a short form of every part, to try the bench itself")
    parser.add_argument("--ways", nargs="+", choices=cells.WAYS, default=list(cells.WAYS), metavar="WAY",
                        help=f"pairs: in which of {', '.join(cells.WAYS)}")  # fmt: skip
    parser.add_argument("--evict", action="store_true",
                        help="memory: fill the GPU and push managed memory out; of some virtual machines the GPU hangs then")  # fmt: skip
    parser.add_argument("--programs", choices=("auto", "torch", "driver"), default="auto",
                        help="of the pairs: PyTorch's, or such that need the CUDA driver only; auto: PyTorch's where it is")  # fmt: skip
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="cpu: the programs of the pairs on the processor, to try them without a GPU")  # fmt: skip
    arguments = parser.parse_args()
    name = f"gpu-{datetime.now(UTC):%Y-%m-%d-%H%M}-call{arguments.call}.json.gz"
    arguments.json = arguments.json or ROOT / "bench" / "results" / name
    arguments.minutes = arguments.minutes or calls.CALLS[arguments.call].minutes
    arguments.seconds = arguments.seconds or (0.9 if arguments.quick else 3.65)
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
    print(tables.of(read(arguments.json)))
    return 0


if __name__ == "__main__":
    sys.exit(reaper.guarded(main))
