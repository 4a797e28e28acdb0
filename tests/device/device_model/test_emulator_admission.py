"""Which kernels of MPS clients run at once on the emulated device that admits them by room: by cases, and against a second reckoning.

What was measured on an H200 stands in docs/measured.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from emulator_tools import SOURCES, cases_of, model_flags, run_case
from hypothesis import given
from hypothesis import strategies as st
from model_scenario import FEW, Kernel, Scenario, scenarios

CASES = [
    "halves_run_beside_each_other_at_full_speed",
    "full_kernels_of_two_clients_alternate",
    "a_small_kernel_waits_for_the_end_of_a_full_one",
    "the_first_that_does_not_fit_holds_up_those_behind",
    "a_long_queue_is_no_reason_to_go_first",
    "below_normal_is_admitted_behind_all_normal_ones",
    "a_low_kernel_leaves_for_a_normal_one_at_the_end_of_its_wave",
    "a_kernel_keeps_its_room_against_its_equals_and_in_its_last_wave",
    "nobody_leaves_where_room_comes_in_time",
    "overlap_slows_what_is_admitted_beside_another_process",
    "a_kernel_whose_neighbour_leaves_ends_no_sooner_than_was_said",
    "kernels_of_one_process_need_room_too",
    "demands_that_add_up_to_the_device_fit",
    "a_neighbours_death_makes_room",
    "clients_of_a_server_are_admitted_in_their_turn",
]


@pytest.fixture(scope="module")
def admission(cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_admission.cpp", *model_flags(cc))


@pytest.mark.parametrize("case", CASES)
def test_kernels_are_admitted_by_room_in_manual_time(admission: Path, case: str) -> None:
    run_case(admission, case)


def test_every_admission_case_is_listed(admission: Path) -> None:
    assert cases_of(admission) == CASES


@pytest.fixture(scope="module")
def scenario_program(cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_scenario.cpp", *model_flags(cc))


class Reckoning:
    """The same, nanosecond by nanosecond in which something happens; without slowdown by overlap, so that all times are whole."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._queues: list[list[Kernel]] = [[] for _ in scenario.streams]
        self._since: dict[int, int] = {}  # by kernel: at the head of its stream
        self._left: dict[int, int] = {}
        self._ends: dict[int, int] = {}  # of those that run
        self._now = 0

    def ends(self) -> list[int]:
        ends: dict[int, int] = {}
        coming = list(self._scenario.kernels)
        while coming or any(self._queues):
            moments = [self._ends[id(k)] for k in self._running()]
            moments += [self._wave_end(k) for k in self._running() if self._must_leave(k)]
            if coming:
                moments.append(coming[0].at_ns)
            self._now = max(self._now, min(moments))
            for kernel in [k for k in self._running() if self._ends[id(k)] == self._now]:
                ends[id(kernel)] = self._now
                del self._ends[id(kernel)]
                self._queues[kernel.stream].remove(kernel)
                self._head(kernel.stream)
            self._start()
            while coming and coming[0].at_ns == self._now:
                kernel = coming.pop(0)
                self._left[id(kernel)] = kernel.ns
                self._queues[kernel.stream].append(kernel)
                self._head(kernel.stream)
                self._start()
        return [ends[id(kernel)] for kernel in self._scenario.kernels]

    def _head(self, stream: int) -> None:
        if self._queues[stream]:
            self._since.setdefault(id(self._queues[stream][0]), self._now)

    def _running(self) -> list[Kernel]:
        return [q[0] for q in self._queues if q and id(q[0]) in self._ends]

    def _owner(self, kernel: Kernel) -> int:
        return self._scenario.streams[kernel.stream]

    def _low(self, kernel: Kernel) -> bool:
        return self._scenario.priorities[self._owner(kernel)] != 0

    def _first(self) -> Kernel | None:
        """In line: whose process may run one more."""
        running, order = self._running(), [id(k) for k in self._scenario.kernels]
        waiting = [q[0] for q in self._queues if q and id(q[0]) not in self._ends]
        may = [
            k for k in waiting if sum(self._owner(r) == self._owner(k) for r in running) < self._scenario.concurrency
        ]
        return min(may, key=lambda k: (self._low(k), self._since[id(k)], order.index(id(k))), default=None)

    def _must_leave(self, kernel: Kernel) -> bool:
        """At the end of its wave, if that is not its last one."""
        first = self._first()
        against = first is not None and not self._low(first) and not self._fits(first)
        return against and self._low(kernel) and self._wave_end(kernel) < self._ends[id(kernel)]

    def _wave_end(self, kernel: Kernel) -> int:
        """The next one; this moment, where one has just ended."""
        wave_ns, left_ns = kernel.ns // kernel.waves, self._ends[id(kernel)] - self._now
        if left_ns % wave_ns == 0 and left_ns < self._left[id(kernel)]:
            return self._now
        return self._now + (left_ns - 1) % wave_ns + 1

    def _fits(self, kernel: Kernel) -> bool:
        return sum(k.demand for k in self._running()) + kernel.demand <= 1

    def _start(self) -> None:
        while (first := self._first()) is not None:
            if not self._fits(first):
                leaving = [k for k in self._running() if self._must_leave(k) and self._wave_end(k) == self._now]
                for kernel in leaving:
                    self._left[id(kernel)] = self._ends.pop(id(kernel)) - self._now
                if leaving:
                    continue
                return
            self._ends[id(first)] = self._now + self._left[id(first)]


