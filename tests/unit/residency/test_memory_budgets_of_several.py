"""Budgets and plans of a job of several processes: how they have the room together, in manual time."""

from __future__ import annotations

from typing import Any

from budgeted_gpu import GIB, Gpu, asks, sends
from fikitd.gpus.memory_budgets import Drop
from fikitd.gpus.memory_outline import Point


def pair(room: int, **how: Any) -> Gpu:
    """A job of two processes with 8 GiB each."""
    gpu = Gpu(room=room, **how)
    gpu.add(1, job=7)
    gpu.add(2, job=7, path="b" * 16)
    return gpu


def test_each_process_of_a_job_has_a_plan_within_the_room() -> None:
    gpu = pair(13 * GIB)
    gpu.pass_(3)
    assert (gpu.budget(1), gpu.budget(2)) == (6 * GIB, 6 * GIB)
    assert {ask.room_bytes for ask in asks(gpu.actions)} == {13 * GIB // 2 - GIB // 8}, "half of 12.75 GiB each"
    gpu.pass_(10)
    assert len(sends(gpu.actions)) == 2, "and keeps it"


def test_shares_of_the_room_are_in_proportion_to_what_processes_have() -> None:
    gpu = Gpu(room=8 * GIB, tries_room=True)
    gpu.add(1, job=7, points=[Point(8 * GIB, 0.0, 0)])
    gpu.add(2, 4 * GIB, job=7, path="b" * 16, points=[Point(4 * GIB, 0.0, 0)])
    gpu.pass_(3)
    large, small = gpu.budget(1) or 0, gpu.budget(2) or 0
    assert 7 * GIB <= large + small <= 7.75 * GIB
    assert large == 2 * small


def test_a_job_that_is_alone_has_plans_whatever_they_cost() -> None:
    gpu = pair(int(10.5 * GIB))
    gpu.pass_(3)
    assert (gpu.budget(1), gpu.budget(2)) == (5 * GIB, 5 * GIB)


def test_a_process_that_does_not_iterate_has_all_of_its_memory_held_for_it() -> None:
    gpu = pair(15 * GIB)
    gpu.change(2, inside=None)
    gpu.pass_(3)
    assert (gpu.budget(1), gpu.budget(2)) == (6 * GIB, None)
    assert {ask.room_bytes for ask in asks(gpu.actions)} == {14 * GIB + 3 * GIB // 4 - 8 * GIB}
    gpu.room = 12 * GIB
    gpu.pass_(2)
    assert gpu.plans == {}, "the rest is less than any plan keeps"


def test_one_that_leaves_its_iteration_for_good_has_all_of_its_memory() -> None:
    gpu = pair(14 * GIB)
    gpu.pass_(3)
    assert (gpu.budget(1), gpu.budget(2)) == (7 * GIB, 6 * GIB)
    before = gpu.programs[2].inside
    gpu.change(2, inside=None)
    gpu.pass_(5)
    assert (gpu.budget(1), gpu.budget(2)) == (7 * GIB, None), "for a moment it may come back"
    gpu.pass_(6)
    assert (gpu.budget(1), gpu.budget(2)) == (5 * GIB, None)
    gpu.change(2, inside=before)
    gpu.pass_(2)
    assert (gpu.budget(1), gpu.budget(2)) == (7 * GIB, 6 * GIB)


def test_a_process_of_which_nothing_came_is_held_whole_and_asked_ever_more_rarely() -> None:
    gpu = pair(14 * GIB)
    gpu.answers["b" * 16] = None
    gpu.pass_(60)
    assert (gpu.budget(1), gpu.budget(2)) == (5 * GIB, None)
    assert 3 <= len([ask for ask in asks(gpu.actions) if ask.client == 2]) <= 7


def test_a_process_that_comes_and_one_that_ends_are_reasons_to_divide_anew() -> None:
    gpu = Gpu(room=int(14.5 * GIB))
    gpu.add(1, 20 * GIB, job=7, points=[Point(7 * GIB, 0.2, GIB), Point(14 * GIB, 0.1, GIB), Point(20 * GIB, 0.0, 0)])
    gpu.pass_(3)
    assert gpu.budget(1) == 14 * GIB
    gpu.add(2, job=7, path="b" * 16)
    gpu.pass_(3)
    assert (gpu.budget(1), gpu.budget(2)) == (7 * GIB, 7 * GIB)
    del gpu.programs[2], gpu.plans[2]
    gpu.pass_(3)
    assert gpu.budget(1) == 14 * GIB


def test_while_one_process_is_planned_again_the_plan_of_the_other_holds() -> None:
    gpu = pair(13 * GIB)
    gpu.pass_(3)
    begin = len(gpu.actions)
    gpu.deaf, gpu.stretch[1] = True, 0.6
    gpu.pass_(8)
    assert [ask.client for ask in asks(gpu.actions[begin:])] == [1]
    assert not [each for each in gpu.actions[begin:] if isinstance(each, Drop)]
    assert (gpu.budget(1), gpu.budget(2)) == (6 * GIB, 6 * GIB)


def test_beside_other_jobs_a_job_needs_what_its_processes_need_together() -> None:
    gpu = pair(int(19.5 * GIB))
    gpu.add(3, job=8, path="c" * 16)
    gpu.pass_(3)
    assert gpu.needs == {1: 6 * GIB, 2: 6 * GIB, 3: 6 * GIB}
    assert sum(gpu.budget(client) or 8 * GIB for client in (1, 2, 3)) <= 19.5 * GIB
    gpu = pair(int(13.5 * GIB), away={3})
    gpu.add(3, job=8, path="c" * 16)
    gpu.pass_(3)
    assert (gpu.budget(1), gpu.budget(2)) == (7 * GIB, 6 * GIB), "in its turn"
    gpu.away = {1, 2}
    gpu.pass_(3)
    assert gpu.needs == {1: 6 * GIB, 2: 6 * GIB, 3: 6 * GIB}
