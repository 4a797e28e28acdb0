"""What a profile says of the memory that kernels touch, as people see it."""

from __future__ import annotations

from typing import Any

import pytest
from fikit.reporters import table
from fikit.stored import touched
from pictures import drawn, matches

GIB = 2**30
RATE = 24e9
STEPS = 20


def profile(pages: int = 2**18, steps: int = STEPS) -> dict[str, Any]:
    """Of a program whose launches each touch an allocation of their own, of 1 GiB."""
    found = {
        "path": "00000000000000aa", "length_ns": 25_000_000_000, "passes": 9, "kernels": ["0000000000000001"],
        "steps": [[0, 1_000_000_000, min(step % 10, 2)] for step in range(steps)],
        "touches": [[step, step, 0, 1] for step in range(steps) if step % 10],
    }  # fmt: skip
    return {"rhythm": {"accesses": {"version": 1, "pages": [pages] * steps, "iterations": [found]}}}


def test_it_looks_as_stored() -> None:
    found = touched.of(profile(), RATE)
    assert found is not None
    matches("touched.txt", drawn(table.touched(found, RATE)))


@pytest.mark.parametrize(
    ("stretch", "said"), [(0.0, "0.0 % longer"), (0.999, "99.9 % longer"), (1.0, "2.00 times as long"), (123.089, "124 times as long")]
)  # fmt: skip
def test_a_budget_that_makes_it_many_times_as_long_says_how_many_times(stretch: float, said: str) -> None:
    found = touched.of(profile(), RATE)
    assert found is not None
    found["budgets"] = [{**found["budgets"][0], "stretch": stretch}]
    assert f"of it on the GPU {said}, and " in drawn(table.touched(found, RATE))


def test_figures_are_those_of_the_plan() -> None:
    found = touched.of(profile(), RATE)
    assert found is not None
    assert (found["touched_bytes"], found["least_bytes"], found["launches"]) == (18 * GIB, GIB, STEPS)
    assert found["looked_at"] == 0.9
    assert [each["budget_bytes"] / found["touched_bytes"] for each in found["budgets"]] == pytest.approx(
        [0.7, 0.8, 0.9], abs=1e-4
    ), "whole chunks"
    assert all(each["moved_bytes"] > 0 for each in found["budgets"])


def test_where_nothing_is_known_or_it_is_too_much_nothing_is_said() -> None:
    assert touched.of({"rhythm": None}, RATE) is None
    assert touched.of({"rhythm": {"version": 1}}, RATE) is None
    assert touched.of(profile(pages=2**32 - 1), RATE) is None


def test_no_number_is_cut_on_a_narrow_terminal() -> None:
    found = touched.of(profile(), RATE)
    assert found is not None
    shown = drawn(table.touched(found, RATE), 60)
    assert "1.00 GiB" in shown
    assert "…" not in shown
