"""What the shim adds to a launch when nobody outranks the job: ns per cuLaunchKernel, direct and through an open gate."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fikitd.client import Control, DaemonUnreachable

from bench.record import BenchError, Result
from fikitd import paths

ABOUT = "cost of the shim on the launch path"
ROUNDS = 300
LAUNCHES = 100  # per round; waited for outside the measured time


@contextmanager
def _environment() -> Iterator[dict[str, str]]:
    """Directories and an emulated device of this bench's own; nothing is left of them."""
    with tempfile.TemporaryDirectory(prefix="fikit-bench-") as directory:
        config = Path(directory) / "fikit.toml"
        keys = {"run_dir": "run", "report_dir": "reports", "profile_dir": "profiles"}
        lines = [f"{key} = {json.dumps(str(Path(directory) / name))}" for key, name in keys.items()]
        config.write_text("\n".join(["[daemon]", *lines, ""]))
        environment = {**os.environ, "FIKIT_CONFIG": str(config), "EMUCUDA_NAME": f"bench-{os.getpid()}"}
        try:
            yield environment
        finally:
            with suppress(DaemonUnreachable):
                Control(Path(directory) / "run").shutdown()
            subprocess.run([paths.emuctl(), "reset"], env=environment, capture_output=True, check=False)


def _measure(emulated: bool) -> dict[str, object]:
    """Run the bench program under `fikit run`, which starts a fikitd for it."""
    program = paths.native_dir() / "bin" / "fikit-launch-bench"
    command = [str(Path(sys.executable).parent / "fikit"), "run", "--priority", "high"]
    command += ["--emulated"] if emulated else []
    command += ["--", str(program), str(ROUNDS), str(LAUNCHES)]
    with _environment() as environment:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError((done.stderr.strip().splitlines() or ["it failed without a word"])[-1])
    if f"{(ROUNDS + ROUNDS // 10 + 1) * LAUNCHES} kernels" not in done.stderr:
        raise BenchError(f"fikitd did not count every launch; it said: {done.stderr.strip()}")
    return dict(json.loads(done.stdout))


def _quantiles(samples: list[float]) -> tuple[float, float, float]:
    """10 %, 50 %, 90 %."""
    tenths = statistics.quantiles(samples, n=10)
    return tenths[0], statistics.median(samples), tenths[8]


def run(*, emulated: bool) -> Result:
    """Measure; raises BenchError when the program cannot run managed."""
    measured = _measure(emulated)
    direct, shim = (list(map(float, measured[key])) for key in ("direct_ns", "shim_ns"))  # type: ignore[call-overload]
    added = [b - a for a, b in zip(direct, shim, strict=True)]
    values = {"ratio": statistics.median(shim) / statistics.median(direct)}
    for name, samples in (("direct", direct), ("shim", shim), ("added", added)):
        low, middle, high = _quantiles(samples)
        values |= {f"{name}_ns": middle, f"{name}_p10_ns": low, f"{name}_p90_ns": high}
    summary = (
        f"{measured['device']}{' (emulated)' if emulated else ''}: cuLaunchKernel {values['direct_ns']:.0f} ns direct, "
        f"{values['shim_ns']:.0f} ns through the open gate; added {values['added_ns']:.0f} ns "
        f"(p10 {values['added_p10_ns']:.0f}, p90 {values['added_p90_ns']:.0f}), {values['ratio']:.2f}x, "
        f"{ROUNDS} interleaved rounds of {LAUNCHES}"
    )
    settings = {"rounds": ROUNDS, "launches_per_round": LAUNCHES, "device": measured["device"]}
    return Result(summary, emulated, values, {"direct_ns": direct, "shim_ns": shim}, settings)
