"""What a program had of the device in a span, by the device's own record of each piece of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fikitd.simulation.simulator import Device

from bench.live.reaction import ON_COMPUTE_ENGINE


def used_ns(events: Sequence[Mapping[str, Any]], pid: int, from_ns: int, until_ns: int, device: Device) -> int:
    """As `fikitd.simulation.simulator.used_ns` says it of a simulated job: the time of its kernels at full speed, where kernels overlap x their demand.

    Between the start of a kernel and its end there may be others' turns, or others beside it: of one that lies only in part within the span
    counts as large a part of what it needed.
    """
    total_ns = 0.0
    for event in events:
        if event["pid"] != pid or event["kind"] not in ON_COMPUTE_ENGINE or event["start_ns"] is None:
            continue
        begin_ns, needed_ns = event["start_ns"], event["work_ns"]
        end_ns = begin_ns + needed_ns if event["end_ns"] is None else event["end_ns"]
        within_ns = min(end_ns, until_ns) - max(begin_ns, from_ns)
        if within_ns <= 0:
            continue
        length_ns = end_ns - begin_ns
        # Of one that was dropped nobody knows how much of it was done: all of it, as far as it can have been.
        done_ns = min(needed_ns, length_ns) * within_ns / length_ns
        total_ns += done_ns * (event["demand"] if device.overlaps else 1)
    return round(total_ns)
