"""What became of a job's memory that may lie on the host, in words (docs/memory.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fikit.wording import units


def sentence(memory: Mapping[str, Any], elapsed_s: float | None) -> str:
    """`peak 21.4 GiB, resident 7.90 GiB at most, moved 96.0 GiB in 40 turns, waited 14.0 s for it (2.1 %), misses 0.4 %`.

    memory: of a report record; empty where none of it may lie on the host. elapsed_s: of the job; None where that is not known.
    """
    moved = memory.get("moved")
    if not moved:
        return ""
    facts = [f"peak {units.gibibytes(memory['peak_bytes'])}"]
    if moved["resident_peak_bytes"] is not None:
        facts.append(f"resident {units.gibibytes(moved['resident_peak_bytes'])} at most")
    all_bytes = moved["in_bytes"] + moved["out_bytes"]
    turns = f" in {units.count(moved['turns'])} turn{'' if moved['turns'] == 1 else 's'}" if moved["turns"] else ""
    facts.append(f"moved {units.gibibytes(all_bytes)}{turns}" if all_bytes else f"nothing moved ahead of need{turns}")
    if moved["moving_s"]:
        share = f" ({units.percent(moved['moving_s'], elapsed_s, places=1)})" if elapsed_s else ""
        facts.append(f"waited {units.duration(moved['moving_s'])} for it{share}")
    if needed := moved["in_bytes"] + moved["missed_bytes"]:
        facts.append(f"misses {units.percent(moved['missed_bytes'], needed, places=1)}")
    if moved["failures"]:
        facts.append(f"the driver refused {units.count(moved['failures'])} moves")
    return ", ".join(facts)
