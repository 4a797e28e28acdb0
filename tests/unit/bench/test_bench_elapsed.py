"""bench elapsed: what the device's record says of a program, and the rows of pairs and arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from fikitd.simulation.device import MPS
from fikitd.simulation.simulator import Observed

from bench.live import elapsed
from bench.live import stages as live

S = 1_000_000_000


def run_of(work: Sequence[tuple[int, int, int]], jobs: int = 1) -> live.Run:
    """The first program's kernels: handed over, ended, and what they needed, in s from the run's begin, which is 1."""
    events = [
        {"pid": 7, "kind": "kernel", "enqueue_ns": (1 + enqueued) * S, "end_ns": (1 + ended) * S, "work_ns": needed * S}
        for enqueued, ended, needed in work
    ]
    others = [{"pid": 8, "kind": "kernel", "enqueue_ns": 0, "end_ns": 100 * S, "work_ns": 100 * S}]
    ids = [f"run-{number}-1" for number in range(jobs)]
    return live.Run([7, 8], S, Observed(0, [], 0, 0), events + others, ids)


def test_work_that_stands_on_the_device_for_longer_than_it_needs_is_delayed() -> None:
    seen = elapsed.Seen.of(run_of([(1, 3, 2), (2, 7, 2), (9, 10, 1)]))
    assert (seen.span_s, seen.stood_s) == (10, 2)


class Stage:
    """Every program takes 10 s, of which its device works for 8; beside others 2 s longer, which it waits."""

    def __init__(self) -> None:
        self.runs: list[list[live.Job]] = []

    def run(self, jobs: Sequence[live.Job], _device: Any) -> live.Run:
        self.runs.append(list(jobs))
        return run_of([(2, 10, 8)] if len(jobs) == 1 else [(4, 12, 8)], len(jobs))

    def report(self, _job: str) -> dict[str, Any]:
        parts = {
            "elapsed_s": 14.0,
            "alone_s": 10.0,
            "waited_s": 1.5,
            "delayed_s": 0.5,
            "host_s": 2.0,
            "unexplained_s": 0.0,
        }
        return {**parts, "host": {"late_s": 0.5}, "slowdown": 1.2, "kept": True}

    def learnt_before(self) -> Any:
        return nullcontext()


def test_tasks_of_an_array_are_as_important_and_the_first_ones_report_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()

    @contextmanager
    def fake(_directory: Path, *_options: Any) -> Iterator[Stage]:
        yield stage

    monkeypatch.setattr(live, "stage", fake)
    (row,) = elapsed.measure([], ["small"], "budget", 2.0, 4.0, MPS)
    tasks = stage.runs[-1]
    assert [task.requests is None for task in tasks] == [False, True, True]
    assert {tuple(task.options or ()) for task in tasks} == {("--priority", "low", "--profile", "small")}
    assert (row["job"], row["beside"]) == ("small", "2 tasks of its array")
    assert row["record"] == {"delayed": 0, "waited": 2, "alone": 10, "span": 12}
    assert row["error"] == pytest.approx({"delayed": 0.5 / 14, "waited": 0, "alone": 0.5 / 14})
    assert elapsed.table([row]).splitlines()[2].endswith("| 10.000 (10.000) | 1.20 | 3.6 % |")
