"""One change from a turn to the next, in manual time: its steps, which memory moves in each, and what of the time it took counts as lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fikitd.gpus.memory_turns import MovableJob, Process, Step
from fikitd.gpus.residency import Link
from turned_gpu import GIB, MS, Gpu, S, three


def test_each_direction_of_the_link_is_learnt_and_a_change_is_reckoned_by_both() -> None:
    """As on an H200, scaled by looks of 50 ms."""
    gpu = Gpu(10 * GIB, link=Link(24e9, 12e9))
    gpu.add(1, 8 * GIB)
    gpu.add(2, 8 * GIB)
    gpu.pass_(600)
    assert gpu.turns.link.link.in_bytes_per_s == pytest.approx(24e9, rel=0.15)
    assert gpu.turns.link.link.out_bytes_per_s == pytest.approx(12e9, rel=0.15)
    swap = gpu.turns.newest
    assert swap is not None
    assert swap.reckoned_ns - gpu.turns.beside_ns == pytest.approx(6 * GIB / 24 + 6 * GIB / 12, rel=0.2)


def test_what_comes_next_comes_while_the_old_ones_run_as_far_as_there_is_room() -> None:
    gpu = three()
    gpu.until(Step.CLEAR)
    (old,) = gpu.running()
    gpu.until(Step.STOP)
    assert gpu.running() == set()
    (kept,) = (job for job in gpu.jobs if job != old and gpu.jobs[job].resident_bytes)
    assert gpu.jobs[kept].resident_bytes == 2 * GIB
    gpu.until(Step.RUN)
    assert gpu.running() == {kept}
    assert gpu.turns.newest
    assert gpu.turns.newest.moved_bytes == 12 * GIB, "6 out and 6 in; all of it would be 16"


def test_room_that_nobody_made_is_not_filled_ahead_for_the_driver_would_take_it_from_those_who_run() -> None:
    gpu = three()
    gpu.until(Step.RUN)
    (old,) = gpu.running()
    (kept,) = (job for job in gpu.jobs if job != old and gpu.jobs[job].resident_bytes)
    gpu.deaf, before = {1, 2, 3}, dict(gpu.goals)
    gpu.until(Step.STOP)
    assert {job for job in gpu.jobs if gpu.goals.get(job) != before.get(job)} == {kept}


def test_each_process_moves_as_soon_as_its_own_work_has_ended() -> None:
    gpu = Gpu(10 * GIB)
    both = [Process(1, 4 * GIB, 4 * GIB, 0, True, True, 0), Process(11, 4 * GIB, 4 * GIB, 0, True, True, 0)]
    gpu.jobs[1] = MovableJob(1, both, 64 * GIB)
    gpu.add(2, 8 * GIB)
    for _ in range(4000):
        if gpu.turns.step is Step.STOP:
            break
        gpu.look()
        gpu.now_ns += 50 * MS
    gpu.jobs[1] = MovableJob(1, [replace(both[0], busy=False), both[1]], 64 * GIB)
    gpu.now_ns += MS
    assert [goal.client for goal in gpu.look()] == [1]
    gpu.now_ns += 100 * MS
    gpu.jobs[1] = MovableJob(1, [replace(each, busy=False) for each in both], 64 * GIB)
    assert [goal.client for goal in gpu.look()] == [11]
    assert gpu.turns.step is Step.STOP
    gpu.now_ns += MS
    gpu.look()
    assert gpu.turns.step is Step.OUT
    for process in both:
        assert gpu.turns._awaited[process.client] == gpu.goals[process.client][0]


@pytest.mark.parametrize(("comes_ms", "moves"), [(10, True), (30, False)])
def test_who_comes_to_its_gate_a_little_after_its_work_has_ended_moves_too(comes_ms: int, moves: bool) -> None:
    gpu = Gpu(10 * GIB)
    gpu.add(1, 8 * GIB, busy=True)
    gpu.add(2, 8 * GIB)
    gpu.until(Step.STOP)
    before = dict(gpu.goals)
    gpu.change(1, busy=False, at_gate=False)
    for ms in range(40):
        gpu.change(1, at_gate=ms >= comes_ms)
        gpu.now_ns += MS
        gpu.look()
    assert (gpu.goals.get(1) != before.get(1)) == moves


def test_time_in_which_granted_work_still_ran_is_not_lost() -> None:
    gpu = Gpu(10 * GIB)
    gpu.add(1, 8 * GIB, busy=True)
    gpu.add(2, 8 * GIB)
    gpu.until(Step.STOP)
    gpu.pass_(0.4)
    gpu.change(1, busy=False)
    gpu.until(Step.RUN)
    swap = gpu.turns.newest
    assert swap
    assert swap.stop_ns == pytest.approx(450 * MS, abs=60 * MS)
    assert swap.lost_ns == swap.took_ns - swap.stop_ns
    assert swap.lost_ns < 1 * S
    assert swap.after_ns == pytest.approx(30 * S, abs=1 * S)


def test_what_changes_took_beside_their_moves_counts_in_the_next_ones() -> None:
    """A job whose processes never say that they have moved: each change takes a second and more."""
    heard, deaf = three(), Gpu(10 * GIB, deaf={1})
    for job in (1, 2):
        deaf.add(job, 8 * GIB)
    deaf.pass_(900)
    assert heard.turns.beside_ns < 200 * MS
    assert deaf.turns.beside_ns > 500 * MS
    assert deaf.turns.newest
    assert deaf.turns.newest.reckoned_ns > deaf.turns.beside_ns * 0.9


def test_a_change_that_was_broken_off_does_not_cut_the_next_one_short() -> None:
    gpu = Gpu(10 * GIB)
    for job in (1, 2):
        gpu.add(job, 8 * GIB)
    gpu.until(Step.STOP)
    gpu.now_ns += MS
    assert gpu.look(), "the old one is told to move"
    (gone,) = gpu.jobs.keys() - gpu.turns.running
    left = gpu.jobs.pop(gone)
    gpu.pass_(40)
    gpu.jobs[gone] = left
    gpu.until(Step.STOP)
    gpu.look()
    gpu.now_ns += MS
    gpu.look()
    gpu.now_ns += MS
    gpu.look()
    assert gpu.turns.step is Step.OUT
    gpu.now_ns += 100 * MS
    gpu.look()
    assert gpu.turns.step is Step.OUT, "nobody has said that it is out"


def test_nobody_waits_for_the_moves_of_one_that_is_gone() -> None:
    gpu = three()
    gpu.until(Step.OUT)
    for client in gpu.turns._awaited:
        del gpu.jobs[client]
    gpu.now_ns += MS
    gpu.look()
    assert gpu.turns.step is Step.IN


def test_what_moves_faster_than_any_link_is_not_believed() -> None:
    gpu = Gpu(70 * GIB)
    for job in (1, 2):
        gpu.add(job, 64 * GIB)
    gpu.until(Step.OUT)
    for client, number in gpu.turns._awaited.items():
        gpu.change(client, resident_bytes=0, reached=number)
    gpu.now_ns += MS
    gpu.look()
    assert gpu.turns.step is Step.IN
    assert gpu.turns.link.link == Link(24e9, 200e9)


def test_what_a_job_has_on_the_gpu_beyond_its_need_is_no_free_room() -> None:
    """Live: 448 MiB were moved in a change that was reckoned at 256."""
    gpu = Gpu(10 * GIB)
    gpu.add(1, 8 * GIB)
    gpu.add(2, 8 * GIB)
    gpu.until(Step.STOP)
    gpu.until(Step.RUN)
    (runs,) = gpu.running()
    other = 3 - runs
    gpu.pass_(20)
    gpu.change(runs, enough_bytes=5 * GIB)
    before = gpu.jobs[other].resident_bytes
    gpu.until(Step.STOP)
    gpu.until(Step.RUN)
    assert gpu.running() == {other}
    assert gpu.turns.newest is not None
    assert gpu.turns.newest.moved_bytes == 2 * (8 - 2) * GIB, "it has 8 GiB there, and 2 are free or the other's"
    assert before == 2 * GIB


@pytest.mark.parametrize("launches", [0, 5])
def test_what_a_job_has_touched_in_its_turn_is_there_whatever_its_shim_says(launches: int) -> None:
    gpu = Gpu(10 * GIB)
    for job in (1, 2):
        gpu.add(job, 8 * GIB)
    gpu.until(Step.STOP)
    gpu.until(Step.RUN)
    (runs,) = gpu.running()
    gpu.deaf = {runs}
    gpu.change(runs, resident_bytes=5 * GIB, launches=launches)  # the rest comes by page faults
    gpu.until(Step.STOP)
    free = 2 if launches else 5
    assert gpu.turns._bytes(inward=True) == (8 - free) * GIB