@FEW
@given(scenario=scenarios())
def test_admitted_kernels_end_when_a_second_reckoning_says(scenario_program: Path, scenario: Scenario) -> None:
    scenario = replace(scenario, slowdown=1.0, mps_model="admission")
    ends, accounts = scenario.played(scenario_program)
    assert ends == Reckoning(scenario).ends()
    for process, (_, work_ns) in enumerate(accounts):
        work = sum(k.ns * k.demand for k in scenario.kernels if scenario.streams[k.stream] == process)
        assert abs(work_ns - work) <= 1  # every piece of work is done once


@FEW
@given(scenario=scenarios())
def test_a_device_whose_kernels_fill_it_is_never_idle_while_one_waits(
    scenario_program: Path, scenario: Scenario
) -> None:
    """Whoever goes first and whoever leaves for whom: all is over when one queue would be."""
    scenario = replace(scenario, slowdown=1.0, mps_model="admission")
    free_ns = 0
    for kernel in scenario.kernels:
        kernel.demand = 1.0
        free_ns = max(free_ns, kernel.at_ns) + kernel.ns
    assert max(scenario.played(scenario_program)[0]) == free_ns


@FEW
@given(scenario=scenarios(), share=st.sampled_from([0.001, 0.1, 0.125]))
def test_while_everything_fits_both_models_say_the_same(
    scenario_program: Path, scenario: Scenario, share: float
) -> None:
    for kernel in scenario.kernels:
        kernel.demand = share  # of eight kernels
    scenario = replace(scenario, concurrency=8)
    admitted = replace(scenario, mps_model="admission")
    assert admitted.played(scenario_program) == scenario.played(scenario_program)


@FEW
@given(scenario=scenarios())
def test_a_normal_client_waits_for_low_ones_no_longer_than_a_wave(scenario_program: Path, scenario: Scenario) -> None:
    """For each of its kernels, and for all that were before it."""
    kernels = [k for k in scenario.kernels if scenario.priorities[scenario.streams[k.stream]] == 0]
    wave_ns = max(-(-k.ns // k.waves) for k in scenario.kernels) + 1
    scenario = replace(scenario, slowdown=1.0, mps_model="admission")
    ends = dict(zip(map(id, scenario.kernels), scenario.played(scenario_program)[0], strict=True))
    serial_ns = 0
    for number, kernel in enumerate(kernels, 1):
        serial_ns = max(serial_ns, kernel.at_ns) + kernel.ns
        assert ends[id(kernel)] <= serial_ns + number * wave_ns
