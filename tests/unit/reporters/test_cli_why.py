"""`fikit report` in words: why a job waited, and what delayed it on the GPU."""

from __future__ import annotations

from typing import Any

import pytest
from cli_samples import REPORT
from fikit.wording.wait_phrases import PHRASES, delayed, why
from fikitd._core import REASONS


def held(reason: str = "behind", total_s: float = 0.39, **facts: Any) -> dict[str, Any]:
    return {
        "reason": reason, "job": "17", "priority": 1, "kernel": "", "p90_us": None, "total_s": total_s, "count": 3, **facts,
    }  # fmt: skip


def told(*entries: dict[str, Any]) -> list[str]:
    return why({**REPORT, "wait_reasons": list(entries)})


def test_every_reason_has_its_words() -> None:
    assert set(PHRASES) == set(REASONS) - {"lower_work"}, "lower work is told under `delays`"


def test_the_longest_three_and_the_rest_as_one_sum() -> None:
    assert told(*(held(total_s=s, job=str(s)) for s in (0.5, 0.4, 0.3, 0.2, 0.1))) == [
        "500 ms behind job 0.5 (priority 1)",
        "400 ms behind job 0.4 (priority 1)",
        "300 ms behind job 0.3 (priority 1)",
        "300 ms for 2 other reasons (--json has them all)",
    ]


@pytest.mark.parametrize(("waited_s", "unseen"), [(0.5, ["110 ms"]), (0.393, []), (0.0, [])])
def test_waiting_that_has_no_reason_is_told(waited_s: float, unseen: list[str]) -> None:
    lines = why({**REPORT, "wait": {**REPORT["wait"], "total_s": waited_s}, "wait_reasons": [held()]})
    because = " that fikitd did not see: it was late, or several threads waited at once"
    assert lines == ["390 ms behind job 17 (priority 1)", *(total + because for total in unseen)]


def test_four_reasons_are_all_told() -> None:
    assert len(told(*(held(total_s=0.1, job=str(n)) for n in range(4)))) == 4


@pytest.mark.parametrize(("entry", "sentence"), [
    (held(), "390 ms behind job 17 (priority 1)"),
    (held("does_not_fit", 0.022, kernel="x", p90_us=5700.0),
     "22.0 ms because its kernel `x` (p90 5.70 ms) did not fit what job 17 (priority 1) could spare"),
    (held("budget_spent", kernel="x", p90_us=12.0),
     "390 ms because the slowdown budget of job 17 (priority 1) did not cover its kernel `x` (p90 12.0 µs)"),
    (held("turn"), "390 ms because it was the turn of job 17 (priority 1)"),
    (held("run_ahead"), "390 ms until kernels of job 17 (priority 1) were done"),
    (held("run_ahead", job="12"), "390 ms until its own earlier kernels were done"),
    (held("unknown", kernel="x"), "390 ms because nobody knew how long its kernel `x` would run"),
    (held("uncertain"), "390 ms because nobody could tell how far job 17 (priority 1) was"),
    (held("uncertain", job="12"), "390 ms because nobody could tell how far its own earlier kernels were"),
    (held("limit"), "390 ms because launches beside job 17 (priority 1) are rationed"),
    (held("reaction", job="12"), "390 ms for fikit's own reaction"),
    (held("behind", job=None, priority=None), "390 ms behind another job"),
    (held("of a newer fikitd"), "390 ms for reason of a newer fikitd"),
])  # fmt: skip
def test_sentence(entry: dict[str, Any], sentence: str) -> None:
    assert told(entry) == [sentence]


def test_a_long_name_is_cut() -> None:
    (line,) = told(held("does_not_fit", kernel="k" * 200))
    assert len(line) < 150


def test_what_stood_before_the_jobs_kernels_on_the_gpu() -> None:
    entries = [{"job": str(n), "priority": 8, "total_s": 0.012, "count": 1} for n in range(18, 23)]
    assert delayed({**REPORT, "delays": entries}) == [
        "12.0 ms behind kernels of job 18 (priority 8)",
        "12.0 ms behind kernels of job 19 (priority 8)",
        "12.0 ms behind kernels of job 20 (priority 8)",
        "24.0 ms behind those of 2 other jobs",
    ]


def test_reports_of_before_say_nothing() -> None:
    old = {key: value for key, value in REPORT.items() if key not in {"wait_reasons", "delays"}}
    assert why(old) == delayed(old) == []
