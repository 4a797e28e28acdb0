"""Attacks of a low job on a high one, each as a program of its own, on the emulated GPU in real time: how much slower is the high job, second by second?

`python -m tests.attacks.attack_runs [ROW ...]`, from the repository's root. The high job runs alone, beside an honest low job, then beside each attack,
every time with the profiles that it had learnt alone. Nothing here is a claim about hardware.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fikitd.api.reports import ReportStore

from bench.launch.managed import own_environment
from fikitd import paths

PROGRAMS = Path(__file__).parent / "programs"
MODES = {
    "slices": 'sharing = "slices"',
    "mps": 'sharing = "mps"',
    "mps-admission": 'sharing = "mps"\nmps_model = "admission"',
}
DEVICE = """\
[device]
name = "Emulated GPU (attacks)"
{sharing}
[copy]
d2d_gbps = 0.55
latency_us = 0.0
[[kernel]]
match = "fikit_spin"
duration = "param0_ns"
"""
SECONDS = 12
LEAD_S = 1.0  # of the high job alone, before the other one comes
AFTER_DRAIN_S = 5.0
PATIENCE_S = 20.0


@dataclass(frozen=True)
class Row:
    """An attack: its program and arguments behind the seconds. around: without the shim. teaches: arguments of a run before, under the same profile.
    stored: it begins while it is alone, and ends when what it has stored is done, at most `seconds` later."""

    about: str
    program: str
    arguments: tuple[str, ...] = ()
    around: bool = False
    teaches: tuple[str, ...] | None = None
    stored: bool = False
    seconds: int = 0


ROWS = {
    "rare": Row("one kernel: 5 us, every 200th time 50 ms", "rare"),
    "copies-linear": Row("cuMemcpyAsync within the device, 8 ms each", "copies", ("linear",)),
    "copies-2d": Row("cuMemcpy2DAsync within the device, 8 ms each", "copies", ("2d",)),
    "copies-3d": Row("cuMemcpy3DAsync within the device, 8 ms each", "copies", ("3d",)),
    "copies-peer": Row("cuMemcpyPeerAsync within the device, 8 ms each", "copies", ("peer",)),
    "copies-3d-peer": Row("cuMemcpy3DPeerAsync within the device, 8 ms each", "copies", ("3d-peer",)),
    "capture": Row("a profile of 5 us, kernels of 5 ms beside an open capture", "capture", teaches=("teach",)),
    "stored-wait": Row("1,000 x 20 ms behind cuStreamWaitValue32, stored while alone", "stored", ("wait",), stored=True, seconds=45),
    "stored-streams": Row("launches of 5 ms on 64 streams for 1 s while alone", "stored", ("streams",), stored=True),
    "own-client": Row("a client of its own making: 5 to 50 ms, reported as 5 us", "own_client", around=True),
    "new-graphs": Row("each launch of 50 ms a new graph", "identities", ("graphs",)),
    "new-grids": Row("each launch of 50 ms a new grid", "identities", ("grids",)),
    "new-streams": Row("new grids of 50 ms on 64 streams", "identities", ("streams",)),
    "comers": Row("processes that launch one kernel of 50 ms and end, four at a time", "comers"),
    "trusted": Row("3 s of kernels of 200 us, then 1 s of 50 ms, in turns", "trusted"),
    "deferred": Row("kernels of 200 us behind a host function of 2.5 ms", "deferred", ("2500",)),
    "relay": Row("6 processes, 1 s of kernels of 200 us, then one of 30 ms, in turns", "relay", ("6", "30")),
    "starved": Row("4 processes, kernels of 3 s", "starved", ("3000", "4"), seconds=36),
    "concert": Row("8 processes, kernels of 5 us, every 2 s one of 200 ms, all at once", "concert", ("8", "200")),
    "starved-many": Row("32 processes, kernels of 50 ms", "starved", ("50", "32"), seconds=25),
    "around": Row("kernels of 5 ms around fikit, without pause", "honest", ("5000",), around=True),
}  # fmt: skip
HONEST = Row("kernels of 200 us, a wait after ten", "honest", ("200", "10"))
STOPPED = {"stopped-200us": HONEST, "stopped-5ms": Row("kernels of 5 ms, a wait after ten", "honest", ("5000", "10"))}
"""Low jobs beside a high one that is stopped in the middle of its kernels."""


class Program:
    """A program under `fikit run`. It has begun its work."""

    def __init__(self, site: Site, row: Row, priority: str, seconds: float, profile: str, *arguments: str) -> None:
        self.site = site
        command = [
            sys.executable,
            "-m",
            "fikit",
            "run",
            "--emulated",
            "--priority",
            priority,
            "--profile",
            profile,
            "--",
        ]
        command += ["env", "-u", "LD_PRELOAD"] if row.around else []
        command += [str(site.programs[row.program]), str(seconds), *arguments]
        self.process = subprocess.Popen(
            command, env=site.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        site.started.append(self)
        self.begun_ns, self.pid = self.heard("begun")
        self.drained_ns: int | None = None

    def heard(self, word: str) -> tuple[int, int]:
        """When it said so, and its pid."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().split()
        if line[:1] != [word]:
            self.process.kill()
            raise RuntimeError(f"no {word!r} but {line} {self.process.communicate()[1]}")
        return int(line[1]), int(line[2])

    def drains(self, until_s: float) -> bool:
        """It says so by then (time.monotonic)."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout.fileno()], [], [], max(until_s - time.monotonic(), 0))
        if ready:
            self.drained_ns = self.heard("drained")[0]
        return bool(ready)

    def end(self) -> list[int]:
        """When its iterations ended, ns. One that waits for its work for longer than a second is killed, and has said nothing."""
        self.process.send_signal(signal.SIGTERM)
        try:
            out, _ = self.process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            out, _ = self.process.communicate(timeout=PATIENCE_S)
        words = out.split()
        return [int(word) for word in words[words.index("ended") + 1 :]] if "ended" in words else []

    def report(self) -> dict[str, Any]:
        """Once it has ended; {}: there is none."""
        store, job = ReportStore(self.site.reports), f"run-{self.process.pid}-1"
        until_s = time.monotonic() + 5
        while (report := store.load(job)) is None and time.monotonic() < until_s:
            time.sleep(0.05)
        return dict(report or {})


class Site:
    """A fikitd, an emulated device and the programs."""

    def __init__(self, environment: Mapping[str, str], directory: Path, mode: str) -> None:
        device = directory / "device.toml"
        device.write_text(DEVICE.format(sharing=MODES[mode]))
        self.environment = {**environment, "EMUCUDA_CONFIG": str(device)}
        root = Path(environment["FIKIT_CONFIG"]).parent
        self.reports, self.profiles, self.learnt = root / "reports", root / "profiles", root / "learnt"
        self.programs = built(directory)
        self.started: list[Program] = []

    def high(self, seconds: float, *arguments: str) -> Program:
        return Program(self, Row("", "high"), "high", seconds, "high", *arguments)

    def low(self, row: Row, seconds: float, arguments: Sequence[str] | None = None) -> Program:
        return Program(self, row, "low", seconds, row.program, *(row.arguments if arguments is None else arguments))

    def keep_profiles(self) -> None:
        """Later runs begin with what was learnt until now, once that is stored."""
        until_s = time.monotonic() + PATIENCE_S
        while not self.profiles.exists() and time.monotonic() < until_s:
            time.sleep(0.05)
        shutil.copytree(self.profiles, self.learnt)

    def clear(self) -> None:
        """Every program is gone, and what it left on the device and in the profiles."""
        for program in self.started:
            if program.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.kill(program.pid, signal.SIGKILL)
                program.process.communicate()
        self.started.clear()
        shutil.rmtree(self.profiles, ignore_errors=True)
        if self.learnt.exists():
            shutil.copytree(self.learnt, self.profiles)
        subprocess.run([paths.emuctl(), "reset"], env=self.environment, capture_output=True, check=False)


def built(directory: Path) -> dict[str, Path]:
    """The programs, by their names."""
    include = Path(__file__).parents[2] / "fikitd/core/protocol"
    done = {}
    for source in PROGRAMS.glob("*.c"):
        done[source.stem] = directory / source.stem
        flags = ["-O1", "-Wall", "-Wextra", f"-I{include}", f"-L{paths.emulator_dir()}", "-l:libcuda.so.1"]
        subprocess.run(["cc", "-o", str(done[source.stem]), str(source), *flags], check=True)
    return done


@contextmanager
def site(mode: str) -> Iterator[Site]:
    """Nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="fikit-attacks-") as directory, own_environment({}) as environment:
        made = Site(environment, Path(directory), mode)
        try:
            yield made
        finally:
            made.clear()


