"""How fast the emulated device's model is by itself, in manual time, and the simulator on top of it."""

from __future__ import annotations

import json
import statistics
import subprocess
import time

from fikitd.simulation import simulator

from bench.record import BenchError, Result
from bench.recordings import recordings
from bench.scheduling.pairs import Case, read_pairs
from fikitd import paths

ABOUT = "kernels per second of the device model alone, in manual time, and of simulated pairs"
POLICIES = ("budget", "paper", "prio")  # simulated
ROUNDS = 3
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


def _simulated() -> dict[str, list[float]]:
    """By policy: million kernels per second of processor time over all pairs, one request after the other; one figure per round."""
    known = recordings(None)
    cases = [
        Case(pair, "closed", names, tuple(known[name] for name in names), None)
        for pair, names in read_pairs(None, known).items()
    ]
    scenarios = [case.scenario() for case in cases]
    speeds: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    for number in range(ROUNDS + 1):
        for policy, rounds in speeds.items():
            began = time.process_time()
            kernels = sum(simulator.play(scenario, policy) for scenario in scenarios)
            if number > 0:  # the first one learns the profiles
                rounds.append(kernels / (time.process_time() - began) / 1e6)
    return speeds


def run(*, emulated: bool) -> Result:
    """Measure; raises BenchError when the program fails."""
    if not emulated:
        raise BenchError("it is about the model of the emulated GPU, leave --real away")
    samples = {f"kernel_ns_{processes}": _measure(processes) for processes in PROCESSES}
    values = {name: statistics.median(rounds) for name, rounds in samples.items()}
    lines = ["device model alone (emulated, manual time), slices of 2 ms", "processes  ns/kernel  million kernels/s"]
    for processes, ns in zip(PROCESSES, values.values(), strict=True):
        lines.append(f"{processes:9}  {ns:9.1f}  {1e3 / ns:17.2f}")
    speeds = _simulated()
    lines += ["", "simulator (emulated device, manual time), all pairs, closed", "policy     million kernels/s"]
    lines += [f"{policy:9}  {statistics.median(rounds):17.2f}" for policy, rounds in speeds.items()]
    samples |= {f"simulated_{policy}_mkernels_per_s": rounds for policy, rounds in speeds.items()}
    values |= {f"simulated_{policy}_mkernels_per_s": statistics.median(rounds) for policy, rounds in speeds.items()}
    settings = {"depth": DEPTH, "kernels_per_round": KERNELS, "rounds": ROUNDS}
    return Result("\n".join(lines), True, values, samples, settings)
