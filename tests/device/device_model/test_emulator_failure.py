"""Failing ops and lost devices in the device model, in manual time."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import SOURCES, model_flags

CASES = [
    "failing_op_drops_its_contexts_work",
    "slot_of_a_dead_context_serves_a_new_one",
    "lost_device_fails_everybody",
    "repair_finishes_the_killing_of_a_context",
]


@pytest.fixture(scope="module")
def model(cc: Callable[..., Path]) -> Path:
    return cc(SOURCES / "emu_failure.cpp", *model_flags(cc))


@pytest.mark.parametrize("case", CASES)
def test_failures_in_manual_time(model: Path, case: str) -> None:
    done = subprocess.run([model, case], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_failure_case_is_listed(model: Path) -> None:
    assert subprocess.run([model], capture_output=True, text=True, check=True).stdout.split() == CASES
