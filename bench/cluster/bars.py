"""What steering has to be worth before it is recommended: a bar for each claim, with what it came to and whether it holds.

Each for one device mode, memory and load; jobs of Philly, and every other trace for the bar that nothing becomes worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench import page
from bench.cluster import traces
from bench.cluster.policies import NAMED, Kinds, live, workload
from bench.record import BenchError, Result

SIGMA = 1.0
LOADS = (0.8, 1.1)
OTHER_LOADS = (0.5, 1.5)
MEMORY = (14, 32)
GPUS, JOBS = 32, 2000
TAIL = 99
SPREAD_MEMORY = 32
"""GiB a job: at how much `order` against `spread` is judged."""
WORSE = 0.01
PAIRED = ("pair", "pair-agent")
STEERED = ("order", *PAIRED)
AUTO_MEMORY = 14
"""The same of `auto`, which a node does by itself."""
AUTO_WORSE = 0.02
DEVICES = ("slices", "mps")


@dataclass(frozen=True)
class Bar:
    """A claim: `value` of it, and from where on (or, with `most`, up to where) it holds."""

    claim: str
    device: str
    trace: str
    gib: int
    load: float | None
    value: float
    wanted: float
    most: bool = False

    @property
    def holds(self) -> bool:
        return self.value <= self.wanted if self.most else self.value >= self.wanted

    @property
    def where(self) -> str:
        load = "" if self.load is None else f", load {self.load:g}"
        return f"{self.device}, {self.trace}, {self.gib} GiB{load}"

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


@dataclass(frozen=True)
class Figures:
    """Of one workload, over its seeds: mean and 99th percentile of the JCT by policy, seconds."""

    mean_s: dict[str, float]
    p99_s: dict[str, float]

    def less(self, policy: str, than: str) -> float:
        """By which share the policy's mean JCT is smaller."""
        return 1 - self.mean_s[policy] / self.mean_s[than]

    def tail(self, policy: str, than: str) -> float:
        return self.p99_s[policy] / self.p99_s[than]


def figures(
    source: traces.Trace,
    kinds: Kinds,
    policies: tuple[str, ...],
    *,
    gib: int,
    load: float | None,
    gpus: int,
    seeds: int,
) -> Figures:
    """Raises BenchError for a workload that the GPUs cannot hold."""
    jct: dict[str, list[Any]] = {name: [] for name in policies}
    for seed in range(seeds):
        part = source if load is None else traces.window(source, JOBS, gpus, load, seed)
        work = workload(part, kinds, sigma=SIGMA, shards=gib, gpus=gpus, seed=seed)
        for name in policies:
            try:
                jct[name].append(live(work, NAMED[name]).jct_s)
            except ValueError as error:
                raise BenchError(f"couldn't simulate {name} on {source.name}: {error}") from error
    return Figures(
        {name: float(np.mean([each.mean() for each in found])) for name, found in jct.items()},
        {name: float(np.percentile(np.concatenate(found), TAIL)) for name, found in jct.items()},
    )


def of_philly(found: Figures, device: str, gib: int, load: float) -> Iterator[Bar]:
    """What is claimed of the trace that everything is compared on."""
    where = (device, "philly", gib, load)
    if gib == SPREAD_MEMORY:
        yield Bar("order: mean JCT below spread's by", *where, found.less("order", "spread"), 0.25)
    if gib == AUTO_MEMORY:
        yield Bar("auto: mean JCT below spread's by", *where, found.less("auto", "spread"), 0.15)
    for name in STEERED:
        yield Bar(
            f"{name}: p99 JCT / that of spread, first come first served",
            *where,
            found.tail(name, "spread"),
            1.1,
            most=True,
        )
    for name in PAIRED:
        yield Bar(f"{name}: mean JCT below order's by", *where, found.less(name, "order"), 0.04)
        yield Bar(f"{name}: mean JCT below SJF-BSBF's (equal sharing) by", *where, found.less(name, "sjf-bsbf"), 0.10)
        yield Bar(
            f"{name}: mean JCT below that of exclusive GPUs, shortest first, by", *where, found.less(name, "sjf"), 0.40
        )


