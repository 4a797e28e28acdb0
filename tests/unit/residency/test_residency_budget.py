"""The plan for a budget, against an independent check of every plan and brute force over all of them on small sequences."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import combinations, pairwise, product

import pytest
from fikitd.gpus.residency import (
    Again,
    BudgetPlan,
    Link,
    Sequence,
    least_bytes,
    peak_bytes,
    plan,
    plan_again,
    share_room,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from examples import examples

CASES = settings(max_examples=examples(int(os.environ.get("FIKIT_RESIDENCY_CASES", "200"))), deadline=None)
CHUNK = 1000  # bytes
FAST = Link(1e12)  # a chunk moves in 1 ns
chunks = st.integers(0, 5)


@dataclass(frozen=True)
class Kernel:
    duration_ns: int
    touched: frozenset[int]
    freed: frozenset[int] = frozenset()


kernels = st.builds(Kernel, st.integers(1000, 5000), st.frozensets(chunks, max_size=3))
freeing = st.builds(Kernel, st.integers(1000, 5000), st.frozensets(chunks, max_size=3), st.frozensets(chunks, max_size=1))  # fmt: skip
programs = st.lists(kernels, min_size=1, max_size=9)
freeing_programs = st.lists(freeing, min_size=1, max_size=9)
links = st.tuples(st.integers(100, 3000), st.integers(100, 3000))


def of_chunks(in_ns: int, out_ns: int) -> Link:
    """On which a chunk takes so long."""
    return Link(CHUNK / in_ns * 1e9, CHUNK / out_ns * 1e9)


def sequence(program: list[Kernel]) -> Sequence:
    found = Sequence()
    for kernel in program:
        found.add(kernel.duration_ns, sorted(kernel.touched), sorted(kernel.freed))
    return found


Away = tuple[int, int, int]
"""A chunk, and from when until when it is nowhere on the GPU."""


def gaps(program: list[Kernel]) -> list[tuple[int, int, int, bool]]:
    """(chunk, kernel that touches it, next one, unrolled; whether its content is needed) of every chunk."""
    found = []
    count = len(program)
    for chunk in sorted({chunk for kernel in program for chunk in kernel.touched}):
        at = [i for i, kernel in enumerate(program) if chunk in kernel.touched]
        for i, to in zip(at, [*at[1:], at[0] + count], strict=True):
            needed = not any(chunk in program[k % count].freed for k in range(i, to))
            found.append((chunk, i, to, needed))
    return found


def begins(program: list[Kernel]) -> list[int]:
    """Of every kernel of three iterations, and the end of the last."""
    found = [0]
    for kernel in program * 3:
        found.append(found[-1] + kernel.duration_ns)
    return found


def away(program: list[Kernel], found: BudgetPlan, out_ns: int) -> list[Away]:
    """By the plan's transfers, each out with the in that follows it; in the time of the iteration in which the chunk leaves."""
    period = begins(program)[len(program)]
    pieces = []
    for out in (each for each in found.transfers if not each.inward):
        ins = [(each.begin_ns - out.begin_ns) % period or period for each in found.transfers if each.inward and each.chunk == out.chunk]  # fmt: skip
        if ins:  # else it is freed before anybody needs it again, and counts as gone from its last use on (on_gpu)
            pieces.append((out.chunk, out.begin_ns + out_ns, out.begin_ns + min(ins)))
    return pieces


def on_gpu(program: list[Kernel], pieces: list[Away]) -> list[int]:
    """Chunks there, whenever that changes in the middle iteration."""
    start, count = begins(program), len(program)
    period = start[count]
    known = {chunk for kernel in program for chunk in kernel.touched}
    absent = [(chunk, out + turn, back + turn) for chunk, out, back in pieces for turn in (0, period)]
    for chunk, i, to, needed in gaps(program):
        if not needed:
            absent += [(chunk, start[i + 1] + turn, start[to] + turn) for turn in (0, period)]
    for k in range(count, 2 * count):
        for chunk, out, back in absent:
            assert chunk not in program[k - count].touched or back <= start[k] or start[k + 1] <= out
    moments = {period, *(at for _, out, back in absent for at in (out, back) if period <= at < 2 * period)}
    return [len(known) - sum(out <= at < back for _, out, back in absent) for at in sorted(moments)]


