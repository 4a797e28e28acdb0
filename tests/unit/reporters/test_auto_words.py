"""What people are told of a job of --fikit-priority=auto."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from cli_samples import REPORT
from fikit.reporters import table
from fikit.wording import auto
from fikitd.api import report_format
from fikitd.jobs.auto_levels import State


def said(state: str, rest_s: float | None = 720.0, runs: int = 5) -> dict[str, Any]:
    return {"highest": 1, "lowest": 8, "state": state, "rest_s": rest_s, "runs": runs}


def test_every_state_has_its_own_sentence() -> None:
    assert get_args(State) == report_format.AUTO_STATES
    sentences = {auto.why(said(state)) for state in report_format.AUTO_STATES}
    assert len(sentences) == len(report_format.AUTO_STATES)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (said("ordered"), "auto, because its expected rest is 12 min (history of 5 runs)"),
        (said("ordered", 40, 1), "auto, because its expected rest is 40.0 s (history of 1 run)"),
        (said("unknown", None, 0), "auto, equal to the others with auto, because no earlier run of its name is known"),
    ],
)
def test_the_reason_is_a_figure(facts: dict[str, Any], words: str) -> None:
    assert auto.why(facts) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.5, "500 ms"), (40, "40.0 s"), (90, "1.5 min"), (5400, "1.5 h"), (36_000, "10 h"), (1e6, "12 d"), (None, "-")],
)
def test_times_are_those_of_jobs(seconds: float | None, words: str) -> None:
    assert auto.long_time(seconds) == words


def test_a_report_shows_it_and_one_of_before_has_none() -> None:
    record = {**REPORT, "auto": said("ordered")}
    assert report_format.checked({**record})["auto"] == said("ordered")
    normal = {**REPORT, "priority": 5, "priority_name": "normal"}
    assert str(table.priority({**normal, "auto": said("ordered")})) == "normal (5) auto"
    assert str(table.priority({**normal, "auto": "user"})) == "normal (5)"
    assert "auto" not in str(table.priority(REPORT))
    with pytest.raises(ValueError, match="state"):
        report_format.checked({**record, "auto": said("surely")})
