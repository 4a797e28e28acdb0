"""How fast kernels run beside each other on the emulated device: by hand-made cases, and against a second reckoning."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import SOURCES, cases_of, model_flags, run_case
from hypothesis import assume, given
from hypothesis import strategies as st
from model_scenario import FEW, Kernel, Scenario, scenarios

CASES = [
    "what_fits_together_runs_at_full_speed",
    "beyond_the_device_all_slow_in_proportion",
    "small_and_large_slow_alike",
    "many_changes_of_speed_lose_nothing",
    "overlap_slows_only_beside_another_process",
    "below_normal_gets_what_normal_leaves",
    "below_normal_does_not_begin_on_a_full_device",
    "resident_blocks_keep_their_places_for_a_block",
    "a_low_kernel_of_one_wave_keeps_its_places_to_its_end",
    "places_are_held_against_normal_kernels_alone",
    "a_process_runs_no_more_kernels_at_once_than_it_may",
    "at_most_128_kernels_run_at_once",
    "mps_clients_take_turns_with_others_as_one",
    "a_slice_is_as_long_as_its_process_weighs",
    "an_idle_process_yields_at_once_or_keeps_its_slice",
    "a_neighbours_death_gives_its_share_back",
    "repair_counts_what_runs",
]


@pytest.fixture(scope="module")
def overlap(cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_overlap.cpp", *model_flags(cc))


@pytest.mark.parametrize("case", CASES)
def test_kernels_beside_each_other_in_manual_time(overlap: Path, case: str) -> None:
    run_case(overlap, case)


def test_every_overlap_case_is_listed(overlap: Path) -> None:
    assert cases_of(overlap) == CASES


class Reckoning:
    """The same under MPS, simply: floats, and everything looked at anew whenever something happens."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._queues: list[list[Kernel]] = [[] for _ in scenario.streams]
        self._running: list[Kernel] = []
        self._now = 0.0

    def ends(self) -> list[float]:
        for kernel in self._scenario.kernels:
            kernel.left_ns = kernel.ns
            self._play(kernel.at_ns)
            self._queues[kernel.stream].append(kernel)
            self._start()
        self._play(math.inf)
        return [kernel.end_ns for kernel in self._scenario.kernels]

    def _owner(self, kernel: Kernel) -> int:
        return self._scenario.streams[kernel.stream]

    def _low(self, kernel: Kernel) -> bool:
        return self._scenario.priorities[self._owner(kernel)] != 0

    def _holds(self, kernel: Kernel) -> bool:
        against = any(not self._low(k) for k in self._running)
        return against and self._low(kernel) and kernel.held[1] > self._now

    def _start(self) -> None:
        heads = [q[0] for q in self._queues if q and all(k.stream != q[0].stream for k in self._running)]
        arrival = {id(k): i for i, k in enumerate(self._scenario.kernels)}
        for kernel in sorted(heads, key=lambda k: (self._low(k), arrival[id(k)])):
            if sum(self._owner(k) == self._owner(kernel) for k in self._running) >= self._scenario.concurrency:
                continue
            taken = sum(k.held[0] for k in self._running if self._holds(k))
            taken += sum(k.demand for k in self._running if not self._low(k))
            if self._low(kernel) and taken >= 1 - 1e-9:
                continue
            for other in self._running:
                if not self._low(kernel) and self._low(other) and other.share > 0:
                    other.held = (other.share, self._now + other.ns / other.waves)
            kernel.share = kernel.demand
            self._running.append(self._queues[kernel.stream].pop(0))
        self._share()

    def _share(self) -> None:
        first = [k for k in self._running if not self._low(k) or self._holds(k)]
        others = [k for k in self._running if k not in first]
        room = 1.0
        for served in (first, others):
            wants = [k.held[0] if self._holds(k) else k.demand for k in served]
            for kernel, wanted in zip(served, wants, strict=True):
                kernel.share = wanted * min(1.0, room / sum(wants))
            room = max(room - sum(wants), 0.0)

    def _speed(self, kernel: Kernel) -> float:
        beside = len({self._owner(k) for k in self._running if k.share > 1e-9}) > 1
        return kernel.share / kernel.demand / (self._scenario.slowdown if beside else 1.0)

    def _play(self, until_ns: float) -> None:
        while True:
            speeds = [(k, self._speed(k)) for k in self._running]
            # A kernel ends at a whole nanosecond.
            ends = [math.ceil(self._now + k.left_ns / speed - 1e-4) for k, speed in speeds if speed > 1e-9]
            frees = [k.held[1] for k in self._running if self._holds(k)]
            then = min([*ends, *frees, until_ns])
            if then == math.inf:
                return
            for kernel, speed in speeds:
                kernel.left_ns -= speed * (then - self._now)
            self._now = then
            for kernel in [k for k in self._running if k.left_ns <= 1e-4]:
                kernel.end_ns = then
                self._running.remove(kernel)
            self._start()
            if then == until_ns:
                return


