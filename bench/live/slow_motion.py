"""fikitd in slow motion, for recordings that are played so many times as slowly.

What stands for a time of the jobs, or for a promise to them, is stretched like their recordings: how much budget may be saved,
what may be in flight, for how long a request may wait. What stands for the machine is not, for that is as fast as ever: how
soon a grant is used, how late a report may be. A simulation that is told the same is of the same policy.

As a program (STRETCH CONFIG) it is fikitd itself, with these constants.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fikitd.api.client import DaemonUnreachable, wait_until_there
from fikitd.config import fikit_toml
from fikitd.daemon import main
from fikitd.simulation import simulator

from bench.record import ROOT, BenchError
from fikitd import _core

PATIENCE_S = 10.0
OF_THE_JOBS = {
    "lease_ms": 1_000_000,
    "run_ahead_us": 1000,
    "idle_after_us": 1000,
    "max_delay_us": 1000,
    "starvation_timeout_ms": 1_000_000,
}
"""Of [scheduler] in fikit.toml, with what one is in ns."""
OF_THE_MACHINE = ("min_gap_us", "spin_us", "min_allowed_delay_us")
TUNING_OF_THE_JOBS = (
    "saved_ns",
    "advance_ns",
    "enough_ns",
    "lately_ns",
    "remembered_ns",
    "longest_run_ns",
    "rest_run_ns",
    "long_idle_ns",
    "turn_ns",
)
TUNING_OF_THE_MACHINE = ("reaction_ns", "near_ns", "close_ns")


def scheduler(stretch: float) -> dict[str, int]:
    """Keys of fikit.toml."""
    standard = fikit_toml.SchedulerConfig()
    return {key: round(stretch * getattr(standard, key)) for key in OF_THE_JOBS}


def simulated(stretch: float) -> dict[str, Any]:
    """What a Scenario has to say of it."""
    known = {key: ns * scheduler(stretch)[key] for key, ns in OF_THE_JOBS.items()}
    times = {f"{key.rsplit('_', 1)[0]}_ns": value for key, value in known.items() if value > 0}
    return {"scheduler": times, "tuning": tuning(stretch)}


def tuning(stretch: float) -> dict[str, float]:
    """Constants of the policy."""
    return {name: stretch * simulator.TUNING[name] for name in TUNING_OF_THE_JOBS}


@contextmanager
def fikitd(environment: Mapping[str, str], stretch: float) -> Iterator[None]:
    """There is one, where the environment's fikit.toml says. Raises BenchError."""
    file = environment[fikit_toml.ENV_CONFIG]
    run_dir = Path(fikit_toml.load(Path(file)).daemon.run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "bench.live.slow_motion", f"{stretch:g}", file]
    clean = {name: value for name, value in environment.items() if not name.startswith(("FIKIT_", "LD_", "EMUCUDA_"))}
    with (run_dir / "fikitd.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, env=clean, cwd=ROOT)
    try:
        try:
            wait_until_there(run_dir, process, PATIENCE_S)
        except DaemonUnreachable as error:
            said = (run_dir / "fikitd.log").read_text(errors="replace").strip().splitlines() or ["it said nothing"]
            raise BenchError(f"{error}: {said[-1]}") from None
        yield
    finally:
        process.terminate()
        process.wait()


class _SlowCore:
    """`fikitd._core` with other constants."""

    def __init__(self, stretch: float) -> None:
        self.Dispatcher = partial(_core.Dispatcher, tuning=tuning(stretch))
        self.make_page = _core.make_page


if __name__ == "__main__":
    sys.exit(main.serve(fikit_toml.load(sys.argv[2]), _SlowCore(float(sys.argv[1]))))
