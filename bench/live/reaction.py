"""How soon a dispatcher reacted, and how well it knew whom lower work delayed: its own trace against the device's record."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

NEVER_NS = 1 << 62
ENOUGH = 20  # fewer say little
LONG_NS = 100_000  # whoever waits so much longer than the other waits for nothing else
ON_COMPUTE_ENGINE = ("kernel", "fill")


@dataclass(frozen=True)
class Reactions:
    """In us. `observe`: from a request to the first decision that knew of it. `wake`: from a grant to its launch. `done`: from
    the end of a kernel that the next one waited for to that one's grant, `late`: from the reckoned end of a higher job's work
    to the grant that waited for it alone: both only with a policy that waits for these moments, as `prio` does. `turn`, which is the
    high job's host's: from the end of a request to the first call of the next one, which waited already."""

    observe: list[float] = field(default_factory=list)
    wake: list[float] = field(default_factory=list)
    done: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    turn: list[float] = field(default_factory=list)

    def seen(self) -> dict[str, list[int]]:
        """For the simulator, in ns: all of them, for it matters that some take long. What was seen too seldom is left out."""
        return {
            name: [max(0, round(us * 1000)) for us in values]
            for name, values in asdict(self).items()
            if len(values) >= ENOUGH
        }


def together(runs: Iterable[Reactions]) -> Reactions:
    """The reactions of several runs."""
    seen = [asdict(run) for run in runs]
    return Reactions(*([us for run in seen for us in run[kind.name]] for kind in fields(Reactions)))


@dataclass(frozen=True)
class _Passage:
    """One launch through a closed gate; `held`: reasons in turn."""

    posted_ns: int
    decided_ns: int
    granted_ns: int
    launched_ns: int
    held: list[str]


def _passages(events: Sequence[Sequence[Any]]) -> Iterator[tuple[int, _Passage]]:
    """(number of the launch, from 0; its passage) of a client's trace."""
    launches = 0
    waits: list[Sequence[Any]] = []
    granted_ns: int | None = None
    for event in events:
        kind, t_ns = event[0], event[1]
        if kind == "wait" and event[5] != "lower_work":
            waits.append(event)
        elif kind == "grant":
            granted_ns = t_ns
        elif kind == "launch":
            if granted_ns is not None and waits:
                posted_ns, held = waits[0][1], [wait[5] for wait in waits if wait[5] != "reaction"]
                # The first decision ends the time that is the dispatcher's own.
                own = waits[0][5] == "reaction"
                decided_ns = min(posted_ns + waits[0][2], granted_ns) if own else posted_ns
                yield launches, _Passage(posted_ns, decided_ns, granted_ns, t_ns, held)
            launches += 1
            waits, granted_ns = [], None


def reactions(
    low: dict[str, Any] | None, high: dict[str, Any] | None, events: Sequence[dict[str, Any]], pid: int
) -> Reactions:
    """Of a low job under a high one: their `fikit trace` (of one client each), and the device's record of the low one's pid."""
    seen = Reactions()
    if low is None or high is None:
        return seen
    (mine,), (its,) = low["clients"], high["clients"]
    if mine["lost"] or its["lost"]:
        return seen
    kernels = [event for event in events if event["pid"] == pid and event["kind"] == "kernel"]
    above = [event for event in its["events"] if event[0] == "launch"]
    calls = [event[1] for event in above]
    for number, passage in _passages(mine["events"]):
        seen.observe.append((passage.decided_ns - passage.posted_ns) / 1000)
        seen.wake.append((passage.launched_ns - passage.granted_ns) / 1000)
        before_ns = kernels[number - 1]["end_ns"] if 0 < number < len(kernels) else None
        if before_ns is None:
            continue
        if passage.decided_ns < before_ns < passage.granted_ns and passage.held == ["run_ahead"]:
            seen.done.append((passage.granted_ns - before_ns) / 1000)
        newest = bisect_right(calls, passage.granted_ns) - 1
        reckoned_ns = above[newest][3] if newest >= 0 else -1
        alone = max(before_ns, passage.posted_ns) + LONG_NS < reckoned_ns
        if alone and passage.held == ["behind"] and passage.granted_ns >= reckoned_ns:
            seen.late.append((passage.granted_ns - reckoned_ns) / 1000)
    return seen


def busy_spans(events: Sequence[dict[str, Any]], pid: int) -> list[tuple[int, int]]:
    """When the compute engine worked for a program, in order."""
    ran = [event for event in events if event["pid"] == pid and event["kind"] in ON_COMPUTE_ENGINE]
    return sorted(
        (event["start_ns"], NEVER_NS if event["end_ns"] is None else event["end_ns"])
        for event in ran
        if event["start_ns"] is not None
    )


def delayed_ns(events: Sequence[dict[str, Any]], pid: int, lower: int, latency_ns: float) -> int:
    """For how long kernels of `pid` that had reached the device, `latency_ns` after their launch, stood there while work of
    `lower` ran. Fills are no launches: nobody reports them."""
    waited: list[tuple[int, int]] = []
    ran = (event for event in events if event["pid"] == pid and event["kind"] == "kernel")
    for event in sorted(ran, key=lambda event: int(event["enqueue_ns"])):
        if event["start_ns"] is None:
            continue
        begin = max(event["enqueue_ns"] + round(latency_ns), waited[-1][1] if waited else 0)
        if begin < event["start_ns"]:
            waited.append((begin, event["start_ns"]))
    return _overlap(waited, busy_spans(events, lower))


def _overlap(ones: list[tuple[int, int]], others: list[tuple[int, int]]) -> int:
    """Common length of two ordered lists of spans that do not overlap among themselves."""
    total, i, k = 0, 0, 0
    while i < len(ones) and k < len(others):
        total += max(0, min(ones[i][1], others[k][1]) - max(ones[i][0], others[k][0]))
        if ones[i][1] < others[k][1]:
            i += 1
        else:
            k += 1
    return total
