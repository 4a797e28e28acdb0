"""Turns of jobs whose memory does not fit together, in manual time: who runs, whose memory is wanted where, and that nobody is relied upon."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from fikitd.gpus.memory_turns import ALL, MemoryTurns, Process, Seen, Step, Want
from fikitd.gpus.residency import EpochRules, Link

GIB = 2**30
MS = 1_000_000
S = 1000 * MS
RULES = EpochRules(least_epoch_ns=30 * S, patience_ns=60 * S, max_wait_ns=300 * S)


@dataclass
class Gpu:
    """A GPU of 16 GiB with one process per job, which does what it is told at the rates of its link; or nothing at all (deaf)."""

    room: int
    deaf: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)  # they report just before nobody would wait for them any more
    turns: MemoryTurns = field(default_factory=lambda: MemoryTurns(RULES))
    jobs: dict[int, Seen] = field(default_factory=dict)
    now_ns: int = 0
    goals: dict[int, tuple[int, int]] = field(default_factory=dict)  # client: number and bytes
    ran_ns: dict[int, int] = field(default_factory=dict)
    nobody_ns: int = 0  # nobody ran
    link: Link = field(default_factory=Link)
    number: int = 0

    def add(self, job: int, bytes_: int, *, at_gate: bool = True, busy: bool = False) -> None:
        self.jobs[job] = Seen(job, [Process(job, bytes_, bytes_, 0, at_gate, busy, 0)], 64 * GIB)

    def change(self, job: int, **what: object) -> None:
        self.jobs[job] = replace(self.jobs[job], processes=[replace(self.jobs[job].processes[0], **what)])  # type: ignore[arg-type]

    def look(self) -> list[Want]:
        wants = self.turns.look(self.now_ns, self.room, 16 * GIB, list(self.jobs.values()))
        for want in wants:
            self.number += 1
            self.goals[want.client] = self.number, want.goal_bytes
            self.turns.told(want.client, self.number)
        return wants

    def pass_(self, seconds: float) -> None:
        for _ in range(round(seconds * 20)):
            self.look()
            away = self.turns.away(list(self.jobs.values()))
            self.nobody_ns += 50 * MS * (away >= self.jobs.keys())
            for job in self.jobs:
                if job not in away:
                    self.ran_ns[job] = self.ran_ns.get(job, 0) + 50 * MS
            self.now_ns += 50 * MS
            for client, (number, goal) in self.goals.items():
                if client in self.jobs and client not in self.deaf:
                    self._move(client, number, goal)

    def _move(self, client: int, number: int, goal: int) -> None:
        (process,) = self.jobs[client].processes
        goal = min(goal, process.movable_bytes)
        most_in, most_out = (round(rate * 0.05) for rate in (self.link.in_bytes_per_s, self.link.out_bytes_per_s))
        now = process.resident_bytes + max(-most_out, min(most_in, goal - process.resident_bytes))
        reports = now == goal and (client not in self.late or self.now_ns + 100 * MS >= self.turns._until_ns)
        self.change(client, resident_bytes=now, reached=number if reports else process.reached)

    def until(self, step: Step) -> None:
        for _ in range(4000):
            if self.turns.step is step:
                return
            self.pass_(0.05)
        raise AssertionError(f"never came to {step}")

    def running(self) -> set[int]:
        return set(self.jobs) - self.turns.away(list(self.jobs.values()))


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


def test_what_a_job_says_beyond_what_it_was_given_counts_for_nothing() -> None:
    gpu = Gpu(16 * GIB)
    gpu.add(1, 8 * GIB)
    gpu.jobs[2] = Seen(2, [Process(2, 2**53, 2**53, 0, True, False, 2**53)], 8 * GIB)
    gpu.pass_(10)
    assert gpu.running() == {1, 2}


def three(**first: bool) -> Gpu:
    """Of which one fits, and a part of another one beside it."""
    gpu = Gpu(10 * GIB)
    for job in (1, 2, 3):
        gpu.add(job, 8 * GIB, **first)
    gpu.pass_(200)
    return gpu


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
    gpu.jobs[1] = Seen(1, both, 64 * GIB)
    gpu.add(2, 8 * GIB)
    for _ in range(4000):
        if gpu.turns.step is Step.STOP:
            break
        gpu.look()
        gpu.now_ns += 50 * MS
    gpu.jobs[1] = Seen(1, [replace(both[0], busy=False), both[1]], 64 * GIB)
    gpu.now_ns += MS
    assert [want.client for want in gpu.look()] == [1]
    gpu.now_ns += 100 * MS
    gpu.jobs[1] = Seen(1, [replace(each, busy=False) for each in both], 64 * GIB)
    assert [want.client for want in gpu.look()] == [11]
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


def test_no_more_than_it_was_given_counts_as_being_there() -> None:
    liar = Seen(2, [Process(2, 2**53, 2**53, 0, True, False, 0)], 8 * GIB)
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
    assert Want(runs, ALL) in gpu.look()
    assert Want(runs, ALL) not in gpu.look(), "once"


def test_each_process_brings_and_keeps_by_what_it_has_enough_with() -> None:
    planned = Process(1, 8 * GIB, 8 * GIB, 0, True, False, 0, enough_bytes=4 * GIB)
    whole = Process(2, 2 * GIB, 2 * GIB, 0, True, False, 0)
    job = Seen(7, [planned, whole], 64 * GIB)
    assert (job.bytes, job.needed_bytes) == (10 * GIB, 6 * GIB)
    assert MemoryTurns._towards(job, ALL) == [Want(1, 4 * GIB), Want(2, 2 * GIB)]
    assert MemoryTurns._towards(job, 3 * GIB) == [Want(1, 2 * GIB), Want(2, GIB)]
    without = replace(job, processes=[replace(planned, enough_bytes=None), whole])
    assert MemoryTurns._towards(without, ALL) == [Want(1, ALL), Want(2, ALL)]
    assert MemoryTurns._towards(without, 5 * GIB) == [Want(1, 4 * GIB), Want(2, GIB)]
