"""A profile's kernels as people ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fikitd import _core


def of(profile: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row per kernel identity: statistics without context cover those with."""
    return [
        {
            "name": kernel["name"], "grid": kernel["grid"], "block": kernel["block"], "count": duration["count"],
            "mean_ns": duration["mean_ns"], "p50_ns": _core.quantile(duration["histogram"], 0.5),
            "p99_ns": _core.quantile(duration["histogram"], 0.99), "gap_ns": kernel["gap"]["mean_ns"],
            "total_ns": duration["count"] * duration["mean_ns"], "beside": bool(kernel.get("beside")),
            "doubtful": bool(kernel.get("doubtful")),
        }
        for kernel in profile["kernels"] if not kernel["context"] and (duration := kernel["duration"])["count"]
    ]  # fmt: skip
