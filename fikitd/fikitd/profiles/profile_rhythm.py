"""Where a program's host waits, as its profiles have it: checking what somebody wrote, and merging several (D10).

`slacks` says, for a position in the program (a hash of what was launched since the last wait, or of the last three kernels),
for how long the device would be idle between that launch and the end of the next wait; `segments`, for what is launched
between two waits, how long it and what follows takes (fikitd/core/predictor/rhythm.hpp). Times are sketches: [count, time,
...], up to eight equally probable times that stand for all, ascending. `runs` says, for a kernel after three others, how many
launches follow each other without a wait, and how much work they are (fikitd/core/predictor/runs.hpp). `accesses`, where there are any: which memory
what is launched touches (profile_accesses).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fikitd.profiles import profile_accesses

VERSION: Final = 1  # of the hashes; another one is as good as none
MAX_SLACKS: Final = 16_384
MAX_SEGMENTS: Final = 1_024
MAX_RUNS: Final = 16_384
MAX_LAUNCHES: Final = 2**32 - 1
TIMES: Final = 8
MAX_COUNT: Final = 2**53
MAX_NS: Final = 2**42 - 1  # what the core keeps of a time
PARTS: Final = ("span", "tail", "after", "next_slack", "idle")
_HEX16 = re.compile(r"[0-9a-f]{16}", re.ASCII)

Sketch = list[int]
Run = list[int]
Rhythm = Mapping[str, Any]


def checked(raw: Any) -> Rhythm | None:
    """`raw` within bounds, None where it says nothing that this version knows; ValueError says what is not within them."""
    if raw is None or (isinstance(raw, dict) and raw.get("version") != VERSION):
        return None
    if not isinstance(raw, dict):
        raise ValueError("rhythm is not an object")
    accesses = profile_accesses.checked(raw.get("accesses"))
    return {
        "version": VERSION,
        "slacks": {at: _sketch(sketch) for at, sketch in _hashes(raw.get("slacks"), "slacks", MAX_SLACKS)},
        "segments": {at: _segment(parts) for at, parts in _hashes(raw.get("segments"), "segments", MAX_SEGMENTS)},
        "runs": {at: _run(run) for at, run in _hashes(raw.get("runs", {}), "runs", MAX_RUNS)},
        **({} if accesses is None else {"accesses": accesses}),
    }


def _hashes(raw: Any, what: str, limit: int) -> Iterable[tuple[str, Any]]:
    if not isinstance(raw, dict) or len(raw) > limit or not all(map(_HEX16.fullmatch, raw)):
        raise ValueError(f"{what} of rhythm is not an object of at most {limit} entries with 16 hexadecimal digits")
    return raw.items()


def _segment(raw: Any) -> dict[str, Sketch]:
    if not isinstance(raw, dict):
        raise ValueError("a segment of rhythm is not an object")
    return {part: _sketch(raw[part], -MAX_NS if part == "after" else 0) for part in PARTS if part in raw}


def _sketch(raw: Any, lowest_ns: int = 0) -> Sketch:
    if not isinstance(raw, list) or not 2 <= len(raw) <= TIMES + 1 or any(type(number) is not int for number in raw):
        raise ValueError(f"a time of rhythm is not a count with one to {TIMES} integers")
    count, *times = raw
    if not len(times) <= count <= MAX_COUNT or not all(lowest_ns <= ns <= MAX_NS for ns in times):
        raise ValueError(f"a time of rhythm is not within 0 and {MAX_NS}, or its count is too small")
    return [count, *sorted(times)]


def _run(raw: Any) -> Run:
    if not isinstance(raw, list) or len(raw) != 2 or any(type(number) is not int for number in raw):
        raise ValueError("a run of rhythm is not a number of launches and a time")
    launches, ns = raw
    if not 1 <= launches <= MAX_LAUNCHES or not 0 <= ns <= MAX_NS:
        raise ValueError(
            f"a run of rhythm is not of 1 to {MAX_LAUNCHES} launches, or its time is not within 0 and {MAX_NS}"
        )
    return raw


def merge(rhythms: Iterable[Rhythm | None]) -> Rhythm | None:
    """What all of them say, in whatever order they come; None of none. Of more than fit in, the best known positions."""
    every = [rhythm for rhythm in rhythms if rhythm is not None]
    if not every:
        return None
    segments = _together(rhythm["segments"] for rhythm in every)
    merged = {
        at: {part: _merged(found) for part in PARTS if (found := [parts[part] for parts in same if part in parts])}
        for at, same in segments.items()
    }
    # As the core does within a run: the shorter run, and the longer work.
    runs = {
        at: [min(launches for launches, _ in same), max(ns for _, ns in same)]
        for at, same in _together(rhythm["runs"] for rhythm in every).items()
    }
    accesses = profile_accesses.merge(rhythm.get("accesses") for rhythm in every)
    slacks = {at: _merged(same) for at, same in _together(rhythm["slacks"] for rhythm in every).items()}
    return {
        "version": VERSION,
        "slacks": dict(sorted(slacks.items(), key=lambda entry: (-entry[1][0], entry[0]))[:MAX_SLACKS]),
        "segments": dict(sorted(merged.items())[:MAX_SEGMENTS]),
        "runs": dict(sorted(runs.items(), key=lambda entry: (-entry[1][0], entry[0]))[:MAX_RUNS]),
        **({} if accesses is None else {"accesses": accesses}),
    }


def _together(tables: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for table in tables:
        for at, entry in table.items():
            found.setdefault(at, []).append(entry)
    return found


def _merged(sketches: list[Sketch]) -> Sketch:
    """Up to eight times that stand for all: each one of a sketch for its share of the sketch's count."""
    if len(sketches) == 1:
        return sketches[0]
    weighted = sorted((ns, count / len(times)) for count, *times in sketches for ns in times)
    total = sum(count for count, *_ in sketches)
    kept = min(TIMES, total)
    chosen: Sketch = []
    before, rest = 0.0, iter(weighted)
    ns, weight = next(rest)
    for i in range(kept):
        middle = (2 * i + 1) / (2 * kept) * total
        while before + weight <= middle:
            before += weight
            ns, weight = next(rest, (ns, total))
        chosen.append(ns)
    return [min(total, MAX_COUNT), *chosen]
