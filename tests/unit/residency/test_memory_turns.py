"""Turns of jobs whose memory does not fit together, in manual time: who runs, for how long, and that no job depends on what another one does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fikitd.gpus.memory_turns import ALL, Step
from turned_gpu import GIB, Gpu


def test_jobs_that_fit_together_are_left_alone() -> None:
    gpu = Gpu(16 * GIB)
    gpu.add(1, 8 * GIB)
    gpu.add(2, 8 * GIB)
    gpu.pass_(100)
    assert gpu.running() == {1, 2}
    assert gpu.goals == {}


def test_two_that_do_not_fit_take_turns_and_no_more_than_a_tenth_is_lost() -> None:
    gpu = Gpu(10 * GIB)
    gpu.add(1, 8 * GIB)
    gpu.add(2, 8 * GIB)
    gpu.pass_(600)
    assert gpu.turns.swaps >= 15
    assert min(gpu.ran_ns.values()) > 0.4 * gpu.now_ns
    assert gpu.turns.moved_ns < 0.1 * gpu.now_ns
    assert all(gpu.jobs[job].resident_bytes == 8 * GIB for job in gpu.running())


def test_never_do_both_run_and_never_is_more_wanted_than_there_is_room() -> None:
    gpu = Gpu(10 * GIB)
    gpu.add(1, 8 * GIB)
    gpu.add(2, 8 * GIB)
    gpu.pass_(1)
    for _ in range(4000):
        gpu.pass_(0.05)
        assert len(gpu.running()) <= 1
        if gpu.turns.step is Step.RUN:
            assert sum(job.resident_bytes for job in gpu.jobs.values()) <= 10 * GIB + 4 * 2**20


@pytest.mark.parametrize("deaf", [{1}, {2}, {1, 2}])
def test_a_process_that_never_reports_gets_its_turn_and_keeps_nobody_from_his(deaf: set[int]) -> None:
    gpu = Gpu(10 * GIB, deaf=deaf)
    gpu.add(1, 8 * GIB)
    gpu.add(2, 8 * GIB)
    gpu.pass_(600)
    assert min(gpu.ran_ns.values()) > 0.35 * gpu.now_ns


def test_a_job_that_reports_as_late_as_it_may_is_not_waited_for_ever_longer() -> None:
    gpu = Gpu(10 * GIB, late={2})
    gpu.add(1, 8 * GIB)
    gpu.add(2, 8 * GIB)
    gpu.pass_(3000)
    assert gpu.turns.link.link.both_bytes_per_s > 18e9
    assert gpu.nobody_ns < 0.1 * gpu.now_ns
    assert min(gpu.ran_ns.values()) > 0.4 * gpu.now_ns


def test_work_that_never_ends_ends_no_turn_late() -> None:
    gpu = Gpu(10 * GIB)
    gpu.add(1, 8 * GIB, busy=True)
    gpu.add(2, 8 * GIB, busy=True)
    gpu.pass_(600)
    assert min(gpu.ran_ns.values()) > 0.4 * gpu.now_ns


def test_who_asks_for_nothing_is_no_reason_to_change_and_gives_way_at_once() -> None:
    gpu = Gpu(10 * GIB)
    gpu.add(1, 8 * GIB)
    gpu.add(2, 8 * GIB, at_gate=False)
    gpu.pass_(100)
    assert gpu.running() == {1}
    gpu.change(2, at_gate=True)
    gpu.change(1, at_gate=False)
    gpu.pass_(5)
    assert gpu.running() == {2}


def test_nobody_is_asked_to_move_who_is_not_at_his_gate() -> None:
    gpu = Gpu(10 * GIB)
    gpu.add(1, 8 * GIB, at_gate=False, busy=True)
    gpu.add(2, 8 * GIB, at_gate=False, busy=True)
    gpu.pass_(300)
    assert gpu.goals == {}
    assert min(gpu.ran_ns.values()) > 0.35 * gpu.now_ns


def test_with_a_third_that_fits_beside_one_two_run_at_a_time() -> None:
    gpu = Gpu(10 * GIB)
    for job, size in ((1, 5), (2, 5), (3, 5)):
        gpu.add(job, size * GIB)
    gpu.pass_(900)
    assert len(gpu.running()) == 2
    assert min(gpu.ran_ns.values()) > 0.45 * gpu.now_ns


def test_one_that_is_larger_than_the_room_has_its_turn_too() -> None:
    gpu = Gpu(6 * GIB)
    gpu.add(1, 8 * GIB)
    gpu.add(2, 4 * GIB)
    gpu.pass_(600)
    assert min(gpu.ran_ns.values()) > 0.3 * gpu.now_ns


def test_when_the_other_one_leaves_all_of_it_comes_back() -> None:
    gpu = Gpu(10 * GIB)
    gpu.add(1, 8 * GIB)
    gpu.add(2, 8 * GIB)
    gpu.pass_(40)
    (gone,) = gpu.running()
    del gpu.jobs[gone]
    (left,) = gpu.jobs
    gpu.pass_(2)
    assert gpu.running() == {left}
    assert gpu.goals[left][1] == ALL
    assert gpu.jobs[left].resident_bytes == 8 * GIB


def test_without_room_nobody_waits_for_nothing() -> None:
    gpu = Gpu(GIB // 2)
    gpu.add(1, 8 * GIB)
    gpu.add(2, 8 * GIB)
    gpu.pass_(10)
    assert gpu.running() == {1, 2}


def test_a_turn_that_was_cut_short_says_little_of_what_a_job_uses() -> None:
    used = {1: 0, 2: 0}
    gpu = Gpu(10 * GIB)
    for job in (1, 2):
        gpu.add(job, 8 * GIB)
        gpu.jobs[job] = replace(gpu.jobs[job], gpu_time_ns=lambda job=job: used[job])  # type: ignore[misc]
    gpu.pass_(1)
    (first,) = gpu.running()
    gpu.change(first, at_gate=False)
    gpu.until(Step.STOP)
    assert gpu.turns._known[first].work > 0.8


def test_three_equal_ones_of_which_two_fit_run_two_thirds_of_the_time_each() -> None:
    gpu = Gpu(10 * GIB)
    for job in (1, 2, 3):
        gpu.add(job, 5 * GIB)
    gpu.pass_(1800)
    assert min(gpu.ran_ns.values()) > 0.6 * gpu.now_ns


def first_of_two(*, at_gate: bool, busy: bool) -> Gpu:
    """The one whose turn it is looks like that; another one waits at its gate."""
    gpu = Gpu(10 * GIB)
    for job in (1, 2):
        gpu.add(job, 8 * GIB)
    gpu.pass_(1)
    (first,) = gpu.running()
    gpu.change(first, at_gate=at_gate, busy=busy)
    return gpu


def test_one_whose_work_is_on_the_device_keeps_its_turn_though_it_asks_for_nothing() -> None:
    gpu = first_of_two(at_gate=False, busy=True)
    before = gpu.running()
    gpu.pass_(10)
    assert gpu.running() == before


def test_one_that_launches_between_two_looks_keeps_its_turn() -> None:
    gpu = first_of_two(at_gate=False, busy=False)
    before = gpu.running()
    (first,) = before
    for launches in range(10):
        gpu.change(first, launches=launches + 1)
        gpu.pass_(1)
    assert gpu.running() == before
