"""`fikit report` against stored reports; no fikitd runs here."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from cli_samples import REPORT, site_without_daemon
from click.testing import CliRunner, Result
from fikit import jobs_known
from fikit.commands import trace
from fikit.commands.report import command
from fikit.site_paths import Place
from fikitd.api.reports import ReportStore
from fikitd.api.traces import TraceStore
from fikitd.profiles.memory_history import MemoryHistory
from fikitd.profiles.profile_store import ProfileStore


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportStore:
    return ReportStore(site_without_daemon(tmp_path, monkeypatch))


def report(*argv: str) -> Result:
    return CliRunner().invoke(command, list(argv))


def test_named_job_is_shown(store: ReportStore) -> None:
    store.save(REPORT)
    assert "1.04x of its time alone (1.05x allowed)" in report("12").output


def test_without_a_name_the_newest_job_is_shown(store: ReportStore) -> None:
    store.save(REPORT)
    store.save({**REPORT, "job": "9", "started": "2026-11-21T13:00:00Z"})
    assert json.loads(report("--json").output)["job"] == "9"


def test_json_is_the_record_as_stored_and_what_to_do(store: ReportStore) -> None:
    store.save(REPORT)
    said = json.loads(report("12", "--json").output)
    advice = said.pop("advice")
    assert said == REPORT
    assert [(each["rule"], each["figure"]["refused"]) for each in advice] == [("refused memory", 3)]
    assert [each["line"] for each in advice] == ["sbatch --fikit-mem=11G SCRIPT"]


def test_what_to_do_comes_last_with_the_line_to_type(store: ReportStore) -> None:
    store.save(REPORT)
    shown = report("12").output
    assert shown.index("\nWhat to do\n * 3 requests for GPU memory were beyond its 10.0 GiB") > shown.index(" profile ")
    assert shown.endswith("\n     sbatch --fikit-mem=11G SCRIPT\n\n")
    store.save({**REPORT, "memory": {**REPORT["memory"], "refused": 0}})
    assert "What to do" not in report("12").output


def test_the_peaks_of_the_names_last_runs_count(store: ReportStore) -> None:
    profiles = ProfileStore(store.directory.parent / "profiles")
    profiles.prepare(os.getuid(), os.getgid())
    MemoryHistory(profiles).remember(os.getuid(), "serve", "11", int(9.9 * 2**30))
    store.save({**REPORT, "memory": {**REPORT["memory"], "refused": 0}})
    assert (
        "it asks for 10 GiB, and a run needed 9.9: it may run out of memory\n     sbatch --fikit-mem=11G"
        in report("12").output
    )


def test_list_has_the_newest_first(store: ReportStore) -> None:
    for number in range(3):
        store.save({**REPORT, "job": str(number), "started": f"2026-11-21T1{number}:00:00Z"})
    assert [record["job"] for record in json.loads(report("--list", "--json").output)] == ["2", "1", "0"]


def test_a_list_of_nothing_says_so(store: ReportStore) -> None:
    assert report("--list").output == (
        f"no reports yet in {store.directory}; only jobs that ran with a fikit option, or had shards, have one\n"
    )
    assert report("--list", "--json").output == "[]\n"


def test_unknown_job_names_the_nearest_ids(store: ReportStore) -> None:
    store.save({**REPORT, "job": "1234"})
    result = report("1243")
    assert result.exit_code == 1
    assert result.output.strip() == (
        "Error: there is no report of job 1243; the nearest are 1234; while it runs, its node knows more: "
        "srun --overlap --jobid=1243 fikit-report 1243"
    )


def test_an_unknown_job_that_is_like_none_names_the_newest(store: ReportStore) -> None:
    store.save({**REPORT, "job": "run-1-1"})
    assert report("serve").output.strip() == "Error: there is no report of job serve; the newest are run-1-1"


def test_a_report_that_belongs_to_somebody_else_is_called_that(
    store: ReportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.save(REPORT).rename(store.directory / "12.json")  # where fikitds of before put everybody's

    def denied(*_: object) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("fikitd.store.user_files.read_bounded", denied)
    assert report("12").output.strip().endswith("12.json could not be read: Permission denied")
    owner = path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    result = report("12")
    assert result.exit_code == 1
    assert result.output.strip() == (
        f"Error: report {path} could not be read: it is another user's, and only that user and root may read it"
    )


def test_samples_that_were_stored_are_told_where_there_was_no_profile(store: ReportStore) -> None:
    profile = {"key": "serve-1", "found": False, "stored": None}
    store.save({**REPORT, "profile": profile})
    assert "serve-1, not there before: run once with --fikit-measure" in report("12").output
    store.save({**REPORT, "profile": {**profile, "stored": True}})
    assert "serve-1, not there before: samples of this run are stored" in report("12").output


def test_unknown_job_without_any_report_says_where_it_looked(store: ReportStore) -> None:
    result = report("5")
    assert result.exit_code == 1
    assert f"there is no report of job 5 in {store.directory}" in result.output


def test_a_directory_that_nobody_can_look_into_is_not_called_empty(store: ReportStore) -> None:
    store.directory.rmdir()
    store.directory.touch()  # root may read any directory
    hidden = f"{store.directory} (which could not be read: Not a directory)"
    assert f"there is no report in {hidden}; only" in report().output
    assert f"no reports yet in {hidden}; only" in report("--list").output


def test_a_place_that_cannot_be_read_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, mine = tmp_path / "closed", tmp_path / "mine"
    closed.touch()
    mine.mkdir()
    found = [Place(tmp_path, closed, closed), Place(tmp_path, mine, mine)]
    for module in (jobs_known, trace):
        monkeypatch.setattr(module, "places", lambda: found)
    ReportStore(mine).save(REPORT)
    assert "Job 12 serve" in report("12").output
    assert report("13").output == f"Error: report {closed}/13.json could not be read: Not a directory\n"
    looked = CliRunner().invoke(trace.command, ["12"]).output
    assert looked == f"Error: trace {closed}/12.trace.gz could not be read: Not a directory\n"
    told = {
        "format": "fikit-trace", "version": 1, "clients": [], "others": {},
        **{key: REPORT[key] for key in ("job", "name", "uid", "node", "priority", "policy", "state", "device")},
    }  # fmt: skip
    TraceStore(mine).save(told, [json.dumps(told).encode()])
    assert "traceEvents" in CliRunner().invoke(trace.command, ["12"]).output


def test_damaged_report_is_one_sentence(store: ReportStore) -> None:
    (store.directory / "12.json").write_text("{")
    result = report("12")
    assert result.exit_code == 1
    assert f"report {store.directory / '12.json'} could not be read" in result.output


@pytest.mark.skipif(os.geteuid() != 0, reason="needs several users")
def test_root_sees_everybodys_reports_with_their_users_and_asks_for_one_users(store: ReportStore) -> None:
    for uid, kernels in ((1234, 11), (4321, 22)):
        path = store.save({**REPORT, "uid": uid, "kernels": kernels})
        for given in (path, path.parent):
            os.chown(given, uid, uid)
    both = report("12")
    assert (both.exit_code, "of each of the uids 1234, 4321" in both.output) == (1, True)
    assert json.loads(report("12", "--user", "4321", "--json").output)["kernels"] == 22
    listed = report("--list").output
    assert " user " in listed
    assert (" 1234 " in listed, " 4321 " in listed) == (True, True)
    assert [record["uid"] for record in json.loads(report("--list", "--json", "--user", "1234").output)] == [1234]
    assert ["user", "4321"] in [line.split() for line in report("--user", "4321").output.splitlines()]
    assert report("12", "--user", "nobody-of-that-name").output == (
        'Error: there is no user "nobody-of-that-name"; use a name or a uid\n'
    )
