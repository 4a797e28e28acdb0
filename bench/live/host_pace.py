"""How much longer the host of a program took for the same calls beside others, and what it takes between two requests: processors are
shared too, not only the GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

WORK = ("kernel", "copy_in", "copy_out", "fill")


def _own_ns(events: Sequence[Mapping[str, Any]], pid: int, waits_before: Sequence[bool], passes: bool) -> list[int]:
    """Of each piece of work: since the one before it was called, or, where the host waited meanwhile, since all was done.

    passes: also across the end of a pass.
    """
    own: list[int] = []
    called_ns = done_ns = None
    for event in events:
        if event["pid"] != pid or event["kind"] not in WORK:
            continue
        place = len(own) % len(waits_before)
        now_ns = int(event["enqueue_ns"])
        if called_ns is None or done_ns is None or (place == 0 and not passes):
            own.append(0)
        else:
            own.append(max(0, now_ns - (max(called_ns, done_ns) if waits_before[place] else called_ns)))
        called_ns = now_ns
        if event["end_ns"] is not None:
            done_ns = max(done_ns or 0, int(event["end_ns"]))
    return own


def turns_us(
    events: Sequence[Mapping[str, Any]], pid: int, begun_ns: int, requests: Sequence[tuple[int, int]], works: int
) -> list[float]:
    """From the end of each request to the first work of the next one, where that had arrived by then. requests: arrival and end,
    ns since begun_ns; works: pieces of work in each."""
    called = [int(event["enqueue_ns"]) for event in events if event["pid"] == pid and event["kind"] in WORK]
    return [
        max(0, called[number * works] - begun_ns - end_ns) / 1000
        for number, ((_, end_ns), (arrival_ns, _)) in enumerate(pairwise(requests), 1)
        if arrival_ns <= end_ns and number * works < len(called)
    ]


def longer_ns(
    alone: tuple[Sequence[Mapping[str, Any]], int],
    shared: tuple[Sequence[Mapping[str, Any]], int],
    waits_before: Sequence[bool],
    *,
    closed: bool,
) -> int:
    """Of a program that made the same calls in both runs: the device's record, and its pid there. waits_before: of a pass.

    Where its calls come while the device still works for it, nothing has to be later for that: it is at most so much.
    """
    first, second = (_own_ns(events, pid, waits_before, closed) for events, pid in (alone, shared))
    count = min(len(first), len(second))
    return sum(second[:count]) - sum(first[:count])
