"""How fast the link between one GPU and the host's memory is, in and out, one direction at a time: for turns and for plans. Pure.

The two directions are learnt apart: on an H200 memory comes in by 48 GB/s and goes out by 14 (docs/memory.md).

Two kinds of moves are timed. fikitd times those of a turn, from the goal to the report that it is reached. A job may report late, so the fastest job's rate
counts: a late one cannot make fikitd wait for it ever longer. The device times those of a plan, between two events, and the job's shim reports the rate: that is
the job's own word, so it counts in that job's plan only.

A move that meets another one, of another process on the GPU, takes longer than it would alone: two of them up to twice as long. What a shim reports varies with
that, though the link is the same. So a new rate counts only once the shim has reported it for STEADY_NS.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Final

from fikitd.gpus.residency import Link

ASSUMED: Final = Link()
LEAST: Final = 1e9  # bytes per second, whatever reports say
MOST: Final = 200e9
OFF: Final = 1.5
"""A plan is made anew where the rate of a direction is so many times as high, or as low, as the one that it was made for."""
SMOOTHED: Final = 4
STEADY_NS: Final = 10_000_000_000
"""For so long a shim has to report a rate that is off from the one that counts, and steady in itself, before that rate counts."""


@dataclass
class _Said:
    """What a client's shim reports. rate: the one that counts. another: the different one that it has reported since since_ns; None: it reports about `rate`."""

    rate: float
    another: float | None = None
    since_ns: int = 0

    def hears(self, now_ns: int, seen: float) -> None:
        if not is_off(self.rate, seen):
            self.another = None
        elif self.another is None or is_off(self.another, seen):
            self.another, self.since_ns = seen, now_ns
        elif now_ns - self.since_ns >= STEADY_NS:
            self.rate, self.another = seen, None


@dataclass
class _Direction:
    assumed: float
    believed: float | None = None
    by_job: dict[int, float] = field(default_factory=dict)  # of those whose memory has moved for a turn
    said: dict[int, _Said] = field(default_factory=dict)  # by client

    @property
    def bytes_per_s(self) -> float:
        return self.assumed if self.believed is None else self.believed

    def of(self, client: int) -> float:
        said = self.said.get(client)
        return self.bytes_per_s if said is None else said.rate

    def measured(self, client: int) -> float | None:
        said = self.said.get(client)
        return self.believed if said is None else said.rate

    def moved(self, jobs: Iterable[int], seen: float) -> None:
        for job in jobs:
            before = self.by_job.get(job, seen)
            self.by_job[job] = before + (seen - before) / SMOOTHED
        self.believed = max(self.by_job.values())

    def hears(self, now_ns: int, client: int, seen: float) -> None:
        self.said.setdefault(client, _Said(seen)).hears(now_ns, seen)


class LinkRate:
    """Of one GPU."""

    def __init__(self, assumed: Link = ASSUMED) -> None:
        """assumed: the rates that hold until something has moved in their direction."""
        self._in, self._out = _Direction(assumed.in_bytes_per_s), _Direction(assumed.out_bytes_per_s)

    @property
    def link(self) -> Link:
        return Link(self._in.bytes_per_s, self._out.bytes_per_s)

    def of(self, client: int) -> Link:
        """For plans of a client."""
        return Link(self._in.of(client), self._out.of(client))

    def moved(self, jobs: Iterable[int], bytes_: int, took_ns: int, *, inward: bool) -> None:
        """A turn has moved so many bytes of these jobs (at least one) in took_ns, which is not 0. inward: to the GPU."""
        (self._in if inward else self._out).moved(jobs, _bounded(bytes_ / took_ns * 1e9))

    def keep_jobs(self, jobs: Container[int]) -> None:
        """Forgets other jobs. The rates that they showed hold until something moves."""
        for way in (self._in, self._out):
            way.by_job = {job: rate for job, rate in way.by_job.items() if job in jobs}

    def measured(self, client: int) -> tuple[float | None, float | None]:
        """What of `of` moves have shown, in and out; None: it is assumed."""
        return self._in.measured(client), self._out.measured(client)

    def said(self, now_ns: int, client: int, in_bytes_per_s: int, out_bytes_per_s: int) -> None:
        """The rates of its plan's moves that a client's shim reports; 0: none yet. The first rate of a direction counts at once."""
        for way, rate in ((self._in, in_bytes_per_s), (self._out, out_bytes_per_s)):
            if rate:
                way.hears(now_ns, client, _bounded(rate))

    def keep(self, clients: Container[int]) -> None:
        """Forgets what other clients reported."""
        for way in (self._in, self._out):
            way.said = {client: said for client, said in way.said.items() if client in clients}


def is_off(made_for: float, now: float) -> bool:
    return not made_for / OFF < now < made_for * OFF


def is_another(made_for: Link, now: Link) -> bool:
    """The links differ so much that a plan made for the one is made anew for the other."""
    return is_off(made_for.in_bytes_per_s, now.in_bytes_per_s) or is_off(made_for.out_bytes_per_s, now.out_bytes_per_s)


def _bounded(bytes_per_s: float) -> float:
    return min(max(bytes_per_s, LEAST), MOST)
