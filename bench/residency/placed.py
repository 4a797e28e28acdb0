"""Where a step's tensors lie, as the driver sees it: chunks that kernels touch, and which memory is given back."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from fikitd.gpus.residency import Sequence

from bench.residency.networks import Kernel, Step, Tensor

CHUNK: Final = 2 << 20
LARGE: Final = 1 << 20


@dataclass(frozen=True)
class Use:
    """A kernel: its chunks, ascending, and those whose content nobody needs behind it."""

    duration_ns: int
    touched: tuple[int, ...]
    freed: tuple[int, ...] = ()


@dataclass
class Program:
    """An iteration. tensors: the chunks of each tensor by its number, for rules that think in tensors. kernels: what it was made of."""

    name: str
    uses: list[Use]
    tensors: dict[int, tuple[int, ...]] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)

    @property
    def total_ns(self) -> int:
        return sum(use.duration_ns for use in self.uses)

    def sequence(self, slower: float = 1.0) -> Sequence:
        found = Sequence()
        for use in self.uses:
            found.add(round(use.duration_ns * slower), use.touched, use.freed)
        return found


def known_lifetimes(step: Step, durations: list[int]) -> Program:
    """Every tensor of 1 MiB or more has chunks of its own, and is given back after its last use: what a framework knows of itself, and the driver
    only of a program without a cache of memory. Smaller ones lie together and stay."""
    last = step.last_use()
    chunks: dict[int, tuple[int, ...]] = {}
    free: list[int] = []
    count = 0

    def place(tensor: Tensor) -> None:
        nonlocal count
        if tensor.number in chunks:
            return
        needed = -(-tensor.bytes // CHUNK) if tensor.bytes >= LARGE else 0
        got = [free.pop() for _ in range(min(needed, len(free)))]
        got += range(count, count + needed - len(got))
        count = max(count, *(each + 1 for each in got)) if got else count
        chunks[tensor.number] = tuple(sorted(got))

    for kernel in step.kernels:
        for tensor in kernel.touched:
            if tensor.parameter:
                place(tensor)
    uses = []
    for at, (kernel, duration) in enumerate(zip(step.kernels, durations, strict=True)):
        for tensor in kernel.touched:
            place(tensor)
        gone = {t.number for t in kernel.touched if not t.parameter and last[t] == at}
        freed = tuple(sorted(chunk for number in gone for chunk in chunks[number]))
        uses.append(Use(duration, _touched(kernel, chunks), freed))
        free += reversed(freed)
    return Program(step.name, uses, chunks, step.kernels)


def cached(step: Step, durations: list[int], iterations: int = 3, *, dead: bool = False) -> Program:
    """With the memory cache of a framework of today, as the driver sees its last iteration: memory is asked for once and never given back, tensors
    come and go in it at addresses that the driver does not learn the meaning of. dead: were it known which chunks hold no tensor that is needed."""
    last = step.last_use()
    pool = Pool()
    at_byte: dict[int, tuple[int, int]] = {}
    needed: Counter[int] = Counter()  # tensors in each chunk

    def place(tensor: Tensor) -> None:
        at_byte[tensor.number] = pool.take(tensor.bytes)
        needed.update(_chunks(*at_byte[tensor.number]))

    def give(number: int) -> list[int]:
        """The chunks that hold nothing any more."""
        place = at_byte.pop(number)
        pool.give(*place)
        needed.subtract(_chunks(*place))
        return [chunk for chunk in _chunks(*place) if not needed[chunk]]

    for kernel in step.kernels:
        for tensor in kernel.touched:
            if tensor.parameter and tensor.number not in at_byte:
                place(tensor)
    uses: list[Use] = []
    tensors: dict[int, tuple[int, ...]] = {}
    for _ in range(iterations):
        uses = []
        for at, (kernel, duration) in enumerate(zip(step.kernels, durations, strict=True)):
            for tensor in kernel.touched:
                if tensor.number not in at_byte:
                    place(tensor)
                tensors[tensor.number] = tuple(_chunks(*at_byte[tensor.number]))
            over = {t.number for t in kernel.touched if not t.parameter and last[t] == at}
            empty = [chunk for number in over for chunk in give(number)]
            uses.append(Use(duration, _touched(kernel, tensors), tuple(sorted(set(empty))) if dead else ()))
    return Program(step.name, uses, tensors, step.kernels)


def _chunks(begin: int, size: int) -> range:
    return range(begin // CHUNK, (begin + size - 1) // CHUNK + 1)


def _touched(kernel: Kernel, chunks: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted({chunk for tensor in kernel.touched for chunk in chunks[tensor.number]}))


class Pool:
    """Best fit with splitting and joining: small blocks in segments of 2 MiB, those up to 10 MiB in segments of 20 MiB, larger ones in segments of
    their own size, as PyTorch's allocator has them."""

    def __init__(self) -> None:
        self._free: tuple[list[tuple[int, int]], list[tuple[int, int]]] = (
            [],
            [],
        )  # (bytes, address), of small ones and of others
        self._segments: list[tuple[int, int]] = []  # (address, bytes)
        self._end = 0

    def take(self, wanted: int) -> tuple[int, int]:
        """Address and bytes."""
        size = -(-wanted // 512) * 512
        small = size <= LARGE
        free = self._free[not small]
        at = bisect_left(free, (size, 0))
        if at == len(free):
            length = CHUNK if small else 20 << 20 if size < 10 << 20 else -(-size // CHUNK) * CHUNK
            insort(free, (length, self._end))
            self._segments.append((self._end, length))
            self._end += length
            at = bisect_left(free, (size, 0))
        there, address = free.pop(at)
        if there - size >= (512 if small else LARGE + 1):
            insort(free, (there - size, address + size))
            there = size
        return address, there

    def give(self, address: int, size: int) -> None:
        free = self._free[size > LARGE]
        segment, length = self._segments[bisect_left(self._segments, (address + 1, 0)) - 1]
        for other in [each for each in free if segment <= each[1] < segment + length]:
            if other[1] + other[0] == address:
                free.remove(other)
                address, size = other[1], size + other[0]
            elif address + size == other[1]:
                free.remove(other)
                size += other[0]
        insort(free, (size, address))
