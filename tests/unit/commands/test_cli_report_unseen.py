"""`fikit report` of many jobs, and of the newest, where fikit did not see the launches of some: they are listed, and in no sum of those that shared."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from cli_samples import REPORT, site_without_daemon
from click.testing import CliRunner
from fikit.commands.report import command
from fikit.reporters import many
from fikitd.api.reports import ReportStore
from fikitd.api.uses import UseStore

GPU = {"uuid": "GPU-1", "name": "H200", "emulated": False, "memory_bytes": 141 * 2**30}
USE: dict[str, Any] = {
    "format": "fikit-use", "version": 1, "job": "31", "uid": os.getuid(), "node": "n1", "name": "infer", "gpus": [GPU], "shared": False,
    "looks": 240, "every_s": 15.0, "busy": 0.25, "peak_bytes": 10 * 2**30,
}  # fmt: skip
UNUSED: dict[str, Any] = {"shared": True, "looks": 0, "busy": None, "peak_bytes": None, "gpus": [], "name": "=cmd"}


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return site_without_daemon(tmp_path, monkeypatch)


NOW_S = int(time.time())  # one moment for all: lengths are exact


def stamp(ago_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW_S - ago_s))


def use(directory: Path, job: str, ended_ago_s: float = 60.0, length_s: float = 3600.0, **facts: Any) -> Path:
    times = {"started": stamp(ended_ago_s + length_s), "ended": stamp(ended_ago_s)}
    return UseStore(directory).save({**USE, "job": job, **times, **facts})


def reported(directory: Path, job: str, ended_ago_s: float = 60.0, **facts: Any) -> None:
    times = {"started": stamp(ended_ago_s + 9), "ended": stamp(ended_ago_s)}
    ReportStore(directory).save({**REPORT, "job": job, **times, **facts})


def report(*argv: str) -> str:
    done = CliRunner().invoke(command, list(argv))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_they_have_a_table_of_their_own_and_no_part_in_the_sums(directory: Path) -> None:
    reported(directory, "12")
    alone = report("--since", "1d").splitlines()
    use(directory, "31")
    use(directory, "33", 120, **UNUSED)
    lines = report("--since", "1d").splitlines()
    [row] = [line.split() for line in lines if " infer " in line]
    assert row[:5] == ["31", "infer", "a", "GPU", "alone"]
    assert " ".join(row[8:]) == "60 min 25 % 10.0 GiB H200"
    assert any("33 =cmd" in line and "a GPU or a share of one, unused" in line for line in lines)
    assert lines[-1] == (
        "not in these sums: 1 job had GPUs alone for 60 min, 25 % busy by NVML, 1 job had a GPU, or a share of one, and launched nothing on it through fikit"
    )
    assert [line for line in alone if line.startswith(("total", "elapsed", "GPU time"))] == [
        line for line in lines if line.startswith(("total", "elapsed", "GPU time"))
    ]


def test_where_there_are_no_others_they_are_the_answer(directory: Path) -> None:
    use(directory, "31", busy=None)
    use(directory, "32")
    said = report("--state", "ended")
    assert "total: 2 jobs had GPUs alone for 2 h 0 min, 25 % busy by NVML (known of 60 min)" in said
    assert "0 jobs" not in said
    assert "no such job" not in said


def test_json_has_them_beside_the_jobs(directory: Path) -> None:
    reported(directory, "12")
    before = json.loads(report("--since", "1d", "--json"))
    use(directory, "31")
    use(directory, "33", 120, **UNUSED)
    found = json.loads(report("--since", "1d", "--json"))
    assert (found["jobs"], found["totals"]) == (before["jobs"], before["totals"])
    assert (before["uses"], before["use_totals"]["jobs"]) == ([], 0)
    assert [each["job"] for each in found["uses"]] == ["31", "33"]
    assert found["use_totals"] == {
        "jobs": 2, "alone_jobs": 1, "unused_jobs": 1, "emulated_jobs": 0, "held_s": 3600.0, "watched_s": 3600.0, "idle_s": 2700.0,
    }  # fmt: skip


def test_csv_says_of_each_line_what_kind_of_job_it_is_of(directory: Path) -> None:
    reported(directory, "12")
    use(directory, "31")
    use(directory, "33", 120, **UNUSED)
    done = CliRunner().invoke(command, ["--csv"])
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["job"], row["kind"], row["busy_share"], row["held_s"]) for row in rows] == [
        ("12", "shared", "", ""), ("31", "alone", "0.25", "3600.0"), ("33", "unused", "", "0.0"),
    ]  # fmt: skip
    assert [row["elapsed_s"] for row in rows] == ["9.0", "", ""], "the sum of a column is that of jobs that shared"
    assert (rows[1]["gpu"], rows[1]["memory_peak_bytes"], rows[1]["state"]) == ("H200", str(10 * 2**30), "ended")
    assert rows[2]["name"] == "'=cmd"
    assert "not in these sums: 1 job had GPUs alone" in done.stderr


def test_they_are_chosen_as_others_are(directory: Path) -> None:
    use(directory, "31", 90_000)
    use(directory, "32", peak_bytes=3 * 2**30)
    use(directory, "33", 120, peak_bytes=4 * 2**30)
    use(directory, "34", ended="2026-02-31T00:00:00Z", started="2026-02-31T00:00:00Z")

    def shown(*argv: str) -> list[str]:
        return [each["job"] for each in json.loads(report(*argv, "--json"))["uses"]]

    assert shown("--since", "1d") == ["32", "33"]
    assert shown("--since", "1d", "--sort", "memory") == ["33", "32"]
    assert shown("--state", "running") == []
    assert shown("--since", "1d", "--user", str(os.getuid() + 1)) == []


def test_who_has_a_report_is_not_told_of_twice(directory: Path) -> None:
    reported(directory, "12")
    use(directory, "12")
    assert json.loads(report("--since", "1d", "--json"))["uses"] == []
    assert "Launched nothing" not in report("--list")


def test_the_newest_job_may_be_one_of_them(directory: Path) -> None:
    reported(directory, "12", 300)
    use(directory, "31", 60, length_s=100)
    assert "Job 31 infer" in report()
    assert json.loads(report("--json"))["format"] == "fikit-use"
    reported(directory, "13", 50)
    assert "Job 13 serve" in report()
    reported(directory, "14", 0, state="running", ended=None, started=stamp(900))
    use(directory, "32", 0, length_s=10)
    assert "Job 14 serve" in report(), "what runs goes first"


def test_where_nothing_shared_the_newest_is_one_of_them(directory: Path) -> None:
    use(directory, "30", 500, length_s=10)
    use(directory, "31", 60, length_s=10)
    use(directory, "32", -(10 * 86_400), length_s=10)  # its clock was wrong
    assert "Job 31 infer" in report()


def test_the_list_has_them_and_its_json_reports_only(directory: Path) -> None:
    use(directory, "31")
    assert "31 infer" in report("--list")
    assert json.loads(report("--list", "--json")) == []


def test_more_than_anybody_reads_are_a_number(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "MOST", 2)
    for number in range(5):
        use(directory, f"3{number}")
    said = report("--since", "1d")
    assert "and 3 more; --csv and --json have them all" in said
    assert sum(" infer " in line for line in said.splitlines()) == 2


def test_what_nobody_can_read_hides_no_other(directory: Path) -> None:
    use(directory, "31")
    use(directory, "32").write_text('{"format": "fikit-use"')
    assert [each["job"] for each in json.loads(report("--since", "1d", "--json"))["uses"]] == ["31"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs several users")
def test_root_has_everybodys_and_asks_for_one_users(directory: Path) -> None:
    for uid in (1234, 4321):
        path = use(directory, str(uid), uid=uid)
        for given in (path, path.parent):
            os.chown(given, uid, uid)
    found = json.loads(report("--since", "1d", "--user", "4321", "--json"))["uses"]
    assert [each["job"] for each in found] == ["4321"]
    assert "4321" in report("--since", "1d")
    assert "1234" in report("--since", "1d")
