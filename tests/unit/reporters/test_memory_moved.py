"""What a job's report says in words of its memory on the host."""

from __future__ import annotations

import io
from typing import Any

import pytest
from cli_samples import MOVED, REPORT
from fikit.api import job_report, node_use
from fikit.live import lines
from fikit.reporters import top
from fikit.reporters.job_table import report
from fikit.wording import memory_moved, units
from fikitd.api.memory_story import MemoryPlan
from live_samples import shared
from node_looks import client, look
from rich.console import Console

GIB = 2**30

ALL = "peak 21.4 GiB, resident 7.90 GiB at most, moved 96.0 GiB in 40 turns, waited 189 ms for it (2.1 %), misses 0.4 %, the driver refused 2 moves"


def of(**moved: Any) -> str:
    return memory_moved.sentence({**MOVED, "moved": {**MOVED["moved"], **moved}}, 9.0)


def test_it_has_every_figure_with_its_unit() -> None:
    assert of() == ALL
    assert memory_moved.sentence(MOVED, None) == ALL.replace(" (2.1 %)", "")


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        ({"resident_peak_bytes": None}, "peak 21.4 GiB, moved 96.0 GiB"),
        ({"turns": 1, "failures": 0, "missed_bytes": 0}, "moved 96.0 GiB in 1 turn, waited 189 ms for it (2.1 %), misses 0.0 %"),
        (
            {"in_bytes": 0, "out_bytes": 0, "turns": 0, "moving_s": 0.0, "failures": 0, "missed_bytes": 0},
            "at most, nothing moved ahead of need",
        ),
    ],
)  # fmt: skip
def test_what_there_was_not_is_not_said(moved: dict[str, Any], said: str) -> None:
    assert said in of(**moved)


PLAN = {
    "budget_bytes": 5.2 * GIB, "peak_bytes": 8 * GIB, "moved_bytes_per_pass": 3.1 * GIB, "expected_loss": 0.02, "passes": 400, "skipped": 0,
}  # fmt: skip


def test_a_job_that_moved_its_memory_by_a_plan_says_so() -> None:
    said = memory_moved.sentence({**MOVED, "plan": PLAN}, 9.0)
    assert said == ALL + ", with a budget of 5.20 of 8.00 GiB, moved 3.10 GiB a pass in 400 passes"
    late = memory_moved.sentence({**MOVED, "plan": {**PLAN, "passes": 1, "skipped": 1200}}, 9.0)
    assert late.endswith(f"a pass in 1 pass, {units.count(1200)} moves too late")
    two = memory_moved.sentence({**MOVED, "plan": {**PLAN, "processes": 2, "skipped": 3}}, 9.0)
    assert two.endswith(
        "with a budget of 5.20 of 8.00 GiB, moved 3.10 GiB a pass in 400 passes of 2 processes, 3 moves too late"
    )
    memory = job_report.of({**REPORT, "memory": {**MOVED, "plan": PLAN}}).memory
    assert memory is not None
    assert memory.plan == MemoryPlan(**PLAN)  # type: ignore[arg-type]


def test_a_job_whose_memory_stays_on_the_gpu_has_no_such_line() -> None:
    assert memory_moved.sentence(REPORT["memory"], 9.0) == memory_moved.sentence({}, 9.0) == ""


def test_the_report_has_the_line_below_the_bar() -> None:
    console = Console(width=400, file=io.StringIO(), record=True)
    console.print(report({**REPORT, "memory": MOVED}))
    text = console.export_text()
    assert "21.4 GiB at most of 24.0 GiB (--fikit-mem and --fikit-mem-host)" in text
    assert text.index("GPU memory") < text.index(ALL) < text.rindex("profile")


def test_in_python_it_has_its_types() -> None:
    memory = job_report.of({**REPORT, "memory": MOVED}).memory
    assert memory is not None
    assert memory.moved is not None
    assert (memory.moved.turns, memory.moved.history[-1].moved_bytes) == (40, 96 * 2**30)
    plain = job_report.of(REPORT).memory
    assert plain is not None
    assert plain.moved is None


def test_fikit_top_says_what_is_on_the_gpu_now_where_a_job_has_memory_elsewhere() -> None:
    facts = {
        "memory_limit_bytes": 24 * GIB, "memory_on_gpu_bytes": 8 * GIB,
        "memory_plan": {"budget_bytes": 8 * GIB, "peak_bytes": 16 * GIB},
    }  # fmt: skip
    views = [
        look(
            at_s,
            client(1, "12", memory_bytes=9 * GIB, **facts),
            client(2, "12", memory_bytes=12 * GIB, **facts),
            client(3, "18"),
        )
        for at_s in (0, 1)
    ]
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(top.view(node_use.between(*views)))
    text = console.export_text()
    assert "21.0 GiB / 24.0 GiB, 8.00 GiB on the GPU, plan 8.00 of 16.0 GiB" in text
    assert text.count("on the GPU") == text.count("plan") == 1
    [live] = [one for gpu in shared(memory_on_gpu_bytes=2 * GIB).gpus for one in gpu.jobs if one.job == "18"]
    assert lines.memory(live) == "3.00 GiB, 2.00 GiB on the GPU"
    plan = {"budget_bytes": GIB // 2, "peak_bytes": 2 * GIB}
    [live] = [
        one for gpu in shared(memory_on_gpu_bytes=GIB, memory_plan=plan).gpus for one in gpu.jobs if one.job == "18"
    ]
    assert lines.memory(live) == "3.00 GiB, 1.00 GiB on the GPU, plan 512 MiB of 2.00 GiB"


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (0.099, ""), (0.1, ", 10 % longer"), (0.994, ", 99 % longer"), (1.0, ", 2.0 times as long"), (12.57, ", 13.6 times as long"),
    ],
)  # fmt: skip
def test_fikit_top_says_of_a_plan_that_costs_much_what_it_costs(loss: float, said: str) -> None:
    plan = {"budget_bytes": GIB // 2, "peak_bytes": 2 * GIB, "expected_loss": loss}
    looks = [look(at_s, client(1, "12", memory_on_gpu_bytes=GIB, memory_plan=plan)) for at_s in (0, 1)]
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(top.view(node_use.between(*looks)))
    assert f"plan 512 MiB of 2.00 GiB{said}  " in console.export_text()
    [live] = [
        one for gpu in shared(memory_on_gpu_bytes=GIB, memory_plan=plan).gpus for one in gpu.jobs if one.job == "18"
    ]
    assert lines.memory(live).endswith(f", plan 512 MiB of 2.00 GiB{said}")
