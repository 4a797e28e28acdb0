"""Why a job of --fikit-priority=auto has its priority, in words."""

from __future__ import annotations

from typing import Any

from fikitd.gpus.placement import PATIENCE_S

from fikit.wording import units


def why(auto: dict[str, Any]) -> str:
    """`auto`: as in a report. `auto, because its expected rest is 12 min (history of 5 runs)`."""
    rest = f"its expected rest is {long_time(auto['rest_s'])} (history of {auto['runs']} run{'' if auto['runs'] == 1 else 's'})"
    return {
        "alone": "auto, and no other job with auto is on its GPU",
        "ordered": f"auto, because {rest}",
        "equal": f"auto, equal to the others with auto, because so the jobs end sooner on the whole; {rest}",
        "turn": f"auto, equal to the others with auto for a while, because one has waited for {long_time(PATIENCE_S)}; {rest}",
        "unknown": f"auto, equal to the others with auto, because one of them has no earlier run of its name; {rest}"
        if auto["runs"]
        else "auto, equal to the others with auto, because no earlier run of its name is known",
        "user": "changed by `fikit priority`; `fikit priority JOBID auto` leaves it to fikit again",
    }[auto["state"]]


def long_time(seconds: float | None) -> str:
    """`40 s`, `12 min`, `3.2 h`, `4.1 d`."""
    for unit_s, unit in ((86_400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds is not None and seconds >= 1.5 * unit_s:
            number = seconds / unit_s
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return units.duration(seconds)