@CASES
@given(freeing_programs, st.integers(1, 6), links)
def test_a_plan_keeps_its_budget_and_every_kernel_finds_its_chunks(
    program: list[Kernel], budget: int, link: tuple[int, int]
) -> None:
    found = plan(sequence(program), of_chunks(*link), CHUNK, budget * CHUNK)
    assert found.fits == (budget * CHUNK >= least_bytes(sequence(program), CHUNK))
    assert not found.fits or found.peak_bytes <= budget * CHUNK
    assert found.moved_bytes == len(found.transfers) * CHUNK
    assume(found.stretch == 0 and found.steady)
    assert max(on_gpu(program, away(program, found, link[1]))) * CHUNK <= found.peak_bytes


@CASES
@given(programs, st.integers(1, 6), links)
def test_the_link_makes_one_transfer_at_a_time_also_into_the_next_iteration(
    program: list[Kernel], budget: int, link: tuple[int, int]
) -> None:
    found = plan(sequence(program), of_chunks(*link), CHUNK, budget * CHUNK)
    period = begins(program)[len(program)]
    at = [each.begin_ns for each in found.transfers]
    assert at == sorted(at)
    takes = [link[not each.inward] for each in found.transfers]
    assert all(b - a >= ns for (a, b), ns in zip(pairwise(at), takes, strict=False))
    assert found.stretch or not found.steady or not at or at[0] + period - at[-1] >= takes[-1]


@CASES
@given(programs, st.integers(1, 6), links)
def test_a_transfer_is_told_by_the_kernel_that_ended_before_it(
    program: list[Kernel], budget: int, link: tuple[int, int]
) -> None:
    found = plan(sequence(program), of_chunks(*link), CHUNK, budget * CHUNK)
    assume(found.stretch == 0)
    start = begins(program)
    for each in found.transfers:
        end = start[each.kernel + 1] if start[each.kernel + 1] <= each.begin_ns else 0
        assert each.begin_ns == end + each.delay_ns
        assert each.delay_ns <= program[(each.kernel + 1) % len(program)].duration_ns


def fewest_gaps(program: list[Kernel], budget: int) -> int | None:
    """Brute force, of a link that costs nothing: a chunk away is missing from the second kernel behind its use to the second before the next one,
    because it is still, or again, there while it moves."""
    needed = [gap for gap in gaps(program) if gap[3]]
    count = len(program)
    dead = [{k % count for k in range(i + 1, to)} for _, i, to, live in gaps(program) if not live]
    known = len({chunk for kernel in program for chunk in kernel.touched})
    least = [known - budget - sum(k in gone for gone in dead) for k in range(count)]
    for size in range(len(needed) + 1):
        for chosen in combinations(needed, size):
            covers = [{k % count for k in range(i + 2, to - 1)} for _, i, to, _ in chosen]
            if all(sum(k in cover for cover in covers) >= least[k] for k in range(count)):
                return size
    return None


@settings(CASES, max_examples=examples(100))
@given(st.lists(freeing, min_size=1, max_size=7), st.integers(1, 5))
def test_a_plan_is_found_wherever_there_is_one_and_moves_at_most_half_as_much_again(
    program: list[Kernel], budget: int
) -> None:
    found = plan(sequence(program), FAST, CHUNK, budget * CHUNK)
    fewest = fewest_gaps(program, budget)
    if fewest is not None:
        assert (found.fits, found.stretch) == (True, 0)
        assert 2 * fewest <= len(found.transfers) <= 3 * fewest


def there_and_back(layers: int, duration_ns: int = 1_000_000) -> list[Kernel]:
    """Forward through the layers and backward again, as training does."""
    order = [*range(layers), *reversed(range(layers))]
    return [Kernel(duration_ns, frozenset({layer})) for layer in order]


def test_what_is_needed_last_leaves_first() -> None:
    found = plan(sequence(there_and_back(6)), FAST, CHUNK, 5 * CHUNK)
    first = next(each for each in found.transfers if not each.inward)
    assert (first.chunk, first.kernel, first.delay_ns) == (0, 0, 0)
    back = next(each for each in found.transfers if each.inward and each.chunk == 0)
    assert back.begin_ns == 11_000_000 - 1


