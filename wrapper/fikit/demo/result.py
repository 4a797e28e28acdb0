"""What the demo found, in the shape of summary.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fikit.demo import plan
from fikit.demo.experiment import Outcome
from fikit.demo.usage import share

PROMISED_SLOWDOWN = 1.05  # kept in nine of ten runs on two quiet cores: `python -m bench demo` counts
MAX_HIGH_SLOWDOWN = 1.10  # the demo fails: times are real times, and one run may be disturbed
MIN_HIGH_SPEEDUP = 1.5
MODES = ("solo", "shared", "fikit")


@dataclass(frozen=True)
class Result:
    """Seconds of each job's loop by mode, and how the device's time was used in fikit mode."""

    device_name: str
    emulated: bool
    slurm_version: str | None
    seconds: dict[str, dict[str, float]]  # job -> mode -> seconds
    low_share: float | None

    @classmethod
    def of(cls, outcomes: dict[str, Outcome], emulated: bool, slurm_version: str | None) -> Result:
        """From the outcomes of `plan.steps`, by the steps' names."""
        seconds = {
            job: {
                "solo": outcomes[f"solo_{job}"].seconds[job],
                "shared": outcomes["shared"].seconds[job],
                "fikit": outcomes["fikit"].seconds[job],
            }
            for job in ("high", "low")
        }
        begin, end = outcomes["fikit"].begin, outcomes["fikit"].end
        low_share = share(begin, end, low="low", high="high")
        return cls(end.device, emulated, slurm_version, seconds, low_share)

    @property
    def high_slowdown(self) -> float:
        return self.seconds["high"]["fikit"] / self.seconds["high"]["solo"]

    @property
    def high_speedup(self) -> float:
        return self.seconds["high"]["shared"] / self.seconds["high"]["fikit"]

    def summary(self) -> dict[str, Any]:
        return {
            "device": {
                "name": self.device_name,
                "emulated": self.emulated,
                "sharing": plan.sharing() if self.emulated else None,
            },
            "max_slowdown": plan.MAX_SLOWDOWN,
            "slurm_version": self.slurm_version,
            **{
                job: {f"{mode}_s": round(value, 4) for mode, value in self.seconds[job].items()}
                for job in ("high", "low")
            },
            "high_slowdown": round(self.high_slowdown, 4),
            "high_speedup": round(self.high_speedup, 4),
            "low_share": None if self.low_share is None else round(self.low_share, 4),
        }

    def failures(self) -> list[str]:
        """What this result misses of what the demo is to show; empty when it shows it."""
        missed = []
        if self.high_slowdown > MAX_HIGH_SLOWDOWN:
            missed.append(
                f"the high-priority job took {self.high_slowdown:.2f}x of its time alone, more than {MAX_HIGH_SLOWDOWN}x"
            )
        if self.high_speedup < MIN_HIGH_SPEEDUP:
            missed.append(
                f"it was {self.high_speedup:.2f} times faster than with default sharing, less than {MIN_HIGH_SPEEDUP:g} times"
            )
        return missed
