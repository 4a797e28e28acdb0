"""The line through a policy's points of slowdown and harvest, and who lies above it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

ALONE = (1.0, 0.0)
"""JCT ratio and harvest of a site that keeps the low job out."""

Point = tuple[float, float]


def line(points: Iterable[Point]) -> list[Point]:
    """From `ALONE` to the right, always up: points that cost more than another and give no more are left out."""
    kept = [ALONE]
    for ratio, harvest in sorted(points):
        if harvest > kept[-1][1]:
            kept.append((max(ratio, ALONE[0]), harvest))
    return kept


def at(kept: list[Point], ratio: float) -> float:
    """Harvest of the line at this JCT ratio: straight between two points, as a knob between two settings, level beyond the last."""
    after = bisect_right(kept, ratio, key=lambda point: point[0])
    if after == 0:
        return 0.0
    left, low = kept[after - 1]
    if after == len(kept):
        return low
    right, high = kept[after]
    return low + (high - low) * (ratio - left) / (right - left)