def test_a_chunk_is_back_so_much_before_its_use_as_the_lead_says() -> None:
    found = plan(sequence(there_and_back(6)), Link(1e12, lead_ns=500), CHUNK, 5 * CHUNK)
    assert next(each for each in found.transfers if each.inward and each.chunk == 0).begin_ns == 11_000_000 - 501


@pytest.mark.parametrize("in_ns", [1, 500_000])
def test_a_chunk_comes_back_as_late_as_the_way_in_allows_however_long_it_takes_out(in_ns: int) -> None:
    found = plan(sequence(there_and_back(6)), of_chunks(in_ns, 500_000 // in_ns), CHUNK, 5 * CHUNK)
    first = next(each for each in found.transfers if not each.inward)
    back = next(each for each in found.transfers if each.inward and each.chunk == first.chunk)
    assert (first.chunk, first.begin_ns, back.begin_ns) == (0, 1_000_000, 11_000_000 - in_ns)


def test_a_link_that_is_too_slow_one_way_costs_what_that_way_takes() -> None:
    program = sequence(there_and_back(40))
    both, inward, out = (plan(program, of_chunks(*ns), CHUNK, 20 * CHUNK).stretch for ns in ((6_000_000, 6_000_000), (6_000_000, 1), (1, 6_000_000)))  # fmt: skip
    assert inward == pytest.approx(both / 2, rel=0.3)
    assert out == pytest.approx(both / 2, rel=0.3)


def test_where_all_fits_nothing_moves() -> None:
    found = plan(sequence(there_and_back(6)), FAST, CHUNK, 6 * CHUNK)
    assert (found.transfers, found.fits, found.peak_bytes, found.stretch) == ([], True, 6 * CHUNK, 0)


def test_content_that_nobody_needs_leaves_without_a_transfer() -> None:
    kept = [Kernel(1000, frozenset({k})) for k in range(4)]
    dropped = [Kernel(1000, frozenset({k}), frozenset({k})) for k in range(4)]
    assert peak_bytes(sequence(kept), CHUNK) == 4 * CHUNK
    assert peak_bytes(sequence(dropped), CHUNK) == CHUNK
    assert plan(sequence(dropped), FAST, CHUNK, CHUNK).transfers == []


def test_what_is_freed_before_its_first_use_was_dead_since_the_last_one() -> None:
    program = [Kernel(1000, frozenset(), frozenset({0})), *there_and_back(3, 1000)]
    assert max(on_gpu(program, [])) == 3
    assert peak_bytes(sequence(program[:2]), CHUNK) == CHUNK


def test_a_link_that_is_too_slow_costs_a_stretch_and_more_of_it_the_slower_it_is() -> None:
    program = sequence(there_and_back(40))
    stretches = [plan(program, Link(CHUNK / ns * 1e9), CHUNK, 20 * CHUNK).stretch for ns in (1000, 1_500_000, 3_000_000, 6_000_000)]  # fmt: skip
    assert stretches[0] == 0
    assert 0 < stretches[1] < stretches[2] < stretches[3]
    # At each time 20 are away: the first layers around the turn, the last ones around the end, all of them out and in once.
    assert stretches[3] >= 40 * 2 * 6 / 80 - 1


def test_a_kernel_that_alone_needs_more_than_the_budget_leaves_no_plan_that_fits() -> None:
    program = sequence([Kernel(1000, frozenset({0, 1, 2})), Kernel(1000, frozenset({3})), Kernel(1000, frozenset({4}))])
    assert least_bytes(program, CHUNK) == 3 * CHUNK
    found = plan(program, FAST, CHUNK, 2 * CHUNK)
    assert not found.fits
    assert found.stretch == 0


def test_a_budget_is_rounded_down_to_whole_chunks() -> None:
    assert plan(sequence(there_and_back(6)), FAST, CHUNK, 6 * CHUNK - 1).transfers != []


observed = {"iteration_ns": 1000, "touched_bytes": 1000, "missed_bytes": 0, "budget_bytes": 64}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, Again.NO),
        ({"iteration_ns": 1300}, Again.NO),
        ({"iteration_ns": 1301}, Again.DRIFT),
        ({"iteration_ns": 700}, Again.NO),
        ({"iteration_ns": 699}, Again.DRIFT),
        ({"missed_bytes": 50}, Again.NO),
        ({"missed_bytes": 51}, Again.MISSES),
        ({"touched_bytes": 0}, Again.NO),
        ({"budget_bytes": 63}, Again.BUDGET),
    ],
)
def test_a_plan_is_made_anew_at_30_percent_of_drift_5_percent_of_misses_or_another_budget(
    changed: dict[str, int], why: Again
) -> None:
    assert plan_again(planned_iteration_ns=1000, planned_budget_bytes=64, **{**observed, **changed}) is why


points = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 100)), min_size=1, max_size=4)


@CASES
@given(st.lists(points, min_size=1, max_size=4), st.integers(0, 40))
def test_room_is_shared_so_that_least_is_lost(jobs: list[list[tuple[int, int]]], room: int) -> None:
    found = share_room(jobs, room)
    all_choices = product(*(range(len(job)) for job in jobs))
    costs = [
        sum(job[i][1] for job, i in zip(jobs, choice, strict=True)) for choice in all_choices
        if sum(job[i][0] for job, i in zip(jobs, choice, strict=True)) <= room
    ]  # fmt: skip
    if not costs:
        assert found == []
        return
    assert sum(job[i][0] for job, i in zip(jobs, found, strict=True)) <= room
    assert sum(job[i][1] for job, i in zip(jobs, found, strict=True)) == min(costs)


@pytest.mark.parametrize("jobs", [[[]], [[(-1, 0.0)]], [[(1, float("nan"))]]])
def test_budgets_that_cannot_be_are_refused(jobs: list[list[tuple[int, float]]]) -> None:
    with pytest.raises(ValueError, match="budget"):
        share_room(jobs, 1)


def test_sharing_room_among_many_jobs_is_bounded_work() -> None:
    jobs = [[(1 + (i * 7919 + p * 104729) % 10007, float((i * 31 + p * 17) % 1009)) for p in range(16)] for i in range(64)]  # fmt: skip
    found = share_room(jobs, 200_000)
    assert sum(job[i][0] for job, i in zip(jobs, found, strict=True)) <= 200_000


hostile_chunks = st.lists(st.integers(0, 2**32 - 1), max_size=8)


@CASES
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), hostile_chunks, hostile_chunks), max_size=8), st.integers(1, 2**40))  # fmt: skip
def test_a_sequence_out_of_a_forged_profile_is_refused_or_planned(
    program: list[tuple[int, list[int], list[int]]], budget: int
) -> None:
    found = Sequence()
    for duration_ns, touched, freed in program:
        try:
            found.add(duration_ns, touched, freed)
        except ValueError:
            assert not 0 <= duration_ns <= 3_600_000_000_000 - found.total_ns or max([*touched, *freed], default=0) >= 1 << 20  # fmt: skip
    assert found.chunks <= 1 << 20
    if found.total_ns > 0:
        assert plan(found, Link(), 2 << 20, budget).peak_bytes <= peak_bytes(found, 2 << 20)


def test_links_of_the_same_rates_are_equal() -> None:
    assert Link(2e9) == Link(2e9, 2e9) != Link(2e9, 1e9)
    assert Link(2e9).times(2) == Link(4e9)
    assert {Link(2e9), Link(2e9, 2e9)} == {Link(2e9)}
    assert Link(48e9, 12e9).both_bytes_per_s == pytest.approx(2 / (1 / 48e9 + 1 / 12e9))
    assert Link() != "a link"


@pytest.mark.parametrize(
    ("link", "chunk", "budget"),
    [(Link(0), CHUNK, CHUNK), (Link(1, lead_ns=-1), CHUNK, CHUNK), (Link(24e9, 0), CHUNK, CHUNK), (Link(), 0, CHUNK), (Link(), CHUNK, 0), (Link(float("nan")), CHUNK, 1)],
)  # fmt: skip
def test_a_plan_that_cannot_be_is_refused(link: Link, chunk: int, budget: int) -> None:
    with pytest.raises(ValueError, match=r"link|bytes"):
        plan(sequence(there_and_back(2)), link, chunk, budget)


def test_a_sequence_of_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="no time"):
        plan(Sequence(), FAST, CHUNK, CHUNK)
