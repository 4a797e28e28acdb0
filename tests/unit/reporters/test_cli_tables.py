"""What people see: every table against a stored picture of it (FIKIT_UPDATE_SNAPSHOTS=1 stores new ones)."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from cli_samples import CHECKS, MEASURED, PROFILE, REPORT, SUMMARY
from fikit.reporters import demo_table, grid, job_table, picture, table
from fikit.wording import units, verdict
from fikitd.api.elapsed import KEYS
from pictures import drawn, matches
from rich.console import RenderableType


@pytest.mark.parametrize(
    ("name", "renderable"),
    [
        ("report", job_table.report(REPORT)),
        ("report_measured", job_table.report(MEASURED)),
        ("reports", table.reports([REPORT, MEASURED])),
        ("profile", table.profile(PROFILE)),
        ("profiles", table.profiles([{**PROFILE, "kernels": 2}])),
        ("checks", table.checks(CHECKS)),
        ("demo", demo_table.demo(SUMMARY)),
    ],
)
def test_table_looks_as_stored(name: str, renderable: RenderableType) -> None:
    matches(f"{name}.txt", drawn(renderable))


def test_a_long_name_or_a_usual_terminal_cuts_no_number() -> None:
    long = {**REPORT, "name": "x" * 300}
    for width in (80, table.PIPE_WIDTH):
        shown = drawn(table.reports([long, MEASURED]), width)
        for text in ("12", "xxx", "run-77-1", "1 834", "3.21 s", "9.00 s", "1.04x", "12.0 ms"):
            assert text in shown
        assert len(shown.splitlines()) < 16
        shown = drawn(table.profile(PROFILE), width)
        for text in ("r_16_64", "E_[64]", "1 000", "120 µs", "119 µs", "131 µs", "2.00 µs", "80 %"):
            assert text in shown


@pytest.mark.parametrize("width", [100, 79, 60, 50, 40, 30])
def test_no_number_and_no_word_is_cut_whatever_the_width(width: int) -> None:
    """Columns go, and are named; at last the rows stand below each other. What one asks by and the verdict stay."""
    long = [{**REPORT, "job": "1234567"}, {**MEASURED, "job": "run-15506-1"}]
    limits = [
        {"jobs": {"qos": ["urgent"]}, "highest_priority": 1, "priority_name": "high", "min_allowed_slowdown": 0.02,
         "min_allowed_delay_us": 200.0},
        {"jobs": {}, "highest_priority": 0, "priority_name": "0", "min_allowed_slowdown": 0, "min_allowed_delay_us": 0},
    ]  # fmt: skip
    for renderable, stay in (
        (table.reports(long), ["1234567", "run-15506-1", "1.04x", "12.0", "ms"]),
        (table.profile(PROFILE), ["r_16_64", "120", "80", "20"]),
        (table.profiles([{**PROFILE, "kernels": 2}]), ["train-99", "train.py"]),
        (demo_table.demo(SUMMARY), ["alone", "3.00x", "6.00"]),
        (table.limits(limits), ["urgent", "high", "any", "200"]),
        (job_table.report(REPORT), ["classify-0a1b2c3d,"] if width > 40 else []),
        (table.checks(CHECKS), ["Type=", "emulated"] if width > 30 else []),
    ):
        shown = drawn(renderable, width)
        assert "…" not in shown
        assert all(len(line) <= width for line in shown.splitlines())
        assert [word for word in stay if word not in shown.split()] == [], shown


def test_columns_that_have_no_room_are_named() -> None:
    assert "no room for: state, kernels, GPU time, GPU\n" in drawn(table.reports([REPORT, MEASURED]), 60)
    assert "no room" not in drawn(table.reports([REPORT, MEASURED]), 110)
    assert " against alone   1.04x\n" in drawn(table.reports([REPORT, MEASURED]), 40), "below each other"
    assert "no room" not in drawn(demo_table.demo(SUMMARY), 40).split("The same loops")[0], (
        "a bar says what a number says"
    )


def test_a_report_that_is_not_as_the_clock_says_has_no_ratio() -> None:
    def shown(**facts: Any) -> str:
        low = SUMMARY["low"]
        told = {**low["reports"]["fikit"], **facts.pop("told")}
        return drawn(
            demo_table.demo({**SUMMARY, **facts, "low": {**low, "reports": {**low["reports"], "fikit": told}}}), 160
        )

    assert "Clock and reports agree within 2 %." in shown(told={"apart": 0.02})
    assert "1.21x" in drawn(demo_table.demo({**SUMMARY, "high": SUMMARY["low"]}))
    apart = shown(told={"apart": -0.031}, disturbed="other programs disturbed it")
    assert "low, fikit: no ratio, because its report is 3.1 % off the clock\n" in apart
    assert "agree" not in apart
    assert "1.21x" not in apart, "nor the clock's: it is other programs', too"
    unexplained = shown(told={"slowdown": None, "apart": None, "unexplained_s": 0.97})
    assert "low, fikit: no ratio, because 10 % of its time is not explained\n" in unexplained
    assert "No report says" in drawn(
        demo_table.demo(
            {**SUMMARY, "high": {**SUMMARY["high"], "reports": {}}, "low": {**SUMMARY["low"], "reports": {}}}
        )
    )


def of_high(**facts: float) -> dict[str, Any]:
    told = {**SUMMARY["high"]["reports"]["fikit"], **facts}
    return {**SUMMARY, "high": {**SUMMARY["high"], "reports": {"fikit": told}}}


@pytest.mark.parametrize(
    ("facts", "line", "drawing"),
    [
        ({"waited_s": 0.01, "delayed_s": 0.04, "slowdown": 1.025}, "The promise was kept: 1.02x of its time alone (1.03x allowed).", "with fikit the promise was kept: 1.02x of its time alone"),
        ({"delayed_s": 0.07}, "The promise was not kept: 1.09x of its time alone (1.03x allowed", "with fikit the promise was not kept: 1.09x of its time alone"),
        ({"waited_s": 0.05, "delayed_s": 0.05}, "1.09x of its time alone (1.03x allowed).", "with fikit 1.09x of its time alone"),
        ({"waited_s": 0.01, "delayed_s": 0.01}, "Lower jobs kept to the 1.03x allowed; with all else it took 1.09x of its time alone.", "with fikit lower jobs kept to the 1.03x allowed; with all else it took 1.09x of its time alone"),
        ({"apart": 0.05}, "High-priority job: 1.10x of its time alone", "with fikit 1.10x of its time alone, by the clock"),
    ],
)  # fmt: skip
def test_the_demo_says_what_was_promised_and_what_happened(facts: dict[str, float], line: str, drawing: str) -> None:
    shown, svg = drawn(demo_table.demo(of_high(**facts)), 160), picture.demo(of_high(**facts))
    assert line in shown
    assert f">{drawing}<" in svg
    assert ">promised: 1.03x at most<" in svg
    assert ("The promise was" in shown) == ("the promise was" in drawing)


def test_on_a_busy_machine_the_demo_says_so_and_no_ratio() -> None:
    disturbed = "other programs disturbed it (2.0 of 2 cores were busy before it began), try again later"
    summary = {**of_high(waited_s=0.0, delayed_s=0.0), "disturbed": disturbed}
    shown = drawn(demo_table.demo(summary), 160).split("The same loops")[0]
    assert (
        "Other programs disturbed it (2.0 of 2 cores were busy before it began), try again later. The times include what other programs took, so no ratio is shown."
        in shown
    )
    for text in (shown, svg := picture.demo(summary)):
        assert not re.search(r"\d\.\d+x(?! at most)", text)
        assert "promise was" not in text
    assert ">disturbed by other programs: these times say nothing of fikit<" in svg


def test_kernels_that_were_timed_beside_other_jobs_only_are_marked() -> None:
    crowded = {**PROFILE, "kernels": [{**PROFILE["kernels"][0], "beside": True}, PROFILE["kernels"][1]]}
    shown = drawn(table.profile(crowded))
    assert " r_16_64 *   " in shown
    assert " E_[64]      " in shown
    assert "* timed beside other jobs only" in shown
    assert "*" not in drawn(table.profile(PROFILE))
    doubtful = {**PROFILE, "kernels": [{**PROFILE["kernels"][0], "beside": True, "doubtful": True}]}
    shown = drawn(table.profile(doubtful))
    assert " r_16_64 ~   " in shown
    assert "~ timed doubtfully only" in shown
    assert "*" not in shown


def test_profile_table_lists_the_kernel_with_most_gpu_time_first() -> None:
    reordered = {**PROFILE, "kernels": PROFILE["kernels"][::-1]}
    assert drawn(table.profile(reordered)) == drawn(table.profile(PROFILE))


def test_a_job_whose_kernels_were_not_timed_has_a_bound_and_the_reason() -> None:
    shown = drawn(job_table.report({**REPORT, "gpu_time_s": None}))
    assert "at most 8.42 s: not all of its kernels have been timed" in shown, "a report of before"
    new = {**REPORT, "gpu_time_s": None, "gpu_time_at_most_s": 1.9, "untimed": 7, "beside": 0, "unfinished": 1800}
    shown = drawn(job_table.report(new), table.PIPE_WIDTH)
    assert "at most 1.90 s: 1 800 of 1 834 launches not known to have completed, 7 of" in shown
    assert "7 of 1 834 launches of kernels that nothing has timed\n" in shown
    assert "1.90 s: all 1 834 launches not" in drawn(job_table.report({**new, "untimed": 0, "unfinished": 1834}))
    assert " < 1.90 s " in drawn(table.reports([new]), table.PIPE_WIDTH)
    assert "3.21 s: 30 of 1 834 launches not" in drawn(job_table.report({**REPORT, "unfinished": 30}))
    assert "3.21 s\n" in drawn(job_table.report({**REPORT, "unfinished": 3})), "0.2 % change no figure"
    shown = drawn(job_table.report({**REPORT, "doubtful": 900}), table.PIPE_WIDTH)
    assert (
        "3.21 s: 900 of 1 834 launches counted by a doubtful time, as of a first launch, in which the driver loads the kernel"
        in shown
    )


def test_what_there_was_not_is_not_told_in_numbers() -> None:
    killed = {**REPORT, "span_s": 0.0, "slowdown": None, "gaps": {**REPORT["gaps"], "offered": 0}}
    shown = drawn(job_table.report(killed, verbose=True))
    assert ("result" in shown, "gap length" in shown) == (False, False)
    assert " gaps " not in drawn(job_table.report(REPORT)), "what a policy made of them is for who asks"


def test_what_is_missing_for_a_ratio_is_said() -> None:
    def answer(why: str, **facts: object) -> str:
        shown = drawn(job_table.report({**REPORT, "slowdown": None, "no_slowdown": why, **facts}), table.PIPE_WIDTH)
        return shown.splitlines()[2].strip()

    assert answer("unexplained", unexplained_s=1.8) == (
        "result               the promise was kept; not compared with its time alone: 20 % of it is not explained"
    )
    host = {**REPORT["host"], "unknown_s": 4.0}
    assert answer("start_or_end_unknown", host=host) == (
        "result               the promise was kept; not compared with its time alone: no profile knows how long it takes to start and end "
        "(4.0 s of 9.0 s)"
    )
    missing = {**REPORT["profile"], "found": False}
    assert answer("start_or_end_unknown", host=host, profile=missing).startswith("elapsed "), (
        "the profile's line says it"
    )
    assert answer("measured").startswith("elapsed ")


def test_a_promise_that_was_not_kept_is_said() -> None:
    shown = drawn(job_table.report({**REPORT, "slowdown": 1.2, "kept": False}), table.PIPE_WIDTH)
    said = "the promise was not kept: 1.20x of its time alone (1.05x allowed, which lower jobs did not keep to)\n"
    assert said in shown


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"kept": None, "kept_unknown": "too_close"}, "1.04x of its time alone (1.05x allowed)"),
        ({"slowdown": 1.3}, "lower jobs kept to the 1.05x allowed; with all else it took 1.30x of its time alone"),
        ({"max_slowdown": None, "kept": None}, "1.04x of its time alone"),
    ],
)
def test_a_verdict_says_no_more_than_is_known(facts: dict[str, Any], said: str) -> None:
    assert verdict.of({**REPORT, **facts}) == said
    assert f"result               {said}\n" in drawn(job_table.report({**REPORT, **facts}), table.PIPE_WIDTH)


def test_the_sum_leaves_out_what_is_next_to_nothing() -> None:
    shown = drawn(job_table.report({**REPORT, "unexplained_s": 0.001}), table.PIPE_WIDTH)
    assert "9.00 s = 8.66 s alone + 9.00 ms waited + 13.0 ms delayed + 300 ms host\n" in shown
    assert "its host             300 ms: 200 ms a longer start than its profile's, 100 ms longer between" in shown


def test_a_report_of_before_says_nothing_of_where_the_time_went() -> None:
    before = {key: value for key, value in REPORT.items() if key not in KEYS}
    shown = drawn(job_table.report(before))
    assert ("result" in shown, "elapsed" in shown) == (False, False), "its ratio was another one"
    assert " - " in drawn(table.reports([before]))


@pytest.mark.parametrize(
    ("state", "count", "total_s", "shown"),
    [
        ("running", 0, 0.0, "waited at the gate   2.92 s until now\n"),
        ("running", 1, 1.0, "1.00 s in 1 wait; mean 1.00 s, p99 1.00 s; 1.92 s more until now\n"),
        ("running", 1, 2.92, "2.92 s in 1 wait; mean 2.92 s, p99 2.92 s\n"),
        ("ended", 1, 1.0, "1.00 s in 1 wait; mean 1.00 s, p99 1.00 s\n"),
    ],
)
def test_a_wait_that_has_not_ended_is_no_never(state: str, count: int, total_s: float, shown: str) -> None:
    wait = {"count": count, "total_s": total_s, "mean_us": 1e6 * total_s, "p99_us": 1e6 * total_s}
    reason = {**REPORT["wait_reasons"][0], "total_s": 2.92}
    assert shown in drawn(job_table.report({**REPORT, "state": state, "wait": wait, "wait_reasons": [reason]}))


@pytest.mark.parametrize(
    ("mode", "said", "listed"),
    [("slices", "in time slices: one program at a time has it", "time slices"), ("mps", "under MPS: kernels of all", "MPS"),
     ("other-mps", "under an MPS that is not fikit's", "an MPS that is not fikit's"), ("mixed", "some programs of the job under MPS", "partly MPS")],
)  # fmt: skip
def test_a_report_says_how_its_gpu_was_shared(mode: str, said: str, listed: str) -> None:
    assert said in drawn(job_table.report({**REPORT, "device_mode": mode}))
    shown = drawn(table.reports([{**REPORT, "device_mode": mode}, MEASURED]), 160)
    assert (listed in shown) == (mode != "slices"), "where all ran in time slices, no column says so"
    assert "time slices" in shown or mode == "slices"


def test_a_report_of_before_says_nothing_of_how_its_gpu_was_shared() -> None:
    before = {key: value for key, value in REPORT.items() if key != "device_mode"}
    assert "GPU shared" not in drawn(job_table.report(before))
    assert "sharing" not in drawn(table.reports([before]))


def test_tables_say_emulated_even_when_the_name_does_not() -> None:
    assert table.device({"name": "H200", "emulated": True}) == "H200 (emulated)"
    assert table.device({"name": "H200", "emulated": False}) == "H200"


def test_picture_looks_as_stored_and_is_xml() -> None:
    drawn_picture = picture.demo(SUMMARY)
    matches("demo.svg", drawn_picture)
    bars = [e for e in ElementTree.fromstring(drawn_picture).iter() if e.tag.endswith("rect") and e.get("x")]
    assert [round(float(e.get("width", 0))) for e in bars[:3]] == [140, 420, 154]  # of 420, as 2 : 6 : 2.2


def test_picture_escapes_a_device_name() -> None:
    summary = json.loads(json.dumps(SUMMARY))
    summary["device"]["name"] = "<GPU & co>"
    ElementTree.fromstring(picture.demo(summary))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (3.21, "3.21 s"),
        (0.0123, "12.3 ms"),
        (4.1e-6, "4.10 µs"),
        (420e-6, "420 µs"),
        (75.0, "75.0 s"),
    ],
)
def test_durations_have_three_figures(seconds: float | None, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(("part", "cells"), [(0, ""), (50, "██"), (100, "████"), (250, "████"), (3, "▏")])
def test_bar_is_proportional_and_never_longer_than_its_column(part: float, cells: str) -> None:
    assert grid.bar(part, 100, width=4) == cells
