"""Pictures of a simulated cluster: how long jobs took under each policy, and what its GPUs did meanwhile."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.chart import Series, panels, scatter
from bench.cluster.policies import Lived

HOUR_S = 3600.0
QUANTILES = np.linspace(2, 98, 25)
STRETCHES = 60


def distribution(path: Path, title: str, lived: dict[str, list[Lived]]) -> None:
    """Per cent of jobs that were done within a time since their submission, over all seeds."""
    lines = []
    for name, runs in lived.items():
        hours = np.percentile(np.concatenate([run.jct_s for run in runs]), QUANTILES) / HOUR_S
        lines.append(Series(name, [(float(x), float(y)) for x, y in zip(hours, QUANTILES, strict=True)]))
    _write(
        path, scatter(title, ("job completion time, hours", "jobs that took at most so long, %"), lines, [], log_x=True)
    )


def use(path: Path, title: str, lived: dict[str, list[Lived]], gpus: int) -> None:
    """GPUs that somebody has, and the work that they do, in per cent of the GPUs; of the first seed, means over equal stretches of time."""
    taken: list[Series] = []
    work: list[Series] = []
    for name, runs in lived.items():
        moments, columns = runs[0].use[:, 0], runs[0].use[:, 1:]
        edges = np.linspace(moments[0], moments[-1], STRETCHES + 1)
        # The integral of what holds from each moment to the next one, at the edges.
        sums = np.vstack([np.zeros(2), np.cumsum(columns[:-1] * np.diff(moments)[:, None], axis=0)])
        means = [np.diff(np.interp(edges, moments, sums[:, i])) / np.diff(edges) * 100 / gpus for i in range(2)]
        days = (edges[:-1] - edges[0]) / 86400
        for lines, mean in zip((taken, work), means, strict=True):
            lines.append(Series(name, [(float(x), float(y)) for x, y in zip(days, mean, strict=True)]))
    highest = max([100.0, *(y for line in work for _, y in line.points)])
    _write(
        path,
        panels(title, "days", [("GPUs taken, %", (0, 100), taken), ("work done, % of the GPUs alone", (0, highest), work)]),
    )  # fmt: skip


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
