"""What the demo found, in the shape of summary.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fikitd.api import former_names

from fikit.demo import plan
from fikit.demo.experiment import Outcome
from fikit.demo.told import Told
from fikit.demo.usage import share

PROMISED_SLOWDOWN = 1.05  # kept in nine of ten runs on two quiet cores: `python -m bench demo` counts
MAX_HIGH_SLOWDOWN = 1.10  # the demo fails: times are real times, and one run may be disturbed
MIN_HIGH_SPEEDUP = 1.5
MANAGED = ("shared", "fikit")  # modes in which the jobs have reports


@dataclass(frozen=True)
class Result:
    """Seconds of each job's loop by mode, how the device's time was used in fikit mode, and what the jobs' reports say of the loops.

    `disturbed`: what other programs did meanwhile, "" where they did nothing.
    """

    device_name: str
    emulated: bool
    slurm_version: str | None
    seconds: dict[str, dict[str, float]]  # job -> mode -> seconds
    low_share: float | None
    told: Mapping[str, Mapping[str, Told]] = field(default_factory=dict)  # job -> mode
    disturbed: str = ""

    @classmethod
    def of(cls, outcomes: dict[str, Outcome], emulated: bool, slurm_version: str | None, disturbed: str = "") -> Result:
        """From the outcomes of `plan.steps`, by the steps' names."""
        seconds = {
            job: {
                "alone": min(outcomes[f"{run}_{job}"].seconds[job] for run in plan.ALONE),
                "shared": outcomes["shared"].seconds[job],
                "fikit": outcomes["fikit"].seconds[job],
            }
            for job in ("high", "low")
        }
        begin, end = outcomes["fikit"].begin, outcomes["fikit"].end
        low_share = share(begin, end, low="low", high="high")
        told = {
            job: {mode: outcomes[mode].told[job] for mode in MANAGED if job in outcomes[mode].told} for job in seconds
        }
        return cls(end.device, emulated, slurm_version, seconds, low_share, told, disturbed)

    @property
    def high_slowdown(self) -> float:
        return self.seconds["high"]["fikit"] / self.seconds["high"]["alone"]

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
                job: {
                    **former_names.with_former(
                        "demo", {f"{mode}_s": round(value, 4) for mode, value in self.seconds[job].items()}
                    ),
                    "reports": {
                        mode: told.summary(self.seconds[job][mode] / self.seconds[job]["alone"])
                        for mode, told in self.told.get(job, {}).items()
                    },
                }
                for job in ("high", "low")
            },
            "high_slowdown": round(self.high_slowdown, 4),
            "high_speedup": round(self.high_speedup, 4),
            "low_share": None if self.low_share is None else round(self.low_share, 4),
            "disturbed": self.disturbed,
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
