"""Are programs' results bit-equal with and without fikit, in time slices and by MPS? Digests of the results of the first requests.

Both programs of a pair compute at the same time, so that gates and slices are at work. The bare workers compute twice: a program whose
two bare results differ is not compared further.
"""

from __future__ import annotations

import time
from typing import Any

from bench.gpu.sharing.cells import Pair
from bench.gpu.sharing.crew import Worker
from bench.gpu.sharing.workers import Workers
from bench.record import BenchError

Found = dict[str, Any]
BARE = "bare"
KINDS = (BARE, "managed", "mps", "managed_mps")  # of workers
REQUESTS = 5
ANSWER_S = 30.0


def check(workers: Workers, pairs: tuple[Pair, ...], found: Found) -> None:
    """Fills `found`: {program: {kind of workers: {"equal", "digest"} or {"error"}}}. "bare" is equal where its second run equals its first."""
    first: dict[str, str] = {}
    for each in _apart(pairs):
        for name, answer in _digests(workers, BARE, each):
            if isinstance(answer, BenchError):
                found.setdefault(name, {})[BARE] = {"error": str(answer)}
            else:
                first.setdefault(name, answer)
    for kind in KINDS:
        for each in _apart(pairs):
            for name, answer in _digests(workers, kind, each):
                of_program = found.setdefault(name, {})
                if name in first and of_program.get(kind, {}).get("equal", True):
                    of_program[kind] = _compared(answer, first[name], None if kind == BARE else of_program.get(BARE))


def _apart(pairs: tuple[Pair, ...]) -> list[Pair]:
    """Pairs in which each program computes at least once."""
    highs, lows = (list(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
    most = max(len(highs), len(lows))
    return [(highs[i % len(highs)], lows[i % len(lows)]) for i in range(most)]


def _digests(workers: Workers, kind: str, pair: Pair) -> list[tuple[str, str | BenchError]]:
    """Both programs with their digests, computed at the same time; nothing where such workers are missing."""
    asked: list[tuple[str, Worker]] = []
    found: list[tuple[str, str | BenchError]] = []
    for role, name in zip(("high", "low"), pair, strict=True):
        worker = workers.find(f"{kind}.{role}")
        if worker is None or worker.broken:
            continue
        try:
            worker.tell({"do": "digest", "program": name, "requests": REQUESTS})
            asked.append((name, worker))
        except BenchError as error:
            found.append((name, error))
    for name, worker in asked:
        try:
            found.append((name, str(worker.answer(time.monotonic() + ANSWER_S)["digest"])))
        except BenchError as error:
            found.append((name, error))
    return found


def _compared(answer: str | BenchError, first: str, bare: Found | None) -> Found:
    if isinstance(answer, BenchError):
        return {"error": str(answer)}
    if bare is not None and not bare.get("equal"):
        return {"error": "the bare program's runs differ from each other", "digest": answer}
    return {"equal": answer == first, "digest": answer}
