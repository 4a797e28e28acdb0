"""What lower jobs may cost a job at most: what it asks for, as far as the site allows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fikitd.base.quantities import percent
from fikitd.config.fikit_toml import SchedulerConfig
from fikitd.store.records import JobRecord

PROMISING: Final = frozenset({"budget"})  # the policy that keeps lower jobs within max_slowdown


@dataclass(frozen=True)
class Protection:
    """max_slowdown: how much longer a job may take, as a share; max_delay_ns: its longest single delay, None = any."""

    max_slowdown: float
    max_delay_ns: int | None


def of_site(scheduler: SchedulerConfig) -> Protection:
    """Of jobs that ask for nothing."""
    delay_us = scheduler.max_delay_us
    return Protection(scheduler.share("max_slowdown"), delay_us * 1000 if delay_us else None)


def of_job(record: JobRecord, scheduler: SchedulerConfig, warn: Callable[[str], None]) -> Protection:
    """Of one job; `warn` gets a sentence for what it asked for and does not get."""
    site = of_site(scheduler)
    max_slowdown, max_delay_ns = site.max_slowdown, site.max_delay_ns
    lowest, lowest_ns = scheduler.share("min_allowed_slowdown"), scheduler.min_allowed_delay_us * 1000
    if record.max_slowdown is not None:
        max_slowdown = max(record.max_slowdown, lowest)
        if max_slowdown > record.max_slowdown:
            asked = percent(record.max_slowdown)
            warn(f"it asked for a max slowdown of {asked}, the lowest that this site allows is {percent(lowest)}")
    if record.max_delay_ns is not None:
        max_delay_ns = max(record.max_delay_ns, lowest_ns)
        if max_delay_ns > record.max_delay_ns:
            warn(
                f"it asked for a max delay of {record.max_delay_ns / 1000:g} us, the lowest that this site allows is "
                f"{scheduler.min_allowed_delay_us} us"
            )
    return Protection(max_slowdown, max_delay_ns)