@pytest.fixture(scope="module")
def scenario_program(cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_scenario.cpp", *model_flags(cc))


@FEW
@given(scenario=scenarios())
def test_kernels_end_when_a_second_reckoning_says(scenario_program: Path, scenario: Scenario) -> None:
    ends, accounts = scenario.played(scenario_program)
    expected = Reckoning(scenario).ends()
    # Each end may be rounded otherwise: what begins at nearly that moment may do so before it here and after it there.
    near_ns = 2 * len(scenario.kernels)
    assume(all(abs(k.at_ns - end_ns) > near_ns for k in scenario.kernels for end_ns in expected))
    for kernel, end_ns, expected_ns in zip(scenario.kernels, ends, expected, strict=True):
        assert abs(end_ns - expected_ns) <= len(scenario.kernels), (kernel, end_ns, expected_ns)
    for process, (busy_ns, work_ns) in enumerate(accounts):
        own = [k for k in scenario.kernels if scenario.streams[k.stream] == process]
        work = sum(k.ns * k.demand for k in own)
        assert abs(work_ns - work) <= 1  # every piece of work is done once
        assert busy_ns >= max((k.ns for k in own), default=0)
        assert work_ns <= busy_ns + 1  # nobody has more than the whole device
    # No device gives more than itself.
    assert sum(work for _, work in accounts) <= max(ends) + len(accounts)


@FEW
@given(scenario=scenarios())
def test_while_everything_fits_nobody_slows_anybody(scenario_program: Path, scenario: Scenario) -> None:
    scenario.slowdown = 1.0
    scenario.concurrency = 8
    for kernel in scenario.kernels:
        kernel.demand = 1 / 8
    free = [0] * len(scenario.streams)
    for kernel, end_ns in zip(scenario.kernels, scenario.played(scenario_program)[0], strict=True):
        free[kernel.stream] = max(free[kernel.stream], kernel.at_ns) + kernel.ns
        assert end_ns == free[kernel.stream]


@FEW
@given(scenario=scenarios())
def test_normal_clients_do_not_notice_low_ones_that_hold_nothing(scenario_program: Path, scenario: Scenario) -> None:
    """A low kernel of very many waves gives its places back at once: what normal ones do is as if they were alone."""
    for kernel in scenario.kernels:
        if scenario.priorities[scenario.streams[kernel.stream]] != 0:
            kernel.waves = 255
    scenario.slowdown = 1.0
    alone = Scenario(
        scenario.priorities,
        scenario.streams,
        [k for k in scenario.kernels if scenario.priorities[scenario.streams[k.stream]] == 0],
        concurrency=scenario.concurrency,
    )
    ends = dict(zip(map(id, scenario.kernels), scenario.played(scenario_program)[0], strict=True))
    block_ns = max(k.ns for k in scenario.kernels) // 255 + 1
    for kernel, end_ns in zip(alone.kernels, alone.played(scenario_program)[0], strict=True):
        late_ns = ends[id(kernel)] - end_ns
        assert -1 <= late_ns <= 4 * block_ns * len(alone.kernels) + 1


@FEW
@given(scenario=scenarios(), data=st.data())
def test_slices_give_each_process_its_work_and_nobody_time_twice(
    scenario_program: Path, scenario: Scenario, data: st.DataObject
) -> None:
    scenario.sharing = "slices"
    scenario.slice_ns = data.draw(st.sampled_from([0, 3_000, 20_000]))
    scenario.switch_ns = data.draw(st.sampled_from([0, 1_000]))
    scenario.mps = [data.draw(st.integers(0, 1)) for _ in scenario.priorities]
    ends, accounts = scenario.played(scenario_program)
    for process, (_, work_ns) in enumerate(accounts):
        work = sum(k.ns * k.demand for k in scenario.kernels if scenario.streams[k.stream] == process)
        assert abs(work_ns - work) <= 1
    # Only MPS clients are on the device together.
    outside = sum(busy for (busy, _), client in zip(accounts, scenario.mps, strict=True) if not client)
    inside = max((busy for (busy, _), client in zip(accounts, scenario.mps, strict=True) if client), default=0)
    assert outside + inside <= max(ends)
