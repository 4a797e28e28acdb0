"""`fikit report` over many jobs: which ones, in which order, their totals, and each form."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_samples import REPORT, site_without_daemon
from click.testing import CliRunner, Result
from fikit.api import job_report, moments
from fikit.api.sums import totals
from fikit.commands.report import command
from fikit.reporters import many
from fikitd.api import reports
from fikitd.api.reports import ReportStore

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportStore:
    return ReportStore(site_without_daemon(tmp_path, monkeypatch))


def report(*argv: str) -> Result:
    return CliRunner().invoke(command, list(argv))


def stamp(ago_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago_s))


def save(store: ReportStore, job: str, ended_ago_s: float = 60.0, **facts: Any) -> None:
    """A job of nine seconds, whose report was written when it ended."""
    times = {"started": stamp(ended_ago_s + 9), "ended": stamp(ended_ago_s)}
    path = store.save({**REPORT, "job": job, **times, **facts})
    os.utime(path, (time.time() - ended_ago_s,) * 2)


def shown(*argv: str) -> list[str]:
    return [record["job"] for record in json.loads(report(*argv, "--json").stdout)["jobs"]]


def test_since_takes_jobs_that_ended_since_then_and_those_that_still_run(store: ReportStore) -> None:
    save(store, "1", 90_000)
    save(store, "2", 80_000)
    save(store, "3", 60)
    save(store, "4", 0, state="running", ended=None, started=stamp(200_000))
    assert shown("--since", "1d") == ["4", "3", "2"]
    assert shown("--since", "2min") == ["4", "3"]
    assert shown("--since", (datetime.now() - timedelta(hours=30)).isoformat(timespec="minutes"))[-1] == "1"
    assert shown("--since", "0s") == ["4"]


def test_what_was_written_long_ago_is_not_read(store: ReportStore, monkeypatch: pytest.MonkeyPatch) -> None:
    save(store, "1", 90_000)
    save(store, "2")
    read: list[Path] = []
    monkeypatch.setattr(
        "fikitd.store.user_files.read_bounded", lambda path, *_: (read.append(path), path.read_bytes())[1]
    )
    assert shown("--since", "12h") == ["2"]
    assert [path.name for path in read] == ["2.json"]


def test_a_report_that_was_written_later_is_of_when_its_job_ended(store: ReportStore) -> None:
    save(store, "1", 90_000)
    os.utime(store.directory / str(os.getuid()) / "1.json")
    assert shown("--since", "1d") == []


def test_an_end_that_is_no_day_is_since_nothing_and_hides_no_other(store: ReportStore) -> None:
    save(store, "1", ended="2026-02-31T00:00:00Z", started="0000-00-00T99:99:99Z")
    save(store, "2")
    assert shown("--since", "1d") == ["2"]
    assert sorted(shown("--state", "ended")) == ["1", "2"]
    assert report("--state", "ended", "--csv").exit_code == 0


def test_state_chooses(store: ReportStore) -> None:
    save(store, "1")
    save(store, "2", state="running", ended=None)
    assert shown("--state", "running") == ["2"]
    assert shown("--state", "ended") == ["1"]


def test_sort_has_most_of_it_first_and_unknown_ones_last(store: ReportStore) -> None:
    save(store, "1", slowdown=1.1, waited_s=3.0)
    save(store, "2", slowdown=None, waited_s=1.0)
    save(store, "3", slowdown=1.3, waited_s=2.0)
    assert shown("--sort", "slowdown") == ["3", "1", "2"]
    assert shown("--sort", "waited") == ["1", "3", "2"]


@pytest.mark.parametrize("order", many.ORDERS)
def test_every_order_takes_reports_of_before_which_lack_what_it_goes_by(store: ReportStore, order: str) -> None:
    old = {
        key: value
        for key, value in REPORT.items()
        if key not in {"elapsed_s", "memory", "wait_reasons", "held", "delays", "delayed", "device_mode"}
    }
    store.save({**old, "job": "1", "gpu_time_s": None, "started": "2026-13-01T00:00:00Z"})
    save(store, "2")
    assert shown("--sort", order) == ["2", "1"]
    done = report("--sort", order)
    assert done.exit_code == 0
    assert "elapsed: 9.00 s = " in done.stdout
    assert "(of 1 job)" in done.stdout


def test_the_table_says_what_they_came_to_and_of_how_many(store: ReportStore) -> None:
    save(store, "1")
    save(store, "2", slowdown=1.3, kept=False)
    save(store, "3", slowdown=None, no_slowdown="unexplained", kept=None, kept_unknown="unexplained", gpu_time_s=None)
    lines = report("--since", "1h").stdout.splitlines()
    assert lines[-5:] == [
        "total: 3 jobs of 1 user, 3 on an emulated GPU",
        "elapsed: 27.0 s = 26.0 s alone + 27.0 ms waited + 39.0 ms delayed + 900 ms host + 60.0 ms unexplained",
        "GPU time: 6.42 s (of 2 jobs)",
        "against alone: median 1.17x, highest 1.30x (of 2 jobs)",
        "promises kept: 1, broken: 1, not known: 1",
    ]
    assert sum(" serve " in line for line in lines) == 3


def test_totals_sum(store: ReportStore) -> None:
    for number in range(10):
        save(store, str(number), elapsed_s=9.1, alone_s=8.758)
    found = json.loads(report("--since", "1h", "--json").stdout)["totals"]
    assert (found["jobs"], found["timed_jobs"], found["compared_jobs"], found["kept_jobs"]) == (10, 10, 10, 10)
    parts = sum(found[f"{part}_s"] for part in ("alone", "waited", "delayed", "host", "unexplained"))
    assert found["elapsed_s"] == pytest.approx(91.0)
    assert parts == pytest.approx(found["elapsed_s"])


def test_csv_is_one_line_per_job_and_the_totals_are_elsewhere(store: ReportStore) -> None:
    save(store, "1", name='a,"b"', memory={"limit_bytes": None, "peak_bytes": 5, "refused": 0})
    save(store, "2", slowdown=None)
    done = report("--csv", "--sort", "slowdown")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["job"], row["slowdown"]) for row in rows] == [("1", "1.0395"), ("2", "")]
    assert (rows[0]["name"], rows[0]["kept"], rows[0]["memory_peak_bytes"], rows[0]["memory_limit_bytes"]) == (
        'a,"b"', "true", "5", "",
    )  # fmt: skip
    assert rows[0]["ended"].endswith("Z")
    assert done.stderr.startswith("fikit: total: 2 jobs of 1 user")


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)"])
def test_a_name_is_no_formula_in_a_spreadsheet(store: ReportStore, name: str) -> None:
    save(store, "1", name=name)
    [row] = csv.DictReader(io.StringIO(report("--csv").stdout))
    assert row["name"] == f"'{name}"


def test_a_name_that_moves_the_cursor_or_breaks_a_line_is_a_question_mark(store: ReportStore) -> None:
    save(store, "1", name="a\x1b[2Jb\nc\r[red]")
    for form in ("--csv", "--json", "--state=ended"):
        text = report(form, "--sort", "elapsed").stdout
        assert "\x1b" not in text
        assert "\r" not in text
        assert "a?[2Jb?c?[red]" in text


def test_one_that_is_no_report_is_one_line_and_hides_no_other(store: ReportStore) -> None:
    save(store, "1")
    for name in ("2", "3"):
        (store.directory / str(os.getuid()) / f"{name}.json").write_text("{")
    done = report("--since", "1d", "--csv")
    assert [row["job"] for row in csv.DictReader(io.StringIO(done.stdout))] == ["1"]
    warning = done.stderr.splitlines()[0]
    assert warning.startswith("fikit: warning: report ")
    assert warning.endswith(", and 1 more")


def test_of_one_user_so_many_bytes_are_read_and_others_are_not_hidden(
    store: ReportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        save(store, str(number), 60 - number)
    size = (store.directory / str(os.getuid()) / "1.json").stat().st_size
    monkeypatch.setattr(reports, "MOST_READ", 3 * size + 1)
    told: list[str] = []
    assert [record["job"] for record in store.newest(skipped=told.append)] == ["8", "7", "6", "5"]
    assert len(told) == 1
    assert told[0].startswith(f"the reports of uid {os.getuid()} in {store.directory} are more than ")
    if os.geteuid() == 0:
        path = store.save({**REPORT, "uid": 4321})
        for given in (path, path.parent):
            os.chown(given, 4321, 4321)
        os.utime(path, (1, 1))
        assert store.newest()[-1]["uid"] == 4321


def test_more_jobs_than_anybody_reads_are_a_number(store: ReportStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "MOST", 2)
    for number in range(5):
        save(store, str(number))
    shown_ = report("--since", "1h").stdout
    assert "and 3 more; --csv and --json have them all" in shown_
    assert "total: 5 jobs" in shown_
    assert sum(" serve " in line for line in shown_.splitlines()) == 2


def test_none_is_a_sentence_and_an_empty_list(store: ReportStore) -> None:
    assert report("--since", "1d").stdout == (
        f"no such job has a report in {store.directory}; only jobs that ran with a fikit option, or had shards, have one\n"
    )
    assert report("--since", "1d", "--csv").stdout.count("\n") == 1
    assert json.loads(report("--since", "1d", "--json").stdout)["jobs"] == []
    assert totals([]).median_slowdown is None


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--since", "1x"], '"1x" is neither a span of time nor a moment'),
        (["--since", ""], '"" is neither a span of time nor a moment'),
        (["--since", "999999999w"], '"999999999w" is not a span of time from 0 to 100 years'),
        (["--since", "0001-01-01"], "is before any job"),
        (["--state", "lost"], "'lost' is not one of 'running', 'ended'"),
        (["--sort", "beauty"], "'beauty' is not one of 'slowdown'"),
        (["12", "--csv"], "--since, --state, --sort and --csv are for many jobs: leave out 12"),
        (["--csv", "--json"], "choose one of --csv and --json"),
    ],
)
def test_what_cannot_be_is_a_sentence(store: ReportStore, argv: list[str], said: str) -> None:
    done = report(*argv)
    assert done.exit_code == 2
    assert said in done.stderr


def test_moments() -> None:
    for text, before in (("90min", 5400), ("12h", 43_200), ("1d", 86_400), ("2w", 1_209_600), ("30s", 30)):
        assert moments.since(text, NOW) == NOW - timedelta(seconds=before)
    assert moments.since(timedelta(days=1), NOW) == NOW - timedelta(days=1)
    assert moments.since("2026-11-21T08:00+02:00", NOW) == datetime(2026, 11, 21, 6, tzinfo=UTC)
    local = datetime(2026, 11, 21, 8)
    assert moments.since("2026-11-21T08:00", NOW) == moments.since(local, NOW) == local.astimezone(UTC)
    with pytest.raises(ValueError, match="is not a span"):
        moments.since(timedelta(seconds=-1), NOW)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs several users")
def test_root_has_everybodys_and_asks_for_one_users(store: ReportStore) -> None:
    for uid in (1234, 4321):
        path = store.save({**REPORT, "job": str(uid), "uid": uid, "started": stamp(60), "ended": stamp(51)})
        for given in (path, path.parent):
            os.chown(given, uid, uid)
    assert sorted(shown("--since", "1h")) == ["1234", "4321"]
    assert "total: 2 jobs of 2 users" in report("--since", "1h").stdout
    assert shown("--since", "1h", "--user", "4321") == ["4321"]


def test_equal_ones_stay_in_their_order() -> None:
    same = [job_report.of({**REPORT, "job": str(number)}) for number in range(5)]
    assert many.ordered(same, "slowdown") == same
