"""What the demo's bench makes of the demos' summaries; the demos themselves are its runs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from cli_samples import SUMMARY

from bench.record import BenchError
from bench.slurm import demo


def summary(slowdown: float) -> dict[str, Any]:
    return SUMMARY | {"high_slowdown": slowdown}


def test_runs_within_the_promise_are_counted() -> None:
    told = demo.result([summary(1.02), summary(1.05), summary(1.051)], emulated=True, slurm=False)
    assert told.values == {"within": 2, "runs": 3, "median": 1.05, "most": 1.051, "reports": 12, "agree": 12}
    assert "12 of 12 reports agree with the clock within 2 %, at most 0.5 % apart" in told.summary
    assert "2 of 3 within 1.05" in told.summary
    assert "slices mode: 1,024 us, switch 50 us (assumed), emulated" in told.summary
    assert told.samples["high_default_sharing"] == [3.0] * 3


def test_reports_that_are_not_as_the_clock_says_are_counted() -> None:
    def apart(share: float | None) -> dict[str, Any]:
        return {"alone_s": 1.0, "shared_s": 1.0, "fikit_s": 1.0, "reports": {"fikit": {"apart": share}}}

    told = demo.result([SUMMARY | {"high": apart(-0.03), "low": apart(None)}], emulated=True, slurm=False)
    assert (told.values["reports"], told.values["agree"]) == (2, 0)
    assert "at most 3.0 % apart" in told.summary


def test_a_demo_that_measured_nothing_is_one_sentence_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.CompletedProcess([sys.executable], 1, "", "fikit: no room\n")
    monkeypatch.setattr(subprocess, "run", lambda *_args, **_options: ended)
    with pytest.raises(BenchError, match="measured nothing; it said: fikit: no room"):
        demo.run(emulated=True, runs=1)
