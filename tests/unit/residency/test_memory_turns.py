"""Turns of jobs whose memory does not fit together, in manual time: who runs, whose memory is wanted where, and that nobody is relied upon."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from fikitd.gpus.memory_turns import ALL, MemoryTurns, Process, Seen, Step, Want
from fikitd.gpus.residency import EpochRules

GIB = 2**30
MS = 1_000_000
S = 1000 * MS
RULES = EpochRules(least_epoch_ns=30 * S, patience_ns=60 * S, max_wait_ns=300 * S)


@dataclass
class Gpu:
    """A GPU of 16 GiB with one process per job, which does what it is told at the link's rate; or nothing at all (deaf)."""

    room: int
    deaf: set[int] = field(default_factory=set)
    turns: MemoryTurns = field(default_factory=lambda: MemoryTurns(RULES))
    jobs: dict[int, Seen] = field(default_factory=dict)
    now_ns: int = 0
    goals: dict[int, tuple[int, int]] = field(default_factory=dict)  # client: number and bytes
    ran_ns: dict[int, int] = field(default_factory=dict)
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
        step = round(24e9 * 0.05)
        now = process.resident_bytes + max(-step, min(step, goal - process.resident_bytes))
        self.change(client, resident_bytes=now, reached=number if now == goal else process.reached)

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


@pytest.mark.parametrize("deaf", [{1}, {2}, {1, 2}])
def test_a_process_that_never_reports_gets_its_turn_and_keeps_nobody_from_his(deaf: set[int]) -> None:
    gpu = Gpu(10 * GIB, deaf=deaf)
    gpu.add(1, 8 * GIB)
    gpu.add(2, 8 * GIB)
    gpu.pass_(600)
    assert min(gpu.ran_ns.values()) > 0.35 * gpu.now_ns


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
