"""Made-up programs, as a profiler would have recorded them: they come with fikit, and stand in for recordings of GPUs. Pure.

The same seed makes the same recording. None of them is of a real program, and how long their kernels take is of no GPU.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class Made:
    """A host and a device that live through made-up work and write down what a profiler would. Times in us."""

    random: random.Random
    thread: int = 0  # which of the host's threads calls now
    hosts: dict[int, float] = field(default_factory=dict)
    ends: dict[int, float] = field(default_factory=dict)  # of the latest work of each stream
    engines: dict[str, float] = field(default_factory=dict)  # end of the latest copy of each direction
    queue: list[float] = field(default_factory=list)  # starts of the work that was issued
    names: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    QUEUE = 1000  # calls that a driver takes before it makes the host wait

    @property
    def host(self) -> float:
        """The calling thread's time."""
        return self.hosts.get(self.thread, 0.0)

    @host.setter
    def host(self, us: float) -> None:
        self.hosts[self.thread] = us

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
        engine = name.split("(", maxsplit=1)[0] if size else ""  # copies of one direction share an engine
        start = max(start, self.engines.get(engine, 0.0)) if engine else start
        duration = us * self.random.uniform(0.95, 1.05)
        self.ends[stream] = start + duration
        self.engines[engine] = self.ends[stream]
        self.queue.append(start)
        if waits:
            self.host = self.ends[stream] + self.random.uniform(2.0, 6.0)
        shape = "" if size else f"{self.random.randint(1, 4000)},1,1,{self.random.choice([64, 128, 256])},1,1"
        fields = f"{begin:.3f},{self.host - begin:.3f},{start:.3f},{duration:.3f},{stream},{shape or ',,,,,'},32,0"
        self.lines.append(f"{'M' if size else 'K'},{fields},{size or ''},{self._name(name)},{self.thread}")

    def synchronize(self) -> None:
        """The host waits for the device to drain."""
        begin = self.host
        self.host = max(self.host, *self.ends.values()) + self.random.uniform(3.0, 8.0)
        fields = f"{begin:.3f},{self.host - begin:.3f},,0.0,,,,,,,,,,"
        self.lines.append(f"S,{fields},{self._name('cudaDeviceSynchronize')},{self.thread}")

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


def streams(seed: int) -> Made:
    """Work spread over many streams, side by side; the host waits for all of it now and then."""
    made = Made(random.Random(seed))
    for _ in range(20):
        for stream in range(1, 25):
            made.work("tile_kernel", made.random.choice([80, 200, 500]), stream=stream)
            made.think(2)
        made.synchronize()
    return made


def sparse(seed: int) -> Made:
    """A service that is asked now and then: long pauses of the host, a few kernels, an answer copied back."""
    made = Made(random.Random(seed))
    for _ in range(40):
        made.think(9000)
        for _ in range(3):
            made.work("attention", 35)
        made.work("Memcpy DtoH (Device -> Pageable)", 3, size=2_000, waits=True)
    return made


def dense(seed: int) -> Made:
    """Kernels much shorter than a launch in front of ones much longer, one call after the other for a long time."""
    made = Made(random.Random(seed))
    for _ in range(15_000):
        made.work(made.random.choice(["add", "mul", "scan"]), made.random.choice([1.2, 1.5, 14]), call=3.0)
    return made


def copies(seed: int) -> Made:
    """A pipeline that moves more than it computes: upload, one kernel, download, in three streams in turn."""
    made = Made(random.Random(seed))
    for frame in range(200):
        stream = 7 + frame % 3
        made.work("Memcpy HtoD (Pinned -> Device)", 500, stream=stream, size=12_000_000)
        made.work("filter", 150, stream=stream)
        made.work("Memset (Device)", 1.5, stream=stream, size=4_096)
        if frame % 3 == 2:
            made.synchronize()
    return made


def threads(seed: int) -> Made:
    """A thread that launches and never waits, and one beside it whose every copy makes it wait."""
    made = Made(random.Random(seed))
    for _ in range(1500):
        made.thread = min((1, 2), key=lambda thread: made.hosts.get(thread, 0.0))
        if made.thread == 1:
            made.think(12)
            made.work("gemm<float>", made.random.choice([8, 20]))
        else:
            made.think(150)
            made.work("Memcpy DtoH (Device -> Pageable)", 400, stream=20, size=3_000_000, waits=True)
    return made


SHAPES = {make.__name__: make for make in (inference, training, streams, sparse, dense, copies, threads)}
