"""Case A in manual time: a high job and three low ones of 40 % of the GPU each; who has the GPU's memory when, and what becomes of all four. Simulated.

The high job repeats: it copies its input in, its kernels run, its host is busy. A low kernel runs where the high job's device is idle, one
at a time, if the idle time that is left is expected to be long enough. What a low kernel touches and is not there is a miss, which holds the device.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, Protocol

from fikitd.gpus.residency import EpochRules, Tenant, next_epoch

from bench.residency.machine import BATCHES_OF_CHUNK, Link
from bench.residency.placed import CHUNK

S: Final = 1_000_000_000
MS: Final = 1_000_000
PIECE: Final = 64 << 20


@dataclass(frozen=True)
class Setting:
    """gpu_bytes: of which each of the four jobs has `share`. step_ns: device time in which a low job touches all its memory once, in kernels of
    kernel_ns. batch_ns: of a batch of faults. jitter: of the high job's times, as a share."""

    gpu_bytes: int = 16 << 30
    share: float = 0.4
    lows: int = 3
    link: Link = field(default_factory=Link)
    batch_ns: int = 30_000
    step_ns: int = 200 * MS
    kernel_ns: int = 1 * MS
    copy_ns: int = 4 * MS
    work_ns: int = 36 * MS
    host_ns: int = 40 * MS
    jitter: float = 0.05
    length_ns: int = 600 * S
    seed: int = 1

    @property
    def chunks(self) -> int:
        """Of each job."""
        return int(self.gpu_bytes * self.share) // CHUNK

    @property
    def room(self) -> int:
        """Chunks that all low jobs together may have."""
        return self.gpu_bytes // CHUNK - self.chunks

    @property
    def kernels(self) -> int:
        return self.step_ns // self.kernel_ns


@dataclass
class Low:
    """A low job: how much it has worked, where it is in its step, its chunks on the GPU, in the order in which they came, and those away."""

    number: int
    worked_ns: int = 0
    kernel: int = 0
    there: OrderedDict[int, None] = field(default_factory=OrderedDict)
    away: OrderedDict[int, None] = field(default_factory=OrderedDict)
    ran_ns: int = 0  # when it ran last
    came_ns: int = 0  # when it came to run


@dataclass
class Moving:
    """A move of the product's that goes on: bytes left."""

    low: int
    bytes: int
    inward: bool
    ahead: bool


class Who(Protocol):
    """Who of the low jobs may launch, and what moves without a miss."""

    def now(self, gpu: Gpu) -> list[int]: ...


@dataclass
class Outcome:
    """jct: the high job's time for an iteration against its time alone. lost: share of the time in which the low jobs' memory was moved and none of
    them ran. bound: what c / (E + c) says of the same epochs. trail: (ns, chunks of each low job)."""

    jct: float
    worked_ns: list[int]
    lost: float = 0.0
    bound: float = 0.0
    moved_bytes: int = 0
    misses: int = 0
    epochs: int = 0
    longest_wait_ns: int = 0
    trail: list[tuple[int, list[int]]] = field(default_factory=list)


