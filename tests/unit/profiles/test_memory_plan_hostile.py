"""Plans of profiles that somebody has written who means no good: refused with a reason, or within bounds of time and memory."""

from __future__ import annotations

from typing import Any

import pytest
from fikitd.gpus.residency import Link, plan
from fikitd.profiles import memory_plan, profile_accesses
from fikitd.profiles.memory_plan import CHUNK_BYTES, allocations, coarse, iteration, planned, wire
from hypothesis import given
from hypothesis import strategies as st

MS = 1_000_000
PAGES = CHUNK_BYTES // 4096
LINK = Link(8e9)


def hostile(steps: int, pages: int) -> dict[str, Any]:
    """Each of the steps names all of the one allocation that is touched; another one as large is not."""
    found = {
        "path": "0" * 16, "length_ns": MS, "passes": 1, "kernels": ["0" * 16],
        "steps": [[0, 0, 1]] * steps, "touches": [[step, 0, 0, 1] for step in range(steps)],
    }  # fmt: skip
    return {"version": 1, "pages": [pages, pages], "iterations": [found]}


def test_launches_that_touch_more_than_is_kept_are_planned_in_larger_pieces_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_plan, "MOST_TOUCHES", 100)
    accesses = hostile(20, 8 * PAGES)  # 160 chunks, one after the other
    with pytest.raises(ValueError, match="touch more memory"):
        iteration(accesses)
    found = coarse(accesses)
    assert found is not None
    assert found.piece_bytes == 2 * CHUNK_BYTES
    with pytest.raises(ValueError, match="more launches and memory"):
        coarse(hostile(101, 8 * PAGES))


def test_of_memory_that_nobody_touches_no_more_moves_are_made_than_a_plan_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_plan, "PLAN_MOVES", 10)
    found = iteration({**hostile(1, PAGES), "pages": [PAGES, 2**32 - 1]})
    assert found is not None
    assert len(wire(found, plan(found.sequence, LINK, CHUNK_BYTES, found.peak_bytes))) == 11, "one too many: no plan"


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Of any size; most of them say nothing that cannot be."""
    sizes = st.integers(1, 3) | st.sampled_from([512, 5000, 2**20, 2**28, 2**32 - 1])
    times = st.sampled_from([0, 1, MS, 10**9, 2**42 - 1])
    counts = st.sampled_from([0, 1, 9, 2**32 - 1])
    pages = draw(st.lists(sizes, min_size=1, max_size=3))
    steps = draw(st.lists(st.tuples(st.just(0), times, counts).map(list), min_size=1, max_size=4))
    touches: dict[tuple[int, ...], list[int]] = {}
    for _ in range(draw(st.integers(1, 5))):
        step, allocation = draw(st.integers(0, len(steps) - 1)), draw(st.integers(0, len(pages) - 1))
        page = draw(st.integers(0, pages[allocation] - 1))
        length = draw(st.integers(0, pages[allocation] - page))
        touches[step, allocation, page, length] = [step, allocation, page, draw(counts), length]
    found = {
        "path": "0" * 16, "length_ns": draw(times), "passes": draw(counts), "kernels": ["0" * 16], "steps": steps,
        "touches": list(touches.values()),
    }  # fmt: skip
    return {"version": 1, "pages": pages, "iterations": [found]}


@given(documents())
def test_whatever_a_profile_says_is_refused_with_a_reason_or_planned(document: dict[str, Any]) -> None:
    try:
        accesses = profile_accesses.checked(document)
        assert accesses is not None
        found = coarse(accesses)
    except ValueError:
        return
    allocations(accesses)
    if found is None:
        return
    assert len(found.ranges) <= memory_plan.MOST_PIECES
    assert found.least_bytes <= found.peak_bytes
    assert all(each.begin + each.size <= accesses["pages"][each.allocation] * 4096 for each in found.ranges)
    made = planned(accesses, LINK, found.peak_bytes)
    assert made is None or len(made[1]) == 16 * made[0].moves <= 16 * memory_plan.PLAN_MOVES
