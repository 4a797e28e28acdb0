"""What the shim adds to a launch when nobody outranks the job: ns per cuLaunchKernel, direct and through an open gate."""

from __future__ import annotations

import statistics

from bench.managed import run_managed
from bench.record import BenchError, Result

ABOUT = "cost of the shim on the launch path"
ROUNDS = 300
LAUNCHES = 100  # per round; waited for outside the measured time


def _measure(emulated: bool) -> dict[str, object]:
    """Run the bench program under `fikit run`, which starts a fikitd for it."""
    measured, said = run_managed(
        "fikit-launch-bench", ROUNDS, LAUNCHES, emulated=emulated, options=("--priority", "high")
    )
    if f"{(ROUNDS + ROUNDS // 10 + 1) * LAUNCHES} kernels" not in said:
        raise BenchError(f"fikitd did not count every launch; it said: {said.strip()}")
    return measured


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
