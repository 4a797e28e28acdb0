"""A GPU's memory of one job, in manual time: kernels in order, one half-duplex link, a page fault where a chunk is missing. Simulated."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from bench.residency.placed import CHUNK, Program

BATCHES_OF_CHUNK: Final = 2
"""Assumed: a batch is 256 faults (published: the driver's source) of 4 KiB each."""


class Rule(Protocol):
    """Who says what moves. Chunks are numbers; `machine` may be read, never changed."""

    def begins(self, machine: Machine, kernel: int) -> None:
        """This kernel is next; what it touches is not there yet."""

    def ended(self, machine: Machine, kernel: int) -> None:
        """At machine.now_ns."""

    def move(self, machine: Machine, at_ns: int) -> tuple[int, bool] | int | None:
        """What the link, which is free, moves next: (chunk, whether inward); or from when there may be something; or None."""

    def announced(self, chunk: int) -> bool:
        """Was it to come in anyway? Then who needs it waits for it, without a fault."""

    def victim(self, machine: Machine) -> int | None:
        """Who leaves for a chunk that is needed now; None: the driver's choice."""

    def wait_ns(self, machine: Machine) -> int:
        """How long the next kernel must wait behind the last one."""


@dataclass
class Outcome:
    """Of one iteration. peak: chunks on the GPU at most. trail: (ns from its beginning, chunks) whenever that changed."""

    total_ns: int
    moved_bytes: int = 0
    missed_bytes: int = 0
    peak: int = 0
    trail: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Link:
    """One direction at a time; in is to the GPU. batch_ns: what a batch of faults costs besides its bytes."""

    in_bytes_per_s: float = 24e9
    out_bytes_per_s: float = 24e9
    batch_ns: int = 30_000

    def chunk_ns(self, inward: bool) -> int:
        return round(CHUNK / (self.in_bytes_per_s if inward else self.out_bytes_per_s) * 1e9)

    @property
    def round_trip_ns(self) -> int:
        """Of a chunk, out and back."""
        return self.chunk_ns(False) + self.chunk_ns(True)

    def times(self, factor: float) -> Link:
        return Link(self.in_bytes_per_s * factor, self.out_bytes_per_s * factor, self.batch_ns)


class Machine:
    """capacity: chunks that may be on the GPU."""

    def __init__(self, program: Program, capacity: int, link: Link, rule: Rule) -> None:
        self.program, self.capacity, self.rule = program, capacity, rule
        self.now_ns = 0
        self.count = 0  # on the GPU, or on the way in or out
        self.there: OrderedDict[int, None] = OrderedDict()  # in the order in which they came
        self.content: set[int] = set()  # chunks that somebody may still read
        self.pinned: frozenset[int] = frozenset()
        self.waiting = False  # a kernel waits for what is missing
        self.link, self._fault_ns = link, BATCHES_OF_CHUNK * link.batch_ns
        self._free_ns = 0  # from then on the link is
        self._flying: tuple[int, bool] | None = None
        self._outcome = Outcome(0)
        self._began_ns = 0

    def run(self, iterations: int) -> Outcome:
        """The last of so many iterations: the first ones bring the memory into its rhythm."""
        for _ in range(iterations):
            self._outcome, self._began_ns = Outcome(0, peak=self.count), self.now_ns
            for kernel, use in enumerate(self.program.uses):
                self.pinned = frozenset(use.touched)
                self.rule.begins(self, kernel)
                self._idle(self.rule.wait_ns(self))
                self._need(use.touched)
                self._link_until(self.now_ns + use.duration_ns)
                self.now_ns += use.duration_ns
                self._land()
                for chunk in use.freed:
                    self._drop(chunk)
                self.rule.ended(self, kernel)
            self._outcome.total_ns = self.now_ns - self._began_ns
        return self._outcome

    def flying(self, chunk: int) -> bool:
        return self._flying is not None and self._flying[0] == chunk

    def leaving_ns(self) -> int:
        """Until the chunk that is on its way out has left."""
        return max(self._free_ns - self.now_ns, 0) if self._flying is not None and not self._flying[1] else 0

    # -- what a kernel needs

    def _need(self, touched: Iterable[int]) -> None:
        self.waiting = True
        for chunk in touched:
            while chunk not in self.there or self.flying(chunk):
                self._bring(chunk)
        self.waiting = False

    def _bring(self, chunk: int) -> None:
        """One step towards it."""
        if chunk not in self.there and chunk not in self.content and self.count < self.capacity:
            self.content.add(chunk)
            self._arrive(chunk)
        elif self._flying is not None:
            self._idle(self._free_ns - self.now_ns)
        elif self.count < self.capacity:
            announced = self.rule.announced(chunk)
            if not announced:
                self._outcome.missed_bytes += CHUNK
                self._idle(self._fault_ns, link=False)
            self._start(chunk, inward=True)
        else:
            self._make_room()

    def _make_room(self) -> None:
        victim = self.rule.victim(self)
        if victim is None:
            victim = next((each for each in self.there if each not in self.pinned), None)
        if victim is None:
            raise ValueError("a kernel needs more than there is room for")
        self._start(victim, inward=False)

    # -- the link

    def _idle(self, ns: int, *, link: bool = True) -> None:
        """Time goes on without a kernel. link: the rule may use it."""
        if ns <= 0:
            self._land()
            return
        if link:
            self._link_until(self.now_ns + ns)
        self.now_ns += ns
        self._land()

    def _link_until(self, end_ns: int) -> None:
        at_ns = max(self._free_ns, self.now_ns)
        while at_ns < end_ns:
            self._land(at_ns)
            found = self.rule.move(self, at_ns)
            if found is None or (isinstance(found, int) and found >= end_ns):
                return
            if isinstance(found, int):
                at_ns = max(found, at_ns)
                continue
            self._start(*found, at_ns=at_ns)
            at_ns = self._free_ns

    def _start(self, chunk: int, inward: bool, at_ns: int | None = None) -> None:
        at_ns = self.now_ns if at_ns is None else at_ns
        self._flying, self._free_ns = (chunk, inward), at_ns + self.link.chunk_ns(inward)
        self._outcome.moved_bytes += CHUNK
        if inward:
            self._arrive(chunk, at_ns)

    def _land(self, at_ns: int | None = None) -> None:
        """What was on the way by then is there, or gone."""
        at_ns = self.now_ns if at_ns is None else at_ns
        if self._flying is None or self._free_ns > at_ns:
            return
        (chunk, inward), self._flying = self._flying, None
        if not inward:
            self._leave(chunk, self._free_ns)

    def _arrive(self, chunk: int, at_ns: int | None = None) -> None:
        self.there[chunk] = None
        self.count += 1
        self._outcome.peak = max(self._outcome.peak, self.count)
        self._outcome.trail.append(((self.now_ns if at_ns is None else at_ns) - self._began_ns, self.count))

    def _leave(self, chunk: int, at_ns: int) -> None:
        del self.there[chunk]
        self.count -= 1
        self._outcome.trail.append((at_ns - self._began_ns, self.count))

    def _drop(self, chunk: int) -> None:
        """Nobody needs its content any more."""
        self.content.discard(chunk)
        if chunk in self.there and not self.flying(chunk):
            self._leave(chunk, self.now_ns)
