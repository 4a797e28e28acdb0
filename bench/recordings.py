"""Recorded GPU timelines (`*.csv.gz`, format: emulator/replay/recording.hpp), and made-up ones where there are none."""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass, field
from pathlib import Path

from bench.record import ROOT, BenchError

RECORDED = ROOT.parent / "shared" / "traces"
SEED = 1


def recordings(directory: Path | None) -> dict[str, bytes]:
    """Name -> text of every recording in `directory`; by default the recorded ones beside the repository, else made-up ones."""
    if directory is None and not RECORDED.is_dir():
        return {
            name: make(SEED).text() for name, make in (("made_up_inference", inference), ("made_up_training", training))
        }
    found = sorted((directory or RECORDED).glob("*.csv*"))
    if not found:
        raise BenchError(f"couldn't find a recording (*.csv.gz or *.csv) in {directory or RECORDED}")
    return {path.name.split(".csv")[0]: _read(path) for path in found}


def _read(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as error:
        raise BenchError(f"couldn't read {path}: {error}") from error


@dataclass
class Made:
    """A host and a device that live through made-up work and write down what a profiler would. Times in us."""

    random: random.Random
    host: float = 0.0
    ends: dict[int, float] = field(default_factory=dict)  # of the latest work of each stream
    queue: list[float] = field(default_factory=list)  # starts of the work that was issued
    names: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    QUEUE = 1000  # calls that a driver takes before it makes the host wait

    def _name(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def think(self, us: float) -> None:
        """The host does something else, on average for so long."""
        self.host += self.random.lognormvariate(0, 0.4) * us

    def work(
        self, name: str, us: float, *, stream: int = 7, call: float = 5.0, size: int = 0, waits: bool = False
    ) -> None:
        """A launch, or a copy of `size` bytes, that takes about so long on the device; `call`: what it costs the host."""
        begin = self.host
        if len(self.queue) >= self.QUEUE:
            self.host = max(self.host, self.queue[-self.QUEUE])
        self.host += call * self.random.uniform(0.8, 1.3)
        start = self.host + self.random.uniform(1.0, 3.0)
        if stream in self.ends:
            start = max(start, self.ends[stream] + self.random.uniform(0.8, 1.6))
        duration = us * self.random.uniform(0.95, 1.05)
        self.ends[stream] = start + duration
        self.queue.append(start)
        if waits:
            self.host = self.ends[stream] + self.random.uniform(2.0, 6.0)
        shape = "" if size else f"{self.random.randint(1, 4000)},1,1,{self.random.choice([64, 128, 256])},1,1"
        fields = f"{begin:.3f},{self.host - begin:.3f},{start:.3f},{duration:.3f},{stream},{shape or ',,,,,'},32,0"
        self.lines.append(f"{'M' if size else 'K'},{fields},{size or ''},{self._name(name)},0")

    def synchronize(self) -> None:
        """The host waits for the device to drain."""
        begin = self.host
        self.host = max(self.host, *self.ends.values()) + self.random.uniform(3.0, 8.0)
        fields = f"{begin:.3f},{self.host - begin:.3f},,0.0,,,,,,,,,,"
        self.lines.append(f"S,{fields},{self._name('cudaDeviceSynchronize')},0")

    def text(self) -> bytes:
        """The recording."""
        names = [f"#N {i} {name}" for i, name in enumerate(self.names)]
        return "\n".join([*names, *self.lines, ""]).encode()


def inference(seed: int) -> Made:
    """Requests with pauses between them; kernels are shorter than their launches take, so the device waits for the host."""
    made = Made(random.Random(seed))
    for _ in range(12):
        made.work("Memcpy HtoD (Pinned -> Device)", 30, size=600_000)
        for _ in range(40):
            made.think(6)
            made.work(
                made.random.choice(["gemm<float>", "softmax", "layer_norm", "elementwise"]),
                made.random.choice([2, 4, 9]),
            )
        made.work("Memcpy DtoH (Device -> Pageable)", 2, size=4_000, waits=True)
        made.synchronize()
        made.think(1500)
    return made


def training(seed: int) -> Made:
    """Iterations whose launches run far ahead of the device, up to a full queue; gradients travel in a second stream."""
    made = Made(random.Random(seed))
    made.work("fill", 3, call=60_000)  # its module is loaded at its first launch
    for _ in range(6):
        made.work("Memcpy HtoD (Pageable -> Device)", 900, size=9_000_000, call=250, waits=True)
        for layer in range(320):
            made.think(3)
            made.work("conv_forward", made.random.choice([20, 60, 180]))
            made.work("Memset (Device)", 1.2, size=256)
            if layer % 16 == 0:
                made.work("all_reduce", 90, stream=20)
        made.work("optimizer_step", 400)
        made.synchronize()
    return made
