"""The emulator's device model without any driver: in manual time, and killed at random moments."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import SOURCES, cases_of, model_flags, run_case

CASES = [
    "fifo",
    "slices_are_fair",
    "slice_preempts_long_kernel",
    "run_to_completion_blocks",
    "run_to_completion_alternates",
    "lone_slices_renew",
    "copies_run_beside_kernels",
    "waits_order_streams",
    "stream_priority_orders_ready_kernels",
    "host_function_holds_its_stream",
    "dead_process_frees_the_device",
    "earliest_end_is_a_lower_bound",
    "result_does_not_depend_on_when_one_looks",
    "repair_rebuilds_what_is_derived",
    "all_streams_are_looked_at_also_after_a_repair",
    "utilisation_is_of_the_sample_period",
    "manual_clock_moves_by_sleeping",
    "events_fire_before_an_idle_streams_kernel_is_submitted",
    "timed_events_in_line_keep_a_distance",
    "dependent_launch_overlaps_the_kernel_directly_before_it",
]


@pytest.fixture(scope="module")
def model(cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_model.cpp", *model_flags(cc))


@pytest.mark.parametrize("case", CASES)
def test_model_in_manual_time(model: Path, case: str) -> None:
    run_case(model, case)


def test_every_model_case_is_listed(model: Path) -> None:
    assert cases_of(model) == CASES


def test_device_survives_clients_killed_inside_its_lock(cc: Callable[..., Path]) -> None:
    program = cc(SOURCES / "emu_killed.cpp", *model_flags(cc))
    name = f"emucuda.0.killed-{uuid.uuid4().hex[:8]}.0"
    try:
        done = subprocess.run(
            [program, name, "200", "20261121"], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        Path("/dev/shm", name).unlink(missing_ok=True)
