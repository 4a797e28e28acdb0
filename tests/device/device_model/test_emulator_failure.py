"""Failing ops and lost devices in the device model, in manual time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import SOURCES, cases_of, model_flags, run_case

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
    run_case(model, case)


def test_every_failure_case_is_listed(model: Path) -> None:
    assert cases_of(model) == CASES
