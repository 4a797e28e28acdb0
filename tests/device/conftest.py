"""For all tests with programs on the emulated GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from daemon_process import end_programs


@pytest.fixture(autouse=True)
def no_program_is_left() -> Iterator[None]:
    """Whatever became of the test."""
    yield
    end_programs()
