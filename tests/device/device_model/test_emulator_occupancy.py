"""Which share of the emulated device a kernel takes, by its launch configuration."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import ROOT, SOURCES

CASES = [
    "a_block_of_1024_threads_takes_half_a_multiprocessor",
    "registers_limit_the_places",
    "shared_memory_limits_the_places",
    "a_multiprocessor_holds_32_small_blocks",
    "more_blocks_than_fit_take_the_whole_device_in_waves",
    "fewer_multiprocessors_bound_the_demand_and_take_more_waves",
    "what_is_not_known_takes_the_whole_device",
    "a_block_that_fits_nowhere_takes_a_multiprocessor",
    "small_fills_leave_room",
]


@pytest.fixture(scope="module")
def occupancy(cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_occupancy.cpp", "-std=c++20", f"-I{ROOT / 'emulator'}")


@pytest.mark.parametrize("case", CASES)
def test_demand_of_a_kernel(occupancy: Path, case: str) -> None:
    done = subprocess.run([occupancy, case], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_every_occupancy_case_is_listed(occupancy: Path) -> None:
    assert subprocess.run([occupancy], capture_output=True, text=True, check=True).stdout.split() == CASES
