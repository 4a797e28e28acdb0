"""What first uses cost: steps of programs that take memory anew, by a plan with them and by the same plan without, in turns. Live, emulated (live_plans.py)."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.residency import times
from bench.residency.budgets import row
from bench.residency.live_plans import BATCH, GPU_MIB, MIB, SLOWER, Bench, Low, Outcome
from bench.residency.live_script import Scaled, scaled
from bench.residency.placed import CHUNK

CASES: Final = (("VGG16", "known lifetimes"), ("ResNet50", "known lifetimes"))
PAIRS: Final = 3
STEPS: Final = 4
"""That a run counts at least, were each as long as three times its kernels."""
LEFT_OUT: Final = (
    "from fikitd._core import Dispatcher; from fikitd.base.protocol import COPY_NONE, PLAN_MOVE; whole = Dispatcher.set_plan; "
    "Dispatcher.set_plan = lambda self, client, first, launches, moves, until: whole(self, client, first, launches, "
    "b''.join(PLAN_MOVE.pack(*each) for each in PLAN_MOVE.iter_unpack(moves) if each[-1] != COPY_NONE), until); "
)


def rows(bench: Bench) -> Iterator[dict[str, Any]]:
    right: list[bool] = []
    for name, manner in CASES:
        of = scaled(name, BATCH, manner, GPU_MIB * MIB, bench.rates)
        seconds = STEPS * 3 * of.script.duration_ns * SLOWER / 1e9
        bench.measure(of)
        found: dict[str, list[Outcome]] = {"": [], LEFT_OUT: []}
        for _ in range(PAIRS):
            for left_out, outcomes in found.items():
                outcomes.extend(bench.run([Low(of, of.room_bytes)], of.room_bytes, seconds, left_out, waits=True).lows)
        right += [each.right for outcomes in found.values() for each in outcomes]
        yield from _rows_of_one(f"B: {name}, {manner}, first uses, 1 GiB, live, emulated", of, *found.values())
    yield row("B: first uses, live, emulated", "jobs whose buffers are all right", statistics.fmean(right), 1.0, at_least=True)  # fmt: skip


def _rows_of_one(label: str, of: Scaled, brought: Sequence[Outcome], left: Sequence[Outcome]) -> Iterator[dict[str, Any]]:  # fmt: skip
    kernels_s = of.script.duration_ns * SLOWER / 1e9
    touched = sum(len(use.touched) for use in of.case.program.uses) * CHUNK
    for how, outcomes in (("", brought), ("without its first uses: ", left)):
        steps = ", ".join(f"{each.step_s:.2f}" for each in outcomes)
        yield row(label, f"{how}step by its plan / its kernels' time", _step_s(outcomes) / kernels_s, note=f"{steps} s")
        missed = statistics.fmean(each.missed_bytes for each in outcomes)
        yield row(label, f"{how}bytes by page faults of those touched", missed / touched, note=f"{missed / MIB:.0f} MiB of a step")  # fmt: skip
    yield row(label, "step by its plan / without its first uses", _step_s(brought) / _step_s(left), 1.0)


def _step_s(outcomes: Sequence[Outcome]) -> float:
    return statistics.median(each.step_s for each in outcomes)


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="fikit-bench-") as directory:
        return list(rows(Bench(Path(directory), times.rates())))
