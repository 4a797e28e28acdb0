"""A timeline's pieces sum to what the trace says, whatever overlaps."""

from __future__ import annotations

import re

import pytest
from fikit.page import timeline
from fikit.page.timeline import PIECES
from fikit.stored.spans import union
from hypothesis import given
from hypothesis import strategies as st
from page_samples import MS, PARTNER, TRACE, launch, trace, wait

SPANS = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(-10, 3_000)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=40,
)


@given(SPANS, st.integers(1, 300))
def test_pieces_have_the_time_that_is_covered(spans: list[tuple[int, int]], pieces: int) -> None:
    covered = union((max(first, 2_000), min(last, 9_000)) for first, last in spans)
    instants = {instant for first, last in spans for instant in range(max(first, 2_000), min(last, 9_000))}
    assert sum(last - first for first, last in covered) == len(instants)
    found = timeline.shares(covered, 2_000, 9_000, pieces)
    assert all(0 <= share <= 1 for share in found)
    edges = [2_000 + 7_000 * number // pieces for number in range(pieces + 1)]
    for number, share in enumerate(found):
        inside = sum(edges[number] <= instant < edges[number + 1] for instant in instants) if number % 37 == 0 else None
        assert inside is None or share * (edges[number + 1] - edges[number]) == pytest.approx(inside)
    assert sum(share * (edges[n + 1] - edges[n]) for n, share in enumerate(found)) == pytest.approx(len(instants))


@given(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=1, max_size=60))
def test_an_outline_has_the_heights(heights: list[float]) -> None:
    drawn = [0.0] * len(heights)
    for first, top, last in re.findall(r"M(\d+) 10V([\d.]+)H(\d+)V10z", timeline.path(heights, 10)):
        drawn[int(first) : int(last)] = [1 - float(top) / 10] * (int(last) - int(first))
    assert drawn == pytest.approx(heights)


def test_lanes_are_the_jobs_its_partners_and_its_waits() -> None:
    (found,) = timeline.of(TRACE, {"18": PARTNER})
    assert (found.gpu, found.seconds, found.lost, found.unknown) == ("GPU-0", 0.1, 0, 1)
    assert [(lane.kind, lane.job, lane.seconds) for lane in found.lanes] == [
        ("own", "12", 0.06), ("partner", "18", 0.03), ("waited", "17", 0.01), ("waited", "12", 0.01), ("delayed", "18", 0.005), ("waited", None, 0.001),
    ]  # fmt: skip
    own, partner = found.lanes[0].shares, found.lanes[1].shares
    tenth = PIECES // 10
    assert own == [0] * tenth + [1] * 2 * tenth + [0] * 2 * tenth + [1] * 4 * tenth + [0] * tenth
    assert partner == [0] * 3 * tenth + [1] * 2 * tenth + [0] * 4 * tenth + [1] * tenth, (
        "what is outside of the job's own events is left out"
    )


def test_waits_for_others_memory_are_nobodys_work() -> None:
    (found,) = timeline.of(trace(launch(10, 5), wait(30, 10, 6, "run_ahead"), wait(50, 20, 6, "memory")), {})
    assert [(lane.kind, lane.job, lane.seconds) for lane in found.lanes[1:]] == [
        ("memory", None, 0.02),
        ("waited", "12", 0.01),
    ]


def test_each_gpu_has_its_own_and_partners_count_where_they_were() -> None:
    one, two = trace(launch(10, 5)), trace(launch(20, 5), gpu="GPU-1")
    both = {**one, "clients": one["clients"] + two["clients"]}
    first, second = timeline.of(both, {"18": trace(launch(19, 12), job="18", gpu="GPU-1")})
    assert [len(first.lanes), len(second.lanes)] == [1, 2]
    assert second.lanes[1].seconds == 0.004


def test_a_trace_without_time_has_no_picture() -> None:
    assert timeline.of(trace(), {}) == []
    assert timeline.of(trace(["drain", 5 * MS, 0, 0, 0, "none", None]), {}) == []


def test_a_trace_of_absurd_times_is_drawn_all_the_same() -> None:
    end = 2**63 - 1
    (found,) = timeline.of(
        trace(["launch", -end, end, end, 1, "none", None], wait(-5, 1, 99), ["wait", -end, end, 0, 1, "behind", None]),
        {},
    )
    assert all(0 <= share <= 1 for lane in found.lanes for share in lane.shares)


def test_of_many_partners_and_waits_the_longest_are_drawn() -> None:
    many = {str(number): trace(launch(90, number), job=str(number)) for number in range(20, 40)}
    (found,) = timeline.of(TRACE, many)
    assert [lane.job for lane in found.lanes if lane.kind == "partner"] == [str(number) for number in range(39, 31, -1)]