class Gpu:
    def __init__(self, setting: Setting, who: Who) -> None:
        self.setting, self.who = setting, who
        self.lows = [Low(number) for number in range(setting.lows)]
        for low in self.lows:
            low.away.update((chunk, None) for chunk in range(setting.chunks))
        self.now_ns = 0
        self.link_free_ns = 0
        self.outcome = Outcome(1.0, [])
        self.moves: list[Moving] = []
        self.moved_ns = 0  # when the last of them was made
        self.lost_ns = 0
        self._turn = 0
        self._arrived: OrderedDict[tuple[int, int], None] = (
            OrderedDict()
        )  # of all low jobs: the driver's victims come from the front
        self._random = random.Random(setting.seed)

    def run(self) -> Outcome:
        setting, took_ns, alone_ns = self.setting, 0, 0
        while self.now_ns < setting.length_ns:
            began_ns = self.now_ns
            copy_ns, work_ns, host_ns = (
                self._jittered(ns) for ns in (setting.copy_ns, setting.work_ns, setting.host_ns)
            )
            self.now_ns = max(self.now_ns, self.link_free_ns) + copy_ns
            self.link_free_ns = self.now_ns
            self._moves(self.now_ns + work_ns, self.now_ns + work_ns)
            self.now_ns += work_ns
            self._idle(self.now_ns + host_ns, self.now_ns + setting.host_ns)
            took_ns += self.now_ns - began_ns
            alone_ns += copy_ns + work_ns + host_ns
        self.outcome.jct = took_ns / alone_ns
        self.outcome.worked_ns = [low.worked_ns for low in self.lows]
        self.outcome.lost = self.lost_ns / self.now_ns
        return self.outcome

    def _jittered(self, ns: int) -> int:
        return round(ns * self._random.uniform(1 - self.setting.jitter, 1 + self.setting.jitter))

    # -- while the high job's device is idle

    def _idle(self, end_ns: int, expected_ns: int) -> None:
        """Until the high job's next copy; low kernels start while they are expected to end before it."""
        while self.now_ns < end_ns:
            ready = [self.lows[n] for n in self.who.now(self) if not self._moved(n)]
            after_ns = self.now_ns + self.setting.kernel_ns
            if not ready or after_ns > min(expected_ns, end_ns):
                after_ns = min(after_ns, end_ns)
                self._moves(after_ns, expected_ns)
                self.now_ns = after_ns
                continue
            low = ready[self._turn % len(ready)]
            self._turn += 1
            begin_ns = self.now_ns
            self._touch(low)
            self.now_ns += self.setting.kernel_ns
            self._moves(self.now_ns, expected_ns, begin_ns)
            low.worked_ns += self.setting.kernel_ns
            low.ran_ns = self.now_ns

    def _touch(self, low: Low) -> None:
        """The low job's next kernel: what is missing comes in by faults, while the device waits."""
        setting = self.setting
        first = low.kernel * setting.chunks // setting.kernels
        last = (low.kernel + 1) * setting.chunks // setting.kernels
        low.kernel = (low.kernel + 1) % setting.kernels
        for chunk in range(first, last):
            if chunk in low.there:
                continue
            self.now_ns = max(self.now_ns, self.link_free_ns) + BATCHES_OF_CHUNK * setting.batch_ns
            if self.resident() >= setting.room:
                self.evict(next(iter(self._arrived)))
                self.now_ns += setting.link.chunk_ns(False)
            self.arrive(low, chunk)
            self.now_ns += setting.link.chunk_ns(True)
            self.link_free_ns = self.now_ns
            self.outcome.misses += 1

    # -- memory

    def resident(self) -> int:
        return len(self._arrived)

    def arrive(self, low: Low, chunk: int) -> None:
        low.there[chunk] = None
        del low.away[chunk]
        self._arrived[low.number, chunk] = None
        self.outcome.moved_bytes += CHUNK

    def evict(self, key: tuple[int, int]) -> None:
        del self._arrived[key]
        del self.lows[key[0]].there[key[1]]
        self.lows[key[0]].away[key[1]] = None
        self.outcome.moved_bytes += CHUNK

    # -- moves of the product's: the lowest copies of all

    def _moved(self, low: int) -> bool:
        """A job's memory is moved, so it does not run; but for what comes ahead of its turn."""
        return any(each.low == low and not each.ahead for each in self.moves)

    def _moves(self, end_ns: int, copy_ns: int, from_ns: int | None = None) -> None:
        """The link's time until end_ns; a piece begins only where it is expected to end before the high job's next copy."""
        setting = self.setting
        at_ns = max(self.now_ns if from_ns is None else from_ns, self.link_free_ns)
        while self.moves and at_ns < end_ns:
            move = self.moves[0]
            chunk_ns = setting.link.chunk_ns(move.inward)
            fits = (copy_ns - at_ns) // chunk_ns
            chunks = min(PIECE // CHUNK, -(-move.bytes // CHUNK), fits)
            if chunks <= 0:
                return
            low = self.lows[move.low]
            for _ in range(chunks):
                if move.inward:
                    self.arrive(low, next(iter(low.away)))
                else:
                    self.evict((low.number, next(iter(low.there))))
            at_ns += chunks * chunk_ns
            self.link_free_ns = self.moved_ns = at_ns
            move.bytes -= chunks * CHUNK
            if move.bytes <= 0:
                self.moves.pop(0)


class Paging:
    """All low jobs at once, in turns of a kernel, and faults (TGS: managed memory and advice, no plan)."""

    def now(self, gpu: Gpu) -> list[int]:
        return list(range(gpu.setting.lows))


@dataclass
class Turns:
    """One low job at a time for so long, and faults (nvshare)."""

    turn_ns: int = 30 * S

    def now(self, gpu: Gpu) -> list[int]:
        return [gpu.now_ns // self.turn_ns % gpu.setting.lows]


@dataclass
class Epochs:
    """The product's epochs: moved ahead into free room, then the rest at once, then the chosen run."""

    rules: EpochRules
    runs: list[int] = field(default_factory=list)
    _next: list[int] | None = None  # who comes, while memory comes ahead of it
    _until_ns: int = 0
    _moving_since_ns: int | None = None
    _waits: list[Moving] = field(default_factory=list)
    _shares: list[float] = field(default_factory=list)  # c / (E + c) of each epoch
    _share: float = 0.0
    _length_ns: int = 0

    def now(self, gpu: Gpu) -> list[int]:
        self._note(gpu)
        if self._next is not None and not gpu.moves:  # what comes ahead is there
            for low in set(self._next) - set(self.runs):
                gpu.lows[low].came_ns = gpu.now_ns
            gpu.moves, self.runs, self._next = list(self._waits), self._next, None
            self._moving_since_ns = gpu.now_ns
        if self._moving_since_ns is not None and not gpu.moves:
            if self._waits:
                gpu.lost_ns += gpu.moved_ns - self._moving_since_ns
            self._moving_since_ns = None
            self._shares.append(self._share)
            gpu.outcome.bound = sum(self._shares) / len(self._shares)
            gpu.outcome.epochs += 1
            self._until_ns = gpu.now_ns + self._length_ns
            for low in self.runs:
                gpu.outcome.longest_wait_ns = max(gpu.outcome.longest_wait_ns, gpu.now_ns - gpu.lows[low].ran_ns)
        elif self._next is None and self._moving_since_ns is None and gpu.now_ns >= self._until_ns:
            self._plan(gpu)
        return [] if self._moving_since_ns is not None else self.runs

    def _plan(self, gpu: Gpu) -> None:
        setting = gpu.setting
        tenants = [
            Tenant(
                setting.chunks * CHUNK, len(low.there) * CHUNK, 0.5, 0 if low.number in self.runs else gpu.now_ns - low.ran_ns,
                low.number in self.runs, gpu.now_ns - low.came_ns if low.number in self.runs else 0,
            )
            for low in gpu.lows
        ]  # fmt: skip
        epoch = next_epoch(self.rules, setting.room * CHUNK, tenants)
        moves = [Moving(move.tenant, move.bytes, move.inward, move.ahead) for move in epoch.moves]
        gpu.moves, self._waits = [each for each in moves if each.ahead], [each for each in moves if not each.ahead]
        self._next, self._length_ns = epoch.runs, epoch.length_ns
        self._share = epoch.swap_ns / (epoch.swap_ns + epoch.length_ns)

    def _note(self, gpu: Gpu) -> None:
        now = [len(low.there) for low in gpu.lows]
        trail = gpu.outcome.trail
        if not trail or trail[-1][1] != now:
            trail.append((gpu.now_ns, now))