def per_second(ends_ns: Sequence[int], from_ns: int, seconds: int) -> list[int]:
    """How many ended in each second."""
    counts = [0] * seconds
    for end_ns in ends_ns:
        second = (end_ns - from_ns) // 1_000_000_000
        if 0 <= second < seconds:
            counts[second] += 1
    return counts


@dataclass(frozen=True)
class Beside:
    """The high job beside a low one. slowdown: of the median second from the second one on, or from 5 s after what was stored is done; `mean`: of all these together."""

    slowdown: float
    mean: float
    seconds: list[float]
    low_per_s: float
    drained_s: float | None
    high_report: dict[str, Any]
    low_report: dict[str, Any]


def alone(at: Site, seconds: int) -> float:
    """Iterations per second of the high job alone, of its median second. What it has learnt the first time is what it knows in every later run."""
    program = at.high(seconds + 30)
    time.sleep(LEAD_S + seconds)
    counts = per_second(program.end(), program.begun_ns + int(LEAD_S * 1e9), seconds)
    if program.report() and not at.learnt.exists():
        at.keep_profiles()
    at.clear()
    return statistics.median(counts)


def beside(at: Site, row: Row, alone_per_s: float, seconds: int) -> Beside:
    """The high job beside that."""
    if row.teaches is not None:
        at.low(row, 2, row.teaches).process.communicate()
    if row.stored:
        low = at.low(row, seconds + 60)
        low.heard("stored")
        high = at.high(seconds + 60)
        from_ns = high.begun_ns
        os.kill(low.pid, signal.SIGUSR1)
        until_s = from_ns / 1e9 + seconds
        if low.drains(until_s - AFTER_DRAIN_S - 3):
            until_s = min(until_s, time.monotonic() + AFTER_DRAIN_S + 5)
    else:
        high = at.high(seconds + 60)
        time.sleep(LEAD_S)
        low = at.low(row, seconds + 60)
        from_ns = low.begun_ns
        until_s = from_ns / 1e9 + seconds
    time.sleep(max(until_s - time.monotonic(), 0))
    whole = int(until_s - from_ns / 1e9)
    high_ends, low_ends = high.end(), low.end()
    drained_s = None if low.drained_ns is None else max(0.0, (low.drained_ns - from_ns) / 1e9)
    counts = per_second(high_ends, from_ns, whole)
    first = 1 if drained_s is None else max(1, int(drained_s + AFTER_DRAIN_S) + 1)
    judged = counts[first:]
    result = Beside(
        alone_per_s / max(statistics.median(judged), 0.1) - 1,
        alone_per_s * len(judged) / max(sum(judged), 1) - 1,
        [alone_per_s / max(count, 1) - 1 for count in counts],
        len([end for end in low_ends if from_ns <= end < until_s * 1e9]) / whole,
        drained_s, high.report(), low.report(),
    )  # fmt: skip
    at.clear()
    return result


