"""How well fikitd knows when a job's queue runs dry: believed moments against the device's own record of them.

A job launches bursts of kernels and computes on; most of its bursts end without a synchronisation, so that only the reckoning
and the marks can tell. A lower job waits at its gate meanwhile, as it must for anybody to care. Each kernel's duration varies
by 5 %, which the profile, learnt in an earlier run, does not foretell. On the emulated GPU everything takes ten times as
long (as with a dilation of 10) and errors are divided by ten: what a shared machine adds is a tenth then, too. The record is
the emulated device's trace of what it did; a real GPU's are the job's own timing events.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.launch.host import Host, hosting
from bench.record import BenchError, Result
from fikitd import paths

ABOUT = "error of the estimated moments at which a job's queue runs dry"
SCALE = 10  # of times on the emulated GPU
BURSTS = 400
LEARNING_BURSTS = 80
MARK_EVERY = 32  # fikit.toml's default
NEVER_NS = 10_000_000_000  # nobody is believed idle, so that the lower job never disturbs
SPIN_NS = 20_000
HIGH, LOW = 1, 8


@dataclass(frozen=True)
class _Run:
    """One run's errors, estimate minus truth, in us of device time."""

    device: str
    errors: list[float]
    bursts: int


@contextmanager
def _environment(host: Host, emulated: bool) -> Iterator[dict[str, str]]:
    environment = {**os.environ, "LD_PRELOAD": str(paths.shim()), "FIKIT_SOCKET": str(host.socket)}
    if not emulated:
        yield environment
        return
    environment |= {
        "LD_LIBRARY_PATH": str(paths.emulator_dir()),
        "EMUCUDA_NAME": f"progress-{os.getpid()}",
        "EMUCUDA_TRACE": "on",
    }
    try:
        yield environment
    finally:
        subprocess.run([paths.emuctl(), "reset"], env=environment, capture_output=True, check=False)


def _learn(directory: Path, emulated: bool, scale: int) -> list[Any]:
    """A profile of the job, from a measuring run."""
    with (
        hosting(directory, lease_ns=NEVER_NS, idle_after_ns=NEVER_NS, spin_ns=SPIN_NS, marker_interval=0) as host,
        _environment(host, emulated) as environment,
    ):
        host.expect(HIGH, measure=True)
        _finish(_start(host, environment, LEARNING_BURSTS, scale, seed=1))
        return list(host.dispatcher.export_profile(1))


def _measure(
    directory: Path, profile: list[Any], *, emulated: bool, scale: int, bursts: int, marker_interval: int
) -> _Run:
    with (
        hosting(
            directory, lease_ns=NEVER_NS, idle_after_ns=NEVER_NS, spin_ns=SPIN_NS, marker_interval=marker_interval
        ) as host,
        _environment(host, emulated) as environment,
    ):
        host.expect(HIGH)
        high = _start(host, environment, bursts, scale, seed=2)
        host.dispatcher.set_profile(1, profile)
        host.expect(LOW)
        waiting = [str(paths.native_dir() / "bin" / "fikit-launch-bench"), "1", "1"]
        low = subprocess.Popen(waiting, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if not host.wait_for(2):
                raise BenchError("the lower job did not come to its gate")
            believed = _watch(host, high)
            played = _finish(high)
        finally:
            low.kill()
            low.wait()
        truth = {int(launches): int(end_ns) for launches, end_ns in played["idle"]}
        if emulated:
            truth = _traced(environment, high.pid, truth)
    errors = [
        (believed[launches] - end_ns) / 1000 / scale for launches, end_ns in truth.items() if launches in believed
    ]
    return _Run(str(played["device"]), errors, len(truth))


def _start(host: Host, environment: dict[str, str], bursts: int, scale: int, seed: int) -> subprocess.Popen[str]:
    """The job, attached to the dispatcher; it begins when its standard input ends."""
    command = [str(paths.native_dir() / "bin" / "fikit-progress-bench"), str(bursts), str(scale), str(seed), "wait"]
    high = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if host.wait_for(1):
        return high
    high.kill()
    raise BenchError((high.communicate()[1].strip().splitlines() or ["the job did not come to the dispatcher"])[-1])


def _traced(environment: dict[str, str], pid: int, moments: Iterable[int]) -> dict[int, int]:
    """When the device was through with the program's first so many kernels, by its own trace."""
    clean = {key: value for key, value in environment.items() if key != "LD_PRELOAD"}
    done = subprocess.run([paths.emuctl(), "trace", "--json"], env=clean, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(done.stderr.strip())
    events = json.loads(done.stdout)["events"]
    ends = [event["end_ns"] for event in events if event["pid"] == pid and event["kind"] == "kernel"]
    if len(ends) <= max(moments):
        raise BenchError(
            f"the device's trace has {len(ends)} kernels of the job, which launched more than {max(moments)}"
        )
    return {launches: ends[launches - 1] for launches in moments}


def _watch(host: Host, high: subprocess.Popen[str]) -> dict[int, int]:
    """Let the job run; when its queue was believed to be dry, by launches. The dispatcher remembers the newest only."""
    assert high.stdin is not None
    high.stdin.close()
    high.stdin = None
    believed: dict[int, int] = {}
    while True:
        over = high.poll() is not None
        believed.update(host.dispatcher.idle_moments(1))
        if over:
            return believed
        time.sleep(0.5)


def _finish(high: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = high.communicate("" if high.stdin else None)
    if high.returncode != 0 or err:
        raise BenchError((err.strip().splitlines() or ["fikit-progress-bench failed without a word"])[-1])
    return dict(json.loads(out))


def _quantiles(errors: list[float]) -> tuple[float, float]:
    sizes = sorted(map(abs, errors))
    return statistics.median(sizes), sizes[min(len(sizes) - 1, int(0.99 * len(sizes)))]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--bursts", type=int, default=BURSTS, help="idle moments to compare")


def run(*, emulated: bool, bursts: int = BURSTS) -> Result:
    """Measure; raises BenchError when the job cannot run managed."""
    scale = SCALE if emulated else 1
    values: dict[str, float] = {}
    samples: dict[str, list[float]] = {}
    lines: list[str] = []
    device = ""
    with tempfile.TemporaryDirectory(prefix="fikit-progress-") as directory:
        for name in ("learn", "reckoned", "marked"):
            (Path(directory) / name).mkdir()
        profile = _learn(Path(directory) / "learn", emulated, scale)
        for name, marker_interval in (("reckoned", 0), ("marked", MARK_EVERY)):
            seen = _measure(
                Path(directory) / name,
                profile,
                emulated=emulated,
                scale=scale,
                bursts=bursts,
                marker_interval=marker_interval,
            )
            if not seen.errors:
                raise BenchError("fikitd noted no idle moment of the job")
            middle, worst = _quantiles(seen.errors)
            device = seen.device
            samples[f"{name}_error_us"] = seen.errors
            values |= {
                f"{name}_p50_us": middle,
                f"{name}_p99_us": worst,
                f"{name}_known": len(seen.errors) / seen.bursts,
            }
            how = f"marks, one in {marker_interval} launches" if marker_interval else "dead reckoning alone"
            lines.append(
                f"  {how:29}  p50 {middle:6.2f} us, p99 {worst:7.2f} us of device time, {len(seen.errors)} of {seen.bursts} moments"
            )
    title = f"{device}{' (emulated)' if emulated else ''}: believed idle moment against the device's record"
    settings = {"device": device, "scale": scale, "bursts": bursts, "marker_interval": MARK_EVERY}
    return Result("\n".join([title, *lines]), emulated, values, samples, settings)
