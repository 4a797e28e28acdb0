"""How fast the link between one GPU and the host's memory is, in and out, one direction at a time: for turns and for plans. Pure.

The two directions are learnt apart: on an H200 memory comes in by 48 GB/s and goes out by 14 (docs/memory.md).

Two kinds of moves tell it. Those of a turn are timed by fikitd, which sees them reported as done. A job may report late, so the fastest job's count:
one that is late cannot make fikitd wait for it ever longer. Those of a plan are timed by the device between two
events, and a job's shim says what came of it: that is the job's own word, so it counts in the job's own plan, and in nobody else's.

A move that meets another one, of another process on the GPU, takes longer than the link would need for it alone, up to twice as long with two.
What a shim says goes up and down with that while nothing is different about the link. So another rate than the one that plans are made for counts
once its shim has held to it.
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
"""A plan that was made for a rate of either direction so many times as high, or as low, is made anew."""
SMOOTHED: Final = 4
STEADY_NS: Final = 10_000_000_000
"""So long a shim has to say another rate, off from the one that counts and not off from itself, before plans are made for it."""


@dataclass
class _Said:
    """By a client's shim. rate: what counts. another: what it says instead since since_ns; None: it says what counts, near enough."""

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
        """assumed: until something has moved in that direction."""
        self._in, self._out = _Direction(assumed.in_bytes_per_s), _Direction(assumed.out_bytes_per_s)

    @property
    def link(self) -> Link:
        return Link(self._in.bytes_per_s, self._out.bytes_per_s)

    def of(self, client: int) -> Link:
        """For plans of a client."""
        return Link(self._in.of(client), self._out.of(client))

    def moved(self, jobs: Iterable[int], bytes_: int, took_ns: int, *, inward: bool) -> None:
        """So many bytes of these jobs, at least one, were moved for a turn, in so long, which is not 0. inward: to the GPU."""
        (self._in if inward else self._out).moved(jobs, _bounded(bytes_ / took_ns * 1e9))

    def keep_jobs(self, jobs: Container[int]) -> None:
        """No others than these take turns any more. What was believed holds on until something moves."""
        for way in (self._in, self._out):
            way.by_job = {job: rate for job, rate in way.by_job.items() if job in jobs}

    def measured(self, client: int) -> tuple[float | None, float | None]:
        """What of `of` moves have shown, in and out; None: it is assumed."""
        return self._in.measured(client), self._out.measured(client)

    def said(self, now_ns: int, client: int, in_bytes_per_s: int, out_bytes_per_s: int) -> None:
        """By the client's shim, of its plan's moves; 0: nothing yet. The first word of a direction counts at once."""
        for way, rate in ((self._in, in_bytes_per_s), (self._out, out_bytes_per_s)):
            if rate:
                way.hears(now_ns, client, _bounded(rate))

    def keep(self, clients: Container[int]) -> None:
        """Of no others than these anything was said."""
        for way in (self._in, self._out):
            way.said = {client: said for client, said in way.said.items() if client in clients}


def is_off(made_for: float, now: float) -> bool:
    return not made_for / OFF < now < made_for * OFF


def is_another(made_for: Link, now: Link) -> bool:
    """A plan that was made for that link is made anew."""
    return is_off(made_for.in_bytes_per_s, now.in_bytes_per_s) or is_off(made_for.out_bytes_per_s, now.out_bytes_per_s)


def _bounded(bytes_per_s: float) -> float:
    return min(max(bytes_per_s, LEAST), MOST)
