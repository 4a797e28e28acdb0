"""A GPU's time in short pieces, from traces: what part of each a job's kernels, its waits and its partners' kernels take. Pure.

Kernels are as fikitd reckoned them (a launch's expected end and length), not as the device recorded them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

from fikit.stored.spans import LOWER_WORK, MEMORY, Span, union

PIECES: Final = 240
MOST_LANES: Final = 8  # of waits, and of partners; the least come together as one

Kind = Literal["own", "waited", "memory", "delayed", "partner"]


@dataclass(frozen=True)
class Lane:
    """kind and job: whose time; memory: waits for the memory of jobs that nobody names. shares: of each piece, 0 to 1. seconds: all of it."""

    kind: Kind
    job: str | None
    priority: int | None
    shares: Sequence[float]
    seconds: float


@dataclass(frozen=True)
class Timeline:
    """Of one GPU, from the first event that the trace has to the last. lost: events that it no longer has; unknown: launches of unknown length."""

    gpu: str
    seconds: float
    lanes: Sequence[Lane]
    lost: int
    unknown: int


def of(trace: Mapping[str, Any], partners: Mapping[str, Mapping[str, Any]]) -> list[Timeline]:
    """One for each GPU of the job, by its UUID. partners: traces of other jobs of the node, by job."""
    by_gpu: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for client in trace["clients"]:
        by_gpu[client["gpu"]].append(client)
    return [found for gpu, clients in sorted(by_gpu.items()) if (found := _timeline(gpu, clients, trace, partners))]


def _timeline(
    gpu: str, clients: Sequence[Mapping[str, Any]], trace: Mapping[str, Any], partners: Mapping[str, Mapping[str, Any]]
) -> Timeline | None:
    kernels, waits, unknown = _of_clients(clients, trace["others"])
    begin, end = _window([*kernels, *(span for spans in waits.values() for span in spans)])
    if end <= begin:
        return None

    def lane(kind: Kind, job: str | None, priority: int | None, spans: Iterable[Span]) -> Lane:
        covered = union((max(first, begin), min(last, end)) for first, last in spans)
        return Lane(kind, job, priority, shares(covered, begin, end), sum(b - a for a, b in covered) / 1e9)

    own = lane("own", str(trace["job"]), trace["priority"], kernels)
    waited = [lane(kind, job, priority, spans) for (kind, job, priority), spans in waits.items()]
    beside = [
        lane("partner", job, each["priority"], _of_clients([c for c in each["clients"] if c["gpu"] == gpu], {})[0])
        for job, each in partners.items()
    ]
    lanes = [own, *_longest(beside), *_longest(waited)]
    return Timeline(gpu, (end - begin) / 1e9, lanes, sum(client["lost"] for client in clients), unknown)


def _of_clients(
    clients: Iterable[Mapping[str, Any]], others: Mapping[str, Any]
) -> tuple[list[Span], dict[tuple[Kind, str | None, int | None], list[Span]], int]:
    """Kernels, waits by whom they are put down to, launches of unknown length."""
    kernels: list[Span] = []
    waits: dict[tuple[Kind, str | None, int | None], list[Span]] = defaultdict(list)
    unknown = 0
    for client in clients:
        for kind, t_ns, length_ns, end_ns, _, reason, by in client["events"]:
            if kind == "launch" and length_ns > 0 and end_ns > 0:
                kernels.append((end_ns - length_ns, end_ns))
            elif kind == "launch":
                unknown += 1
            elif kind == "wait" and length_ns > 0:
                waits[_put_down_to(reason, others.get(str(by), {}))].append((t_ns, t_ns + length_ns))
    return kernels, waits, unknown


def _put_down_to(reason: str, who: Mapping[str, Any]) -> tuple[Kind, str | None, int | None]:
    if reason == MEMORY:
        return "memory", None, None
    return "delayed" if reason == LOWER_WORK else "waited", who.get("job"), who.get("priority")


def _window(spans: Sequence[Span]) -> Span:
    return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else (0, 0)


def _longest(lanes: Sequence[Lane]) -> Iterator[Lane]:
    """Those with some time, the longest first; where there are too many, the rest is left out."""
    known = [lane for lane in lanes if lane.seconds > 0]
    yield from sorted(known, key=lambda lane: -lane.seconds)[:MOST_LANES]


def shares(covered: Iterable[Span], begin: int, end: int, pieces: int = PIECES) -> list[float]:
    """Of each of so many equal pieces of begin to end, the part that is covered, 0 to 1. covered: as union() gives it."""
    edges = [begin + (end - begin) * number // pieces for number in range(pieces + 1)]
    found = [0.0] * pieces
    piece = 0
    for first, last in covered:
        while piece + 1 < pieces and edges[piece + 1] <= first:
            piece += 1
        here = piece
        while here < pieces and edges[here] < last:
            width = edges[here + 1] - edges[here]
            if width > 0:
                found[here] += max(min(last, edges[here + 1]) - max(first, edges[here]), 0) / width
            here += 1
    return [min(share, 1.0) for share in found]


def path(heights: Sequence[float], height: float) -> str:
    """The outline of bars of width 1 as an SVG path, equal neighbours as one; "" where all are 0."""
    steps = [0, *(n + 1 for n, (one, other) in enumerate(pairwise(heights)) if one != other), len(heights)]
    bars = ((first, last, heights[first]) for first, last in pairwise(steps) if heights[first] > 0)
    return "".join(f"M{first} {height:g}V{height * (1 - share):.3g}H{last}V{height:g}z" for first, last, share in bars)
