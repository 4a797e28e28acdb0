"""For how long jobs were on each GPU, and for how long two or more of them were: what placement makes of the GPUs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping


class Occupancy:
    """Times are seconds of whatever clock `now_s` is of."""

    def __init__(self) -> None:
        self._there: dict[str, tuple[int, float]] = {}  # by GPU: how many jobs, since when
        self._occupied_s: dict[str, float] = defaultdict(float)
        self._shared_s: dict[str, float] = defaultdict(float)

    def now(self, gpu: str, jobs: int, now_s: float) -> None:
        """So many jobs are on the GPU from now on."""
        before, since_s = self._there.get(gpu, (0, now_s))
        took_s = max(now_s - since_s, 0.0)
        if before:
            self._occupied_s[gpu] += took_s
        if before > 1:
            self._shared_s[gpu] += took_s
        self._there[gpu] = jobs, now_s

    def occupied_s(self) -> Mapping[str, float]:
        """As of the last now() of each GPU: with at least one job."""
        return {gpu: self._occupied_s[gpu] for gpu in self._there}

    def shared_s(self) -> Mapping[str, float]:
        """Of that with two or more."""
        return {gpu: self._shared_s[gpu] for gpu in self._there}
