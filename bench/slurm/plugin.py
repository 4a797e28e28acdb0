"""What the plugin costs a job that does not use fikit: `srun true` in a throw-away Slurm, with and without the plugin in turn.

Needs root and Debian's Slurm packages, no GPU."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fikit.sandbox.needs import SandboxError
from fikit.sandbox.sandbox import Sandbox

from bench.record import BenchError, Result

ABOUT = "what the plugin costs jobs that do not use fikit"
ROUNDS = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"jobs with and without the plugin (default {ROUNDS})"
    )


@contextmanager
def without_plugin(sandbox: Sandbox) -> Iterator[None]:
    """Clients, slurmd and slurmstepd read plugstack.conf for every job and step: meanwhile they find no plugin there."""
    plugstack = sandbox.root / "etc" / "plugstack.conf"
    text = plugstack.read_text()
    plugstack.write_text("# no plugin\n")
    try:
        yield
    finally:
        plugstack.write_text(text)


def _job_ms(sandbox: Sandbox) -> float:
    begin = time.monotonic()
    done = sandbox.run(["srun", "--quiet", "true"], capture_output=True, timeout=60)
    if done.returncode != 0:
        raise BenchError(f"srun failed: {done.stderr.strip()}")
    return (time.monotonic() - begin) * 1e3


def run(*, emulated: bool, rounds: int = ROUNDS) -> Result:
    """Measure; raises BenchError when Slurm does not start or a job fails."""
    if not emulated:
        raise BenchError("it is about jobs without a GPU, leave --real away")
    with_ms: list[float] = []
    without_ms: list[float] = []
    try:
        with Sandbox(gpus=1) as sandbox:
            for _ in range(rounds + 1):
                with without_plugin(sandbox):
                    without_ms.append(_job_ms(sandbox))
                with_ms.append(_job_ms(sandbox))
    except (SandboxError, subprocess.TimeoutExpired) as error:
        raise BenchError(str(error)) from error
    # The first job of each kind waits for what is loaded once.
    samples = {"with_ms": with_ms[1:], "without_ms": without_ms[1:]}
    differences = [a - b for a, b in zip(*samples.values(), strict=True)]
    values = {name: statistics.median(kept) for name, kept in samples.items()}
    values["added_ms"] = statistics.median(differences)
    summary = (
        f"srun true: {values['without_ms']:.1f} ms without the plugin, {values['with_ms']:.1f} ms with it; "
        f"added in pairs of {rounds}: median {values['added_ms']:+.2f} ms"
    )
    return Result(summary, True, values, {**samples, "added_ms": differences}, {"rounds": rounds})