def not_worse(found: Figures, device: str, trace: str, gib: int, load: float | None) -> Iterator[Bar]:
    for name in ("auto", *STEERED):
        most = 1 + (AUTO_WORSE if name == "auto" else WORSE)
        yield Bar(
            f"{name}: mean JCT / spread's", device, trace, gib, load, found.mean_s[name] / found.mean_s["spread"], most, most=True
        )  # fmt: skip


def all_of(
    kinds_of: Callable[[str], Kinds],
    trace_of: Callable[[str], traces.Trace],
    whole: dict[str, int],
    seeds: int,
    philly: bool,
) -> Iterator[Bar]:
    """whole: traces that are taken as they are, with their GPUs. philly: whether the published traces are here."""
    for device in DEVICES:
        kinds = kinds_of(device)
        for gib in MEMORY:
            if philly:
                for load in LOADS:
                    compared = ("sjf", "sjf-bsbf", "spread", "auto", *STEERED)
                    found = figures(trace_of("philly"), kinds, compared, gib=gib, load=load, gpus=GPUS, seeds=seeds)
                    yield from of_philly(found, device, gib, load)
            for name, at, gpus in _others(whole if philly else {}, philly):
                # Also of a whole trace: what its jobs do to a GPU is drawn, and one draw of Muri's trace1 moves a mean by a tenth.
                found = figures(
                    trace_of(name), kinds, ("spread", "auto", *STEERED), gib=gib, load=at, gpus=gpus, seeds=seeds
                )
                yield from not_worse(found, device, name, gib, at)


def _others(whole: dict[str, int], philly: bool) -> Iterator[tuple[str, float | None, int]]:
    for name in ("philly", "made-up") if philly else ("made-up",):
        for load in OTHER_LOADS if name == "philly" else (*LOADS, *OTHER_LOADS):
            yield name, load, GPUS
    for name, gpus in whole.items():
        yield name, None, gpus


def result(bars: list[Bar], seeds: int) -> Result:
    """Every bar, with how many hold."""

    def shown(bar: Bar) -> str:
        return f"{bar.value:.3f}" if bar.most else f"{100 * bar.value:.2f} %"

    def wanted(bar: Bar) -> str:
        return f"at most {bar.wanted:g}" if bar.most else f"at least {100 * bar.wanted:g} %"

    hold = sum(bar.holds for bar in bars)
    lines = [f"Simulated, no claim about hardware: {hold} of {len(bars)} bars hold; sigma {SIGMA:g}, {seeds} seeds"]
    lines += [
        f"  {'holds' if bar.holds else 'fails':5}  {shown(bar):>8}  {wanted(bar):14}  {bar.where:38}  {bar.claim}" for bar in bars
    ]  # fmt: skip
    table = page.markdown(
        ("claim", "wanted", *(f"{gib} GiB, {load:g}" for gib in MEMORY for load in LOADS)), _rows(bars, shown, wanted)
    )
    values = {f"{bar.claim}, {bar.where}": bar.value for bar in bars}
    settings = {"sigma": SIGMA, "seeds": seeds}
    return Result("\n".join(lines), True, values, {}, settings, {"bars": [bar.as_dict() for bar in bars]}, table)


def _rows(bars: list[Bar], shown: Callable[[Bar], str], wanted: Callable[[Bar], str]) -> Iterator[list[str]]:
    """For a page: a claim of Philly per line, by memory and load; of the other traces, the worst of each memory."""

    def cell(found: list[Bar]) -> str:
        if not found:
            return "-"
        worst = (max if found[0].most else min)(found, key=lambda bar: bar.value)
        return shown(worst) if worst.holds else f"**{shown(worst)}**"

    for device in DEVICES:
        of_device = [bar for bar in bars if bar.device == device]
        for claim in dict.fromkeys(bar.claim for bar in of_device):
            found = [bar for bar in of_device if bar.claim == claim]
            cells = [
                [bar for bar in found if (bar.trace, bar.gib, bar.load) == ("philly", gib, load)]
                for gib in MEMORY
                for load in LOADS
            ]
            if any(cells):
                yield [f"`{device}` {claim}", wanted(found[0]), *map(cell, cells)]
            else:
                worst = [[bar for bar in found if bar.gib == gib] for gib in MEMORY for _ in LOADS]
                yield [
                    f"`{device}` {claim}: the worst of {len(found) // len(MEMORY)} other traces and loads",
                    wanted(found[0]),
                    *map(cell, worst),
                ]
