"""How long a GPU takes to go to another process (`switch` of fikitd's `node`), in words for people."""

from __future__ import annotations

from typing import Any


def measured(known: dict[str, Any]) -> str:
    """What jobs that share the GPU have shown of it."""
    samples = f"in {known['samples']} changes" if known["samples"] else "before"
    return f"switch {known['switch_us']:.0f} us \u00b1 {known['spread_us']:.0f} (measured on this GPU {samples})"
