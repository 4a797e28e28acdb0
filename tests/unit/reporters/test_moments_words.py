"""Moments have one form for people: wherever a job's time stands, it is written alike."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from cli_samples import REPORT
from fikit.reporters import job_table, job_use
from fikit.wording import moments
from rich.console import Console

START = datetime(2026, 11, 26, 12, 52, 3, tzinfo=UTC)
USE: dict[str, Any] = {
    "job": "31", "uid": REPORT["uid"], "node": "n1", "name": "", "gpus": [], "started": REPORT["started"], "ended": REPORT["ended"],
    "shared": False, "looks": 0, "every_s": 15.0, "busy": None, "peak_bytes": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("started", "ended", "text"),
    [
        (START, START + timedelta(seconds=9), "2026-11-26 12:52:03 to 12:52:12 UTC"),
        (START, START + timedelta(hours=12), "2026-11-26 12:52:03 to 2026-11-27 00:52:03 UTC"),
        (START, None, "since 2026-11-26 12:52:03 UTC"),
        (None, START, ""),
    ],
)
def test_when_a_job_ran(started: datetime | None, ended: datetime | None, text: str) -> None:
    assert moments.ran(started, ended) == text


def test_a_moment_of_another_zone_is_that_of_utc() -> None:
    there = datetime(2026, 11, 26, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    assert (moments.second(there), moments.minute(there), moments.day(there)) == (
        "2026-11-25 22:30:00 UTC", "2026-11-25 22:30 UTC", "2026-11-25",
    )  # fmt: skip


def test_a_job_that_shared_and_one_that_did_not_have_their_times_alike() -> None:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(job_table.report(REPORT))
    console.print(job_use.report(USE))
    said = re.findall(r"^ *ran +(.+? UTC)", console.export_text(), re.MULTILINE)
    assert said == ["2026-11-21 12:00:00 to 12:00:09 UTC"] * 2


def test_nobody_else_writes_a_day_for_people() -> None:
    """Days by name, and in the machine's zone without saying so, were how two reports came to differ."""
    wrapper = Path(moments.__file__).parents[1]
    wrong = [
        path.name
        for path in sorted(wrapper.rglob("*.py"))
        if re.search(r"%d %[Bb]|:%Y-%m-%d %H", path.read_text()) and path != Path(moments.__file__)
    ]
    assert wrong == []
