"""How room on a GPU is divided among jobs and their processes: the slowest process of a job is what the job loses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from fikitd.gpus.memory_division import MOST_LEVELS, Level, Option, divide, levels, shares
from fikitd.gpus.residency import share_room
from hypothesis import given
from hypothesis import strategies as st

OPTION = st.builds(Option, st.integers(0, 20), st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.3, 1.0]))
PROCESS = st.lists(OPTION, min_size=1, max_size=4)
JOB = st.lists(PROCESS, min_size=1, max_size=3)


def bytes_of(jobs: Sequence[Sequence[Sequence[Option]]], found: Sequence[Sequence[int]]) -> int:
    return sum(o.bytes for o in options_of(jobs, found))


def options_of(jobs: Sequence[Sequence[Sequence[Option]]], found: Sequence[Sequence[int]]) -> list[Option]:
    return [process[which] for job, of in zip(jobs, found, strict=True) for process, which in zip(job, of, strict=True)]


def test_shares_are_in_proportion_to_peaks_and_never_more() -> None:
    assert shares(6, [8, 4]) == [4, 2]
    assert shares(12, [8, 4]) == [8, 4]
    assert shares(100, [8, 4]) == [8, 4]
    assert shares(0, [8, 4]) == [0, 0]
    assert shares(5, []) == []


@given(st.integers(0, 2**50), st.lists(st.integers(0, 2**50), max_size=8))
def test_shares_fit_together(room: int, peaks: list[int]) -> None:
    found = shares(room, peaks)
    assert sum(found) <= room
    assert all(share <= peak for share, peak in zip(found, peaks, strict=True))
    assert sum(found) > min(room, sum(peaks)) - max(len(peaks), 1)


def test_of_two_equals_both_lose_a_little_and_not_one_all() -> None:
    process = [Option(4, 0.2), Option(6, 0.12), Option(8, 0.0)]
    assert levels([process, process]) == [Level(0.0, 16), Level(0.12, 12), Level(0.2, 8)]
    assert divide(12, [[process, process]]) == [[1, 1]], "as two jobs one would keep all, and the other lose most"
    assert share_room([[(o.bytes, o.lost) for o in process]] * 2, 12) in ([0, 2], [2, 0])


def test_what_is_left_goes_to_the_process_that_loses_most() -> None:
    large, small = [Option(4, 0.3), Option(8, 0.0)], [Option(1, 0.1), Option(2, 0.0)]
    assert divide(6, [[large, small]]) == [[0, 1]], "5 are needed, and with 6 the small one loses nothing"
    assert divide(9, [[large, small]]) == [[1, 0]]
    assert divide(10, [[large, small]]) == [[1, 1]]


def test_where_it_is_too_little_for_the_slowest_the_next_one_has_the_best_that_fits() -> None:
    slowest, next_, last = (
        [Option(4, 0.3), Option(9, 0.0)],
        [Option(4, 0.2), Option(5, 0.1), Option(6, 0.0)],
        [Option(4, 0.1), Option(6, 0.0)],
    )
    assert divide(14, [[slowest, last, next_]]) == [[0, 0, 2]]
    assert divide(15, [[slowest, last, next_]]) == [[0, 0, 2]], "the last one needs two more"
    assert divide(16, [[slowest, last, next_]]) == [[0, 1, 2]]


def test_a_bound_that_needs_no_less_is_no_level() -> None:
    assert levels([[Option(4, 0.1), Option(6, 0.2)]]) == [Level(0.1, 4)]


def test_what_cannot_fit_has_no_division() -> None:
    assert divide(7, [[[Option(4, 0.3)], [Option(4, 0.3)]]]) is None
    assert divide(-1, [[[Option(0, 0.0)]]]) == [[0]]
    assert divide(0, []) == []


def test_a_job_of_many_processes_has_few_levels() -> None:
    processes = [[Option(100 - i, i / 1000 + of / 1e6) for i in range(10)] for of in range(64)]
    found = levels(processes)
    assert len(found) == MOST_LEVELS
    assert found[-1].bytes == 64 * 91
    assert found == sorted(found)
    assert divide(64 * 91, [processes]) == [[9] * 64]


@given(JOB, st.integers(0, 60))
def test_no_other_division_of_a_jobs_room_makes_its_slowest_process_faster(job: list[list[Option]], room: int) -> None:
    all_ = [each for each in product(*job) if sum(o.bytes for o in each) <= room]
    found = divide(room, [job])
    if not all_:
        assert found is None
        return
    assert found is not None
    assert bytes_of([job], found) <= room
    slowest = max(o.lost for o in options_of([job], found))
    assert slowest == pytest.approx(min(max(o.lost for o in each) for each in all_))


@given(st.lists(PROCESS, min_size=1, max_size=4), st.integers(0, 60))
def test_jobs_of_one_process_share_as_ever(processes: list[list[Option]], room: int) -> None:
    jobs = [[process] for process in processes]
    as_ever = share_room([[(o.bytes, o.lost) for o in process] for process in processes], room)
    found = divide(room, jobs)
    assert (found is None) == (not as_ever)
    if found is not None:
        lost = sum(process[which].lost for process, which in zip(processes, as_ever, strict=True))
        assert sum(o.lost for o in options_of(jobs, found)) == pytest.approx(lost)
        assert bytes_of(jobs, found) <= room


@given(st.lists(JOB, max_size=3), st.integers(0, 100))
def test_whatever_there_is_fits(jobs: list[list[list[Option]]], room: int) -> None:
    found = divide(room, jobs)
    if found is not None:
        assert [len(of) for of in found] == [len(job) for job in jobs]
        assert bytes_of(jobs, found) <= room
    else:
        assert sum(min(o.bytes for o in process) for job in jobs for process in job) > room
