"""`fikit advise --site`: what ended jobs made of the GPUs that they held, from stored reports and records of use."""

from __future__ import annotations

import csv
import io
import json
import os
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from cli_samples import REPORT, site_without_daemon
from click.testing import CliRunner, Result
from fikit.api import job_report
from fikit.cluster import past
from fikit.cluster.past import Past
from fikit.commands.advise import command
from fikit.page import render
from fikit.page import site as page
from fikit.reporters import site
from fikitd.api.reports import ReportStore
from fikitd.api.uses import UseStore
from site_samples import BROKEN, UNTIL, USES, WEEK, report, use

H = 3600.0
EVIL = "<script>alert(1)</script>\x1b[2J[red]"


def found(reports: list[dict[str, Any]], uses: list[dict[str, Any]] = USES) -> Past:
    return past.of(map(job_report.of, reports), uses, WEEK, UNTIL)


def test_hours_that_were_held_nearly_idle_and_what_sharing_would_free() -> None:
    sums = found([report("12"), BROKEN]).sums
    assert (sums.jobs, sums.alone_jobs, sums.shared_jobs, sums.unused_jobs) == (8, 5, 2, 1)
    assert sums.held_s == (10 + 4 + 2 + 1 + 2 * 3) * H
    assert sums.watched_s == (10 + 4 + 2 + 6) * H
    assert sums.idle_s == pytest.approx((9 + 2.4 + 0.2 + 5.4) * H)
    assert sums.nearly_idle_s == (10 + 6) * H
    assert sums.freed_s == pytest.approx(
        (9 + 4 * 0.3) * H
    )  # memory is what job 32 leaves least of; only jobs of one GPU share it
    assert (sums.kept, sums.broken, sums.unknown) == (1, 1, 0)


def test_a_measured_job_had_its_gpu_alone_and_promised_nothing() -> None:
    measured = report(
        "40",
        measured=True,
        kept=None,
        elapsed_s=3600.0,
        alone_s=3600.0,
        gpu_time_s=360.0,
        memory={**REPORT["memory"], "peak_bytes": 0},
    )
    sums = found([measured], []).sums
    assert (sums.alone_jobs, sums.nearly_idle_s, sums.freed_s) == (1, 3600.0, pytest.approx(3240.0))
    assert (sums.kept, sums.broken, sums.unknown) == (0, 0, 0)


def test_a_job_with_a_report_counts_once() -> None:
    assert found([report("31")]).sums.alone_jobs == 4


def test_why_a_promise_was_broken_names_lower_jobs_and_a_late_host() -> None:
    [job] = found([report("12"), BROKEN], []).broken
    assert job.why == "9.00 s kernels of job 18 (priority 8), host late 3.00 s"
    quiet = {**BROKEN, "delays": [], "host": {**BROKEN["host"], "late_s": 0.0}}
    assert found([quiet], []).broken[0].why == "many short delays"


def test_who_holds_most_nearly_idle_comes_first() -> None:
    mine = found([], [use("1", 1, 0.1, uid=5), use("2", 3, 0.1, uid=6), use("3", 9, 0.9, uid=7)])
    assert [uid for uid, _ in mine.users] == [6, 5, 7]


# The command.


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = site_without_daemon(tmp_path, monkeypatch)
    for each in (report("12"), BROKEN):
        ReportStore(directory).save(each)
    for each in USES:
        UseStore(directory).save(each)
    return directory


def run(*argv: str) -> Result:
    return CliRunner().invoke(command, ["--site", "--since", "2026-11-15T00:00", *argv])


def test_the_table_says_what_each_sum_is_of(store: Path) -> None:
    done = run()
    assert done.exit_code == 0, done.output
    assert "8 jobs ended from 2026-11-15 00:00 UTC" in done.output
    assert "5 had GPUs alone, 2 shared one, 1 launched nothing through fikit" in done.output
    assert "GPU-hours that jobs held alone: 23.0 h; how busy the GPUs were is known of 22.0 h" in done.output
    assert (
        "of these 22.0 h the GPUs were idle for 17.0 h; jobs that kept them less than 20 % busy held 16.0 h"
        in done.output
    )
    assert "sharing would free at most 10.2 h" in done.output
    assert "promises kept: 1, broken: 1, not known: 0" in done.output
    assert "20 % (5 % allowed)" in done.output
    assert "9.00 s kernels of job 18 (priority 8), host late 3.00 s" in done.output


def test_csv_has_a_line_for_each_job(store: Path) -> None:
    done = run("--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {row["job"]: row["kind"] for row in rows} == {
        "12": "shared", "20": "shared", "31": "alone", "32": "alone", "33": "alone", "34": "alone", "35": "alone", "36": "unused",
    }  # fmt: skip
    assert next(row["freed_s"] for row in rows if row["job"] == "31") == "32400.0"
    assert "sharing would free at most 10.2 h" in done.stderr


def test_json_has_sums_users_and_jobs(store: Path) -> None:
    said = json.loads(run("--json").output)
    assert said["sums"]["nearly_idle_s"] == 16 * H
    assert [user["uid"] for user in said["users"]] == [os.getuid()]
    assert len(said["jobs"]) == 8
    assert set(said["jobs"][0]) == set(site.COLUMNS)


class Text(HTMLParser):
    """The page's words, and its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def test_the_page_has_the_same_figures_and_runs_nothing(store: Path, tmp_path: Path) -> None:
    ReportStore(store).save({**BROKEN, "job": "21", "name": EVIL})
    done = run("--html", str(tmp_path / "site.html"))
    assert done.exit_code == 0, done.output
    text = Text()
    text.feed((tmp_path / "site.html").read_text())
    words = " ".join(" ".join(text.words).split())
    assert "Sharing would free at most 10.2 h" in words
    assert "9.00 s kernels of job 18 (priority 8), host late 3.00 s" in words
    assert "script" not in text.tags
    assert text.tags.count("table") == 3
    assert "alert(1)" in words


def test_a_page_of_nothing_says_so() -> None:
    text = render.site(page.of(found([], [])))
    for nothing in ("No job ended.", "No promise was broken.", "No job."):
        assert f">{nothing}<" in text
    assert (
        "<li>No job of which fikit has a report ended from 2026-11-15 00:00 UTC to 2026-11-22 00:00 UTC.</li>" in text
    )


@pytest.mark.parametrize(
    "argv", [["--site", "job.sh"], ["--site", "--job", "1"], ["--csv", "job.sh"], ["--since", "1d", "job.sh"], ["--site", "--csv", "--json"], ["--html", "x", "job.sh"]]
)  # fmt: skip
def test_what_does_not_go_together_is_refused(argv: list[str]) -> None:
    assert CliRunner().invoke(command, argv).exit_code == 2
