"""Pairs of recorded jobs to simulate: which there are, and every pair with every kind of arrivals on all processors."""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Required, TypedDict

from fikitd.simulation import simulator
from fikitd.simulation.simulator import SLICES, Device
from fikitd.store.storage import reason

from bench import device_option, page
from bench.record import BenchError
from bench.recordings import recordings
from bench.scheduling import seeds as several

CLAIM = "Simulated on the emulated device model ({device}), no claim about hardware"
# The standard pairs of the recorded timelines' own page.
PAIRS = {
    "P1": ("h100_bertsmall_infer", "h100_timesformer_infer"),
    "P2": ("h100_bertsmall_infer", "h100_qwen0.5b_infer"),
    "P3": ("h100_vit_nsfw_infer", "h100_qwen0.5b_infer"),
    "P4": ("h100_vit_nsfw_infer", "h100_timesformer_infer"),
    "P5": ("h100_qwen0.5b_infer", "h100_timesformer_infer"),
    "P6": ("2080ti_mlp_train", "2080ti_resnet18_train"),
    "P7": ("v100_dlrm_step", "v100_resnet50_train_w4"),
    "P8": ("v100_resnet50_train_w0", "v100_resnet50_ddp_train"),
    "P9": ("a100_resnet50_ddp_train", "v100_resnet50_train_w4"),
    "P10": ("h100_vit_nsfw_infer", "v100_resnet50_train_w0"),
}


@dataclass(frozen=True)
class Case:
    """One pair with one kind of arrivals, of one seed."""

    pair: str
    arrivals: str
    names: tuple[str, ...]
    texts: tuple[bytes, ...]
    requests: int | None
    seed: int = 1
    device: Device = SLICES

    def __str__(self) -> str:
        return f"{self.pair} {self.arrivals}"

    def scenario(self) -> simulator.Scenario:
        """The recordings are read anew: native objects do not travel between processes."""
        high, *lows = (simulator.parse(name, text.decode()) for name, text in zip(self.names, self.texts, strict=True))
        return simulator.Scenario(high, lows, self.arrivals, requests=self.requests, seed=self.seed, device=self.device)

    def simulate(self, scenario: simulator.Scenario, policy: str) -> simulator.Outcome:
        """Raises BenchError."""
        try:
            return simulator.simulate(scenario, policy)
        except simulator.SimulatorError as error:
            raise BenchError(f"{self} {policy}: {error}") from error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the benches that simulate pairs."""
    parser.add_argument("--traces", type=Path, metavar="DIR", help="recordings; default: those of this project")
    parser.add_argument(
        "--pairs", type=Path, metavar="FILE", help='TOML: NAME = ["HIGH", "LOW", ...], names of recordings'
    )
    parser.add_argument("--requests", type=int, metavar="N", help="of the high job; default: two seconds of it")
    several.add_argument(parser)
    device_option.add_arguments(parser)
    page.add_argument(parser)


def read_pairs(path: Path | None, known: dict[str, bytes]) -> dict[str, tuple[str, ...]]:
    """Of a file, else the standard ones as far as they are there, else every two recordings. Raises BenchError."""
    if path is not None:
        try:
            read = tomllib.loads(path.read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise BenchError(f"couldn't read {path}: {reason(error)}") from error
        pairs = {name: tuple(map(str, jobs)) for name, jobs in read.items() if isinstance(jobs, list)}
        bad = [name for name in read if len(pairs.get(name, ())) < 2]
        if bad or not pairs:
            raise BenchError(f'{path}: {bad[0] if bad else "the file"} is no pair, write NAME = ["HIGH", "LOW"]')
    else:
        pairs = {name: pair for name, pair in PAIRS.items() if set(pair) <= set(known)}
        names = sorted(known)
        pairs = pairs or {f"{a} + {b}": (a, b) for a in names for b in names if a != b}
    missing = sorted({job for pair in pairs.values() for job in pair} - set(known))
    if missing:
        raise BenchError(f"there is no recording {missing[0]}; there are {', '.join(sorted(known))}")
    return pairs


class Chosen(TypedDict, total=False):
    """Which cases are simulated, and on which device: what add_arguments() takes."""

    emulated: Required[bool]
    traces: Path | None
    pairs: Path | None
    requests: int | None
    seeds: int
    device: Device


def settings(chosen: Chosen) -> dict[str, Any]:
    """Of a result: the seeds and the device."""
    return {"seeds": chosen.get("seeds", several.SEEDS), **device_option.settings(chosen.get("device", SLICES))}


def claim(chosen: Chosen) -> str:
    """The first line of a summary."""
    return CLAIM.format(device=chosen.get("device", SLICES))


def every_case(
    work: Callable[[Case], list[dict[str, Any]]],
    *, emulated: bool, traces: Path | None = None, pairs: Path | None = None, requests: int | None = None,
    seeds: int = several.SEEDS, device: Device = SLICES,
) -> list[dict[str, Any]]:  # fmt: skip
    """The rows of `work`, a function of a module, for every case and seed; of a case one after the other. Raises BenchError."""
    if not emulated:
        raise BenchError("it simulates, leave --real away")
    known = recordings(traces)
    cases = [
        Case(pair, arrivals, names, tuple(known[name] for name in names), requests, seed, device)
        for pair, names in read_pairs(pairs, known).items()
        for arrivals in simulator.ARRIVALS
        for seed in several.of(arrivals, seeds)
    ]
    return on_all_processors(work, cases)


def on_all_processors(work: Callable[[Case], list[dict[str, Any]]], cases: Iterable[Case]) -> list[dict[str, Any]]:
    """The rows of `work` for each case, in their order."""
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        return [row for rows in pool.map(work, cases) for row in rows]