def beside_a_stopped_one(at: Site, row: Row, seconds: int) -> tuple[float, dict[str, Any]]:
    """The low job's speed beside a high one that stands still / alone, both from the second second on; the low job's report."""
    rates = []
    low = None
    for stopped in (False, True):
        low = at.low(row, seconds + 60)
        from_ns = low.begun_ns
        if stopped:
            high = at.high(seconds + 60, "stop")
            while Path(f"/proc/{high.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0.005)
            from_ns = time.monotonic_ns()
        time.sleep(max(from_ns / 1e9 + seconds - time.monotonic(), 0))
        rates.append(statistics.mean(per_second(low.end(), from_ns, seconds)[1:]))
        report = low.report()
        at.clear()
    return rates[1] / max(rates[0], 0.1), report


def told(report: Mapping[str, Any]) -> str:
    """What a report says of the promise."""
    return {None: "-" if not report else "unknown", True: "kept", False: "missed"}[report.get("kept")]


def run(names: Sequence[str], mode: str, seconds: int) -> Iterator[dict[str, Any]]:
    """All rows of these names, in a mode; first, where there is an attack, the honest low job."""
    with site(mode) as at:
        rate = None
        for name in names:
            if name in STOPPED:
                speed, report = beside_a_stopped_one(at, STOPPED[name], seconds)
                yield {"row": name, "mode": mode, "speed": speed, "low_report": report}
                continue
            if rate is None:
                rate = alone(at, seconds // 2)
                yield {"row": "honest", "mode": mode, "alone_per_s": rate, **asdict(beside(at, HONEST, rate, seconds))}
            row = ROWS[name]
            yield {
                "row": name,
                "mode": mode,
                "alone_per_s": rate,
                **asdict(beside(at, row, rate, row.seconds or seconds)),
            }


def line(result: Mapping[str, Any]) -> str:
    """A row of the table."""
    if "speed" in result:
        return f"| {result['row']} | {result['mode']} | low job at {result['speed']:.1%} of its speed alone | | | | | |"
    said = result["low_report"].get("gpu_time_s")
    return (
        f"| {result['row']} | {result['mode']} | {result['slowdown']:.1%} ({result['mean']:.1%}) | {' '.join(f'{100 * each:.0f}' for each in result['seconds'])} "
        f"| {'' if result['drained_s'] is None else format(result['drained_s'], '.1f')} | {told(result['high_report'])} | {'-' if said is None else format(said, '.2f')} "
        f"| {result['low_per_s']:.1f} |"
    )


HEAD = """\
| row | mode | high job slower: median second (mean) | each second, % | drained, s | high's report | GPU time in low's report, s | low's iterations per s |
|---|---|---|---|---|---|---|---|"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"default: all of {', '.join([*ROWS, *STOPPED])}")
    parser.add_argument("--mode", action="append", choices=list(MODES), help="default: slices and mps")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of each run, default 12")
    parser.add_argument("--json", type=Path, metavar="FILE", help="with the reports")
    options = parser.parse_args()
    results = []
    print(HEAD, flush=True)
    for mode in options.mode or ["slices", "mps"]:
        for result in run(options.rows or [*ROWS, *STOPPED], mode, options.seconds):
            results.append(result)
            print(line(result), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
