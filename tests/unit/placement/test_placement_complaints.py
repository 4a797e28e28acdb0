"""What Slurm's commands complain of, in the words of fikit's own errors."""

from __future__ import annotations

import pytest
from fikit.placement import commands


@pytest.mark.parametrize(
    ("errors", "sentence"),
    [
        ("squeue: fatal: Could not establish a configuration source\n", "squeue: Could not establish a configuration source"),
        ("squeue: warning of before\nsqueue: error: Unable to contact slurm controller\n", "squeue: Unable to contact slurm controller"),
        ("slurm_load_jobs error: Invalid user id", "squeue: slurm_load_jobs error: Invalid user id"),
        ("squeue: \x1b[2J\n", "squeue: ?[2J"),
        ("", "squeue: it failed"),
    ],
)  # fmt: skip
def test_the_reason_is_said_once_and_by_whom(errors: str, sentence: str) -> None:
    assert commands._complaint("squeue", errors) == sentence
