"""Users without a job connect to fikitd without end: prolog, epilog and first launch go on, and nothing stays unmanaged."""

from __future__ import annotations

import os

import pytest

from bench.slurm import storm

TRIES = 3  # a machine that has something else to do at one moment may be slow by that
HOOKS = ("prolog", "launch", "epilog")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: other users' processes")
def test_storms_of_users_without_jobs_cost_others_a_bounded_time_and_no_program_its_management(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each at most twice as long as beside as many processes that only spin, and 50 ms more."""
    monkeypatch.setattr(storm, "TIMES", 3)
    slow: list[str] = []
    for _ in range(TRIES):
        values = storm.run(emulated=True, rounds=1).values
        assert values["unmanaged"] == 0
        assert values["log_lines_per_s"] < 10
        slow = [
            f"{hook}: {values}" for hook in HOOKS if values[f"storm_{hook}_ms"] > 2 * values[f"spinning_{hook}_ms"] + 50
        ]
        if not slow:
            return
    pytest.fail("; ".join(slow))
