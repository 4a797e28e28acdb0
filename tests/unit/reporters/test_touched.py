"""What a profile says of the memory that kernels touch, as people see it."""

from __future__ import annotations

from typing import Any

import pytest
from fikit.api.link_rates import LinkRates
from fikit.reporters import table
from fikit.stored import touched
from fikitd.gpus.residency import Link
from fikitd.profiles import memory_plan
from pictures import drawn, matches

GIB = 2**30
LINK = Link(24e9)
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
    found = touched.of(profile(), LINK)
    assert found is not None
    matches("touched.txt", drawn(table.touched(found)))


@pytest.mark.parametrize(
    ("stretch", "said"), [(0.0, "0.0 % longer"), (0.999, "99.9 % longer"), (1.0, "2.00 times as long"), (123.089, "124 times as long")]
)  # fmt: skip
def test_a_budget_that_makes_it_many_times_as_long_says_how_many_times(stretch: float, said: str) -> None:
    found = touched.of(profile(), LINK)
    assert found is not None
    found["budgets"] = [{**found["budgets"][0], "stretch": stretch}]
    assert f"of it on the GPU {said}, and " in drawn(table.touched(found))


def test_figures_are_those_of_the_plan() -> None:
    found = touched.of(profile(), LINK)
    assert found is not None
    assert (found["touched_bytes"], found["least_bytes"], found["launches"]) == (18 * GIB, GIB, STEPS)
    assert found["looked_at"] == 0.9
    assert [each["budget_bytes"] / found["touched_bytes"] for each in found["budgets"]] == pytest.approx(
        [0.7, 0.8, 0.9], abs=1e-3
    ), "whole pieces"
    assert all(each["moved_bytes"] > 0 for each in found["budgets"])


def large(gib: int, launches: int) -> dict[str, Any]:
    """Of a program that goes through so much memory, of which each launch touches its part."""
    pages = gib * GIB // 4096 // launches
    found = profile(pages, launches)
    [iteration] = found["rhythm"]["accesses"]["iterations"]
    iteration["touches"] = [[step, step, 0, 1] for step in range(launches)]
    iteration["steps"] = [[0, 1_000_000, 2]] * launches
    return found


def test_much_memory_is_planned_in_larger_pieces_and_it_says_so() -> None:
    found = touched.of(large(40, 40), LINK, lambda: True)
    assert found is not None
    assert memory_plan.MOST_PIECES / 2 < found["touched_bytes"] // found["piece_bytes"] <= memory_plan.MOST_PIECES
    assert found["unplanned"] == []
    assert "planned in pieces of 16 MiB, at 24 GB/s (assumed):" in drawn(table.touched(found))


@pytest.mark.parametrize(("launches", "mib"), [(40, 16), (300, 16), (3000, 16), (8000, 2)])
def test_the_more_launches_the_larger_pieces_and_no_plan_of_too_many(launches: int, mib: int) -> None:
    found = touched.of(large(40, launches), LINK, lambda: launches < 100)
    assert found is not None
    assert found["piece_bytes"] == mib * 2**20
    assert (len(found["budgets"]), len(found["unplanned"])) == ((3, 0) if launches < 100 else (0, 3))
    assert len(found["allocations"]) == launches


def test_budgets_for_which_there_was_no_time_are_named() -> None:
    looks = iter([True, *[False] * 9])
    found = touched.of(large(8, 8), LINK, lambda: next(looks))
    assert found is not None
    assert [len(found["budgets"]), len(found["unplanned"])] == [1, 2]
    assert "with 6.40 GiB of it on the GPU: not planned, because plans take too long" in drawn(table.touched(found))


def test_where_nothing_is_known_or_it_is_too_much_nothing_is_said() -> None:
    assert touched.of({"rhythm": None}, LINK) is None
    assert touched.of({"rhythm": {"version": 1}}, LINK) is None
    assert touched.of(profile(pages=2**32 - 1), LINK) is None


def test_no_number_is_cut_on_a_narrow_terminal() -> None:
    found = touched.of(profile(), LINK)
    assert found is not None
    shown = drawn(table.touched(found), 60)
    assert "1.00 GiB" in shown
    assert "…" not in shown


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        (LinkRates(), "24 GB/s (assumed)"),
        (LinkRates(48.84e9, 13.9e9), "48.8 GB/s in and 13.9 GB/s out (measured on this node)"),
        (LinkRates(48.84e9, None), "48.8 GB/s in (measured on this node) and 24 GB/s out (assumed)"),
        (LinkRates(None, 9.2e9), "24 GB/s in (assumed) and 9.2 GB/s out (measured on this node)"),
    ],
)
def test_it_says_which_rates_of_the_link_were_measured(rates: LinkRates, said: str) -> None:
    found = touched.of(profile(), rates.link)
    assert found is not None
    assert f"at {said}:" in drawn(table.touched(found, rates), 160)
