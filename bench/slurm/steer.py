"""What the placement agent costs: a job's start on idle GPUs, and slurmctld's scheduling cycle with many jobs at once, with and without it in turn.

A throw-away Slurm for each, with four emulated GPUs that have types of their own. Needs root and Debian's Slurm packages."""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fikit.sandbox.needs import SandboxError
from fikit.sandbox.sandbox import Sandbox

from bench.record import BenchError, Result

ABOUT = "what the placement agent costs: a job's start, and slurmctld's cycle with many jobs at once"
JOBS, ROUNDS, STARTS = 500, 2, 6
GPUS = ("g0", "g1", "g2", "g3")
SLURM = ("PriorityType=priority/multifactor", "PriorityWeightAge=1000", "MaxJobCount=20000")
WATCHED_S = 20.0
MODES = ("off", "order", "pair")
FIGURES = {
    "main_us": r"Main schedule statistics.*?Mean cycle:\s+(\d+)",
    "backfill_us": r"Backfilling stats.*?Mean cycle:\s+(\d+)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this bench."""
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"at once (default {JOBS})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of each mode, in turn (default {ROUNDS})")
    parser.add_argument(
        "--modes", nargs="+", choices=MODES, default=list(MODES[:2]), help="of the agent; the first is compared with"
    )


@contextmanager
def steered(sandbox: Sandbox, mode: str) -> Iterator[None]:
    """With an agent in that mode, as its unit runs it."""
    directory = sandbox.root / "place"
    directory.mkdir()
    with sandbox.fikit_toml.open("a") as file:
        file.write(f'\n[placement]\nmode = "{mode}"\nrun_dir = "{directory}"\n')
    command = [sys.executable, "-m", "fikit", "place", "--daemon", "--state", str(directory)]
    with (directory / "log").open("w") as log, subprocess.Popen(command, env=sandbox.env, stderr=log) as agent:
        try:
            time.sleep(2.0)
            yield
        finally:
            agent.terminate()
            agent.wait(timeout=60)


def _told(sandbox: Sandbox, *command: str) -> str:
    done = sandbox.run(command, timeout=300)
    if done.returncode != 0:
        raise BenchError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def _start_ms(sandbox: Sandbox, number: int) -> float:
    """From the moment at which sbatch returns to the job's first command."""
    mark = sandbox.root / f"began-{number}"
    script = f"date +%s%N >{mark}.part; mv {mark}.part {mark}"
    _told(sandbox, "sbatch", "--output=/dev/null", "--gres=shard:4", "--time=5", f"--wrap={script}")
    submitted_ns = time.time_ns()
    deadline = time.monotonic() + 30
    while not mark.exists():
        if time.monotonic() > deadline:
            raise BenchError("a job on idle GPUs did not start within 30 s")
        time.sleep(0.01)
    return max(0.0, (int(mark.read_text()) - submitted_ns) / 1e6)


def _cycles_us(sandbox: Sandbox, jobs: int) -> dict[str, float]:
    """Mean cycles of slurmctld's two schedulers while so many jobs come and wait behind full GPUs."""
    for _ in GPUS:
        _told(sandbox, "sbatch", "--output=/dev/null", "--gres=shard:16", "--time=60", "--wrap=sleep 600")
    _told(sandbox, "sdiag", "--reset")
    script = Path(sandbox.root / "job")
    script.write_text("#!/bin/sh\nsleep 1\n")
    submit = f"seq {jobs} | xargs -P 4 -I N sbatch --output=/dev/null --gres=shard:4 --job-name=N --time=N {script} >/dev/null"
    _told(sandbox, "sh", "-c", submit)
    time.sleep(WATCHED_S)
    told = _told(sandbox, "sdiag")
    found = {name: re.search(pattern, told, re.DOTALL) for name, pattern in FIGURES.items()}
    return {name: float(match[1]) for name, match in found.items() if match}


def run(*, emulated: bool, jobs: int = JOBS, rounds: int = ROUNDS, modes: list[str] | None = None) -> Result:
    """Measure; raises BenchError when Slurm does not start or a job fails."""
    if not emulated:
        raise BenchError("it is about Slurm, leave --real away")
    chosen = modes or list(MODES[:2])
    samples: dict[str, list[float]] = {}
    try:
        for _ in range(rounds):
            for mode in chosen:
                with Sandbox(gpus=len(GPUS), gpu_types=GPUS, slurm_lines=SLURM) as sandbox, steered(sandbox, mode):
                    _start_ms(sandbox, 0)  # the first one starts fikitd
                    starts = [_start_ms(sandbox, number) for number in range(1, STARTS)]
                    samples.setdefault(f"{mode}: start_ms", []).extend(starts)
                    for name, value in _cycles_us(sandbox, jobs).items():
                        samples.setdefault(f"{mode}: {name}", []).append(value)
    except (SandboxError, subprocess.TimeoutExpired) as error:
        raise BenchError(str(error)) from error
    values = {name: statistics.median(found) for name, found in samples.items()}
    lines = [f"{jobs} jobs at once behind full GPUs; {rounds} rounds of each, in turn; medians"]
    for mode in chosen:
        figures = [
            f"{values[f'{mode}: {name}']:.0f} us {name.removesuffix('_us')}"
            for name in FIGURES
            if f"{mode}: {name}" in values
        ]
        lines.append(f"  {mode:7} cycle: {', '.join(figures)}; start {values[f'{mode}: start_ms']:.0f} ms")
    for mode in chosen[1:]:
        for name in FIGURES:
            if values.get(f"{chosen[0]}: {name}") and f"{mode}: {name}" in values:
                values[f"{mode}: {name} / {chosen[0]}"] = values[f"{mode}: {name}"] / values[f"{chosen[0]}: {name}"]
    return Result("\n".join(lines), True, values, samples, {"jobs": jobs, "rounds": rounds, "modes": chosen})
