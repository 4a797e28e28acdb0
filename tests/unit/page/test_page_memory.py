"""The page's memory section of a job with memory on the host: figures of the report, and where it lay over time."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from cli_samples import MOVED, REPORT
from fikit.advice import of_run
from fikit.api import job_report
from fikit.page import document, memory_picture, render
from fikit.page.document import Sources
from fikit.page.figures import Source
from fikit.page.timeline import PIECES
from fikit.wording import units
from page_samples import Seen, seen

GIB = 2**30
NOW = datetime(2026, 11, 26, 9, 0, tzinfo=UTC)


def page(memory: dict[str, Any]) -> Seen:
    run = job_report.of({**REPORT, "memory": memory})
    found = seen(render.html(document.of(run, of_run.advise(run), Sources(), NOW)))
    assert found.wrong == []
    return found


def test_every_figure_of_what_was_moved_is_the_reports() -> None:
    found, source = page(MOVED), Source({"memory": MOVED})
    shown = {str(each.attributes["data-of"]): each for each in found.all("data")}
    moved = {of: each for of, each in shown.items() if of.startswith("memory.moved.")}
    keys = {f"memory.moved.{key}" for key in MOVED["moved"] if key != "history"}
    assert moved.keys() == keys | {"memory.moved.in_bytes+memory.moved.out_bytes"}
    for of, each in moved.items():
        value = sum(source.at(path) for path in of.split("+"))
        assert float(each.attributes["value"] or "nan") == value
        assert each.text in (units.duration(value), units.count(round(value)), units.gibibytes(round(value)))
    assert "How its memory went over time is not recorded" not in [each.text for each in found.all("p")]


def test_every_figure_of_its_plan_is_the_reports() -> None:
    plan = {
        "budget_bytes": 5 * GIB, "peak_bytes": 8 * GIB, "moved_bytes_per_pass": 3 * GIB, "expected_loss": 0.06, "passes": 1400, "skipped": 7,
    }  # fmt: skip
    shown = {str(each.attributes["data-of"]): each.text for each in page({**MOVED, "plan": plan}).all("data")}
    assert {of.removeprefix("memory.plan."): text for of, text in shown.items() if of.startswith("memory.plan.")} == {
        "budget_bytes": "5.00 GiB", "peak_bytes": "8.00 GiB", "moved_bytes_per_pass": "3.00 GiB", "passes": "1 400", "skipped": "7",
    }  # fmt: skip
    assert not any(
        each.startswith("memory.plan.") for each in (str(one.attributes["data-of"]) for one in page(MOVED).all("data"))
    )


def test_without_a_look_there_is_no_picture() -> None:
    moved = {**MOVED["moved"], "history": [], "resident_peak_bytes": None}
    texts = [each.text for each in page({**MOVED, "moved": moved}).all("p")]
    assert any("How its memory went over time is not recorded" in text for text in texts)


def test_the_picture_has_each_look_where_it_was() -> None:
    history = MOVED["moved"]["history"]
    drawn = memory_picture.of(history, 6.0, 16 * GIB)
    assert drawn is not None
    piece = PIECES // 6  # one second
    own = [round(share * 16, 2) for share in drawn.own]
    assert own[:piece] == [0.0] * piece, "before the first look"
    assert set(own[piece : 3 * piece]) == {7.9}
    assert set(own[3 * piece : 5 * piece]) == {0.0}
    assert set(own[5 * piece :]) == {4.0}
    assert {round(share * 16, 2) for share in drawn.all_jobs} == {0.0, 13.9, 12.0, 10.0}
    # 8, 8 and 80 GiB moved in 2, 2 and 1 s
    assert [round(drawn.moved[n * piece] * 80, 3) for n in (0, 1, 3, 5)] == [0.0, 4.0, 4.0, 80.0]
    assert [n for n, begun in enumerate(drawn.granted) if begun] == [piece, 5 * piece]


def test_outlines_are_drawn_as_reckoned() -> None:
    lanes = [each.attributes for each in page(MOVED).all("svg") if "lane" in str(each.attributes.get("class"))]
    labels = [re.sub(r":.*", "", str(lane["aria-label"])) for lane in lanes]
    assert labels == ["on the GPU, of all jobs under fikit", "on the GPU, of this job", "moved between GPU and host", "turns that began"]  # fmt: skip
    paths = [str(each.attributes["d"]) for each in page(MOVED).all("path")]
    drawn = memory_picture.of(MOVED["moved"]["history"], REPORT["elapsed_s"], REPORT["device"]["memory_bytes"])
    assert drawn is not None
    assert [path.count("M") for path in paths[-4:]] == [3, 2, 3, 2]
    assert f"V{20 * (1 - round(max(drawn.own), 3)):.3g}H" in paths[-3]


@pytest.mark.parametrize(
    ("history", "seconds"),
    [
        ([{"t_s": 0.0, "resident_bytes": 0, "others_bytes": 0, "moved_bytes": 0, "turns": 0}], 0.0),
        ([{"t_s": 1e18, "resident_bytes": 2**60, "others_bytes": 2**60, "moved_bytes": 2**60, "turns": 2**60}] * 240, 1.0),
        ([{"t_s": float(10 - n), "resident_bytes": n, "others_bytes": 1, "moved_bytes": 9 - n, "turns": 9 - n} for n in range(10)], 3.0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("gpu_bytes", [None, 1, 2**40])
def test_a_history_that_somebody_made_up_is_drawn_within_bounds(
    history: list[dict[str, Any]], seconds: float, gpu_bytes: int | None
) -> None:
    drawn = memory_picture.of(history, seconds, gpu_bytes)
    assert drawn is not None
    for row in (drawn.own, drawn.all_jobs, drawn.moved, drawn.granted):
        assert len(row) == PIECES
        assert all(0 <= share <= 1 for share in row)
