"""Turns of jobs that need less than all of their memory: those whose plans have a budget, and those that report more than they have."""

from __future__ import annotations

from dataclasses import replace

from fikitd.gpus.memory_turns import ALL, Goal, MemoryTurns, MovableJob, Process, Step
from turned_gpu import GIB, Gpu


def test_what_a_job_says_beyond_what_it_was_given_counts_for_nothing() -> None:
    gpu = Gpu(16 * GIB)
    gpu.add(1, 8 * GIB)
    gpu.jobs[2] = MovableJob(2, [Process(2, 2**53, 2**53, 0, True, False, 2**53)], 8 * GIB)
    gpu.pass_(10)
    assert gpu.running() == {1, 2}


def test_no_more_than_it_was_given_counts_as_being_there() -> None:
    liar = MovableJob(2, [Process(2, 2**53, 2**53, 0, True, False, 0)], 8 * GIB)
    assert (liar.bytes, liar.resident_bytes) == (8 * GIB, 8 * GIB)


def test_jobs_whose_budgets_fit_run_at_the_same_time() -> None:
    gpu = Gpu(room=11 * GIB)
    gpu.add(1, 8 * GIB)
    gpu.add(2, 8 * GIB)
    gpu.pass_(1)
    assert len(gpu.turns.away(list(gpu.jobs.values()))) == 1
    for job in (1, 2):
        gpu.change(job, enough_bytes=5 * GIB)
    gpu.look()
    assert gpu.turns.step is Step.FITS
    assert gpu.turns.away(list(gpu.jobs.values())) == set()
    assert {goal for _, goal in gpu.goals.values()} == {5 * GIB}, "nobody is told to bring more than the job's budget"


def test_in_turns_a_job_needs_its_budget_and_no_more() -> None:
    gpu = Gpu(room=11 * GIB)
    for job in (1, 2, 3):
        gpu.add(job, 8 * GIB)
        gpu.change(job, enough_bytes=5 * GIB)
    gpu.look()
    away = gpu.turns.away(list(gpu.jobs.values()))
    assert len(away) == 1, "two of three budgets fit"
    gpu.pass_(40)
    assert gpu.turns.swaps >= 1
    assert all(goal <= 5 * GIB for _, goal in gpu.goals.values())


def test_one_that_comes_to_need_more_in_its_turn_says_so_to_its_shim() -> None:
    gpu = Gpu(10 * GIB)
    for job in (1, 2):
        gpu.add(job, 8 * GIB)
        gpu.change(job, enough_bytes=6 * GIB)
    gpu.until(Step.STOP)
    gpu.until(Step.RUN)
    (runs,) = gpu.running()
    gpu.pass_(1)
    assert gpu.jobs[runs].resident_bytes == 6 * GIB
    gpu.change(runs, enough_bytes=None)  # its plan is gone
    assert Goal(runs, ALL) in gpu.look()
    assert Goal(runs, ALL) not in gpu.look(), "once"


def test_each_process_brings_and_keeps_by_what_it_has_enough_with() -> None:
    planned = Process(1, 8 * GIB, 8 * GIB, 0, True, False, 0, enough_bytes=4 * GIB)
    whole = Process(2, 2 * GIB, 2 * GIB, 0, True, False, 0)
    job = MovableJob(7, [planned, whole], 64 * GIB)
    assert (job.bytes, job.needed_bytes) == (10 * GIB, 6 * GIB)
    assert MemoryTurns._towards(job, ALL) == [Goal(1, 4 * GIB), Goal(2, 2 * GIB)]
    assert MemoryTurns._towards(job, 3 * GIB) == [Goal(1, 2 * GIB), Goal(2, GIB)]
    without = replace(job, processes=[replace(planned, enough_bytes=None), whole])
    assert MemoryTurns._towards(without, ALL) == [Goal(1, ALL), Goal(2, ALL)]
    assert MemoryTurns._towards(without, 5 * GIB) == [Goal(1, 4 * GIB), Goal(2, GIB)]
