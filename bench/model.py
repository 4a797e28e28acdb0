"""How fast the emulated device's model is by itself, in manual time: what a simulator on top of it can reach."""

from __future__ import annotations

import json
import statistics
import subprocess

from bench.record import BenchError, Result
from fikitd import paths

ABOUT = "kernels per second of the device model alone, in manual time"
PROCESSES = (1, 2, 4, 10, 64)
DEPTH = 8  # kernels that each process keeps in its stream
KERNELS = 100_000  # per round


def _measure(processes: int) -> list[float]:
    """CPU time in ns per kernel, one figure per round."""
    program = paths.native_dir() / "bin" / "fikit-model-bench"
    command = [str(program), str(processes), str(DEPTH), str(KERNELS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError((done.stderr.strip().splitlines() or ["it failed without a word"])[-1])
    return list(map(float, json.loads(done.stdout)["kernel_ns"]))


def run(*, emulated: bool) -> Result:
    """Measure; raises BenchError when the program fails."""
    if not emulated:
        raise BenchError("it is about the model of the emulated GPU, leave --real away")
    samples = {f"kernel_ns_{processes}": _measure(processes) for processes in PROCESSES}
    values = {name: statistics.median(rounds) for name, rounds in samples.items()}
    lines = ["device model alone (emulated, manual time), slices of 2 ms", "processes  ns/kernel  million kernels/s"]
    for processes, ns in zip(PROCESSES, values.values(), strict=True):
        lines.append(f"{processes:9}  {ns:9.1f}  {1e3 / ns:17.2f}")
    return Result("\n".join(lines), True, values, samples, {"depth": DEPTH, "kernels_per_round": KERNELS})
