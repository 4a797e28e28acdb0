"""A training step as a program under fikitd goes through it again and again: memory, launches, durations. For the simulated bench's networks."""

from __future__ import annotations

import json
from bisect import insort
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from fikitd.gpus.residency import peak_bytes

from bench.residency import times
from bench.residency.budgets import MSR, Case
from bench.residency.machine import Link
from bench.residency.networks import NETWORKS, Kernel, Step, Tensor
from bench.residency.placed import CHUNK, LARGE, Program, Use

ARGUMENTS: Final = 8
"""Pointers of a kernel at most; those of the networks here have fewer."""
GIVES_EVERY: Final = {"VGG16": 2}
GIVES_USUALLY: Final = 8
"""Launches of a step of that network, of others, after which a program without a cache gives back what is dead: each time the driver waits for all work (CUDA manual, cuMemFree)."""
STREAM_ORDER: Final = "stream order"
UNIT_NS: Final = 1_000
"""A kernel takes so long for each block of its grid: that is how a program tells the emulated GPU its duration."""


@dataclass(frozen=True)
class Launch:
    """grid: units of its duration. blocks: what it names, the one that it adds 1 to first. takes, gives: memory that comes before it and goes after it."""

    grid: int
    blocks: tuple[int, ...]
    takes: tuple[int, ...] = ()
    gives: tuple[int, ...] = ()


@dataclass(frozen=True)
class Script:
    """blocks: bytes of each. kept: those that are there from the first step to the last.

    Of the manners "cached" keeps all blocks, and tensors of one size take the same ones in turn, as with a framework's cache of memory; "known
    lifetimes" asks the driver for each tensor's memory and gives it back, at the next of a few moments of the step, after its last use; "stream order"
    does so in the order of its stream, and gives it back at once.
    """

    name: str
    manner: str
    blocks: tuple[int, ...]
    kept: tuple[int, ...]
    launches: tuple[Launch, ...]

    @property
    def duration_ns(self) -> int:
        """Of the kernels of a step, on a device that is not slower."""
        return sum(launch.grid for launch in self.launches) * UNIT_NS

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    def program(self, first_use_ns: int = 0) -> Program:
        """The same for the simulated machine. first_use_ns: what a kernel takes longer for each chunk that nobody had used yet."""
        chunks, count = [], 0
        for size in self.blocks:
            needed = -(-size // CHUNK)
            chunks.append(range(count, count + needed))
            count += needed

        def of(blocks: Sequence[int]) -> tuple[int, ...]:
            return tuple(sorted(chunk for block in blocks for chunk in chunks[block]))

        uses = [
            Use(each.grid * UNIT_NS + len(of(each.takes)) * first_use_ns, of(each.blocks), of(each.gives))
            for each in self.launches
        ]
        return Program(self.name, uses)


def read(path: Path) -> Script:
    raw = json.loads(path.read_text())
    launches = tuple(
        Launch(each["grid"], *(tuple(each[key]) for key in ("blocks", "takes", "gives"))) for each in raw["launches"]
    )
    return Script(raw["name"], raw["manner"], tuple(raw["blocks"]), tuple(raw["kept"]), launches)


@dataclass(frozen=True)
class Scaled:
    """A script whose room, with MSR of its peak saved, is a GPU of the size that was asked for; the link's rate is scaled alike."""

    script: Script
    case: Case

    def simulated(self) -> Case:
        """With what the emulated GPU takes for memory that nobody had used yet, which is one batch of page faults for a chunk."""
        return Case(self.script.program(self.case.link.batch_ns), self.case.link)

    @property
    def room_bytes(self) -> int:
        return int(self.case.peak * (1 - MSR)) * CHUNK

    @property
    def peak_bytes(self) -> int:
        return self.case.peak * CHUNK


def scaled(name: str, batch: int, manner: str, gpu_bytes: int, rates: times.Rates) -> Scaled:
    """Sizes and link by one factor: durations, and what of them the link takes, are as in the simulated bench."""
    step = NETWORKS[name](batch)
    durations = times.durations_ns(step, rates)
    whole = script(step, durations, manner)
    factor = gpu_bytes / ((1 - MSR) * peak_bytes(whole.program().sequence(), CHUNK))
    small = script(step, durations, manner, factor)
    return Scaled(small, Case(small.program(), Link().times(factor)))


def script(step: Step, durations: Sequence[int], manner: str, factor: float = 1.0) -> Script:
    """factor: of all sizes. Tensors that are smaller than what fikit moves lie elsewhere, and are left out."""
    last, caches = step.last_use(), manner == "cached"
    every = 1 if manner == STREAM_ORDER else GIVES_EVERY.get(step.name, GIVES_USUALLY)
    blocks: list[int] = []
    free: dict[int, list[int]] = {}
    at: dict[int, int] = {}
    kept: list[int] = []
    dead: list[int] = []
    launches = []

    def place(number: int, size: int) -> int:
        waiting = free.get(size, [])
        if waiting:
            at[number] = waiting.pop(0)
        else:
            at[number] = len(blocks)
            blocks.append(size)
        return at[number]

    for tensor in (each for kernel in step.kernels for each in kernel.touched if each.parameter):
        size = int(tensor.bytes * factor)
        if size >= LARGE and tensor.number not in at:
            kept.append(place(tensor.number, size))
    for index, (kernel, duration) in enumerate(zip(step.kernels, durations, strict=True)):
        large = {each.number: int(each.bytes * factor) for each in _first_written(kernel) if int(each.bytes * factor) >= LARGE}  # fmt: skip
        takes = tuple(place(number, size) for number, size in large.items() if number not in at)
        named = tuple(at[number] for number in large)
        over = [each for each in kernel.touched if not each.parameter and last[each] == index and each.number in at]
        dead += (at.pop(number) for number in dict.fromkeys(each.number for each in over))
        gives: tuple[int, ...] = ()
        if caches or (index + 1) % every == 0 or index + 1 == len(step.kernels):
            gives, dead = tuple(dead), []
        for block in gives:
            insort(free.setdefault(blocks[block], []), block)
        launches.append(Launch(max(1, round(duration / UNIT_NS)), named, *(((), ()) if caches else (takes, gives))))
    return Script(step.name, manner, tuple(blocks), tuple(range(len(blocks)) if caches else kept), tuple(launches))


def _first_written(kernel: Kernel) -> tuple[Tensor, ...]:
    return tuple(dict.fromkeys((*kernel.writes, *kernel.reads)))
