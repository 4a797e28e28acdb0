"""The priority of a job that runs: who may change it, to what, and what a later fikitd and a requeued job know of it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from daemon_fakes import eventually
from daemon_in_thread import ME, Daemon, as_nobody
from fikit import site_paths
from fikit.cli import cli
from fikitd.api.client import ControlError
from fikitd.base.protocol import Device
from fikitd.jobs.ledger import Ledger
from fikitd.jobs.registry import Jobs
from fikitd.store.changed_priorities import ChangedPriorities
from fikitd.store.records import JobRecord, JobRecords

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")


def in_core(daemon: Daemon) -> list[int]:
    (dispatcher,) = daemon.core.dispatchers
    return [client["priority"] for client in dispatcher.clients.values()]


def test_clients_that_are_there_and_those_that_come_have_it(daemon: Daemon) -> None:
    daemon.job(priority=5)
    first = daemon.client()
    assert daemon.control.priority("12", 8) == 8
    assert in_core(daemon) == [8]
    second = daemon.client()
    eventually(lambda: in_core(daemon) == [8, 8])
    report = daemon.control.job("12")
    assert (report["priority"], report["priority_name"]) == (8, "low")
    assert any(
        "its priority was normal until" in sentence and "low from then on" in sentence
        for sentence in report["warnings"]
    )
    assert JobRecord.read(Path(daemon.run_dir) / "jobs" / "12").priority == 5, "the record is what was approved"
    assert daemon.control.priority("12", 5) == 5
    assert in_core(daemon) == [5, 5]
    first.close()
    second.close()


def test_a_job_that_comes_to_be_no_more_important_than_another_is_beside_others(tmp_path: Path) -> None:
    jobs = Jobs(records=JobRecords(tmp_path), files=cast("Any", None), ledger=Ledger(tmp_path), policy="budget")
    device = Device("Emulated GPU", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", 2**34)
    high, low = (jobs.of(record(job=job, priority=priority), device) for job, priority in (("12", 1), ("13", 8)))
    for job in (high, low):
        jobs.client_came(job, "gpu")
    assert (high.beside_others, low.beside_others) == (False, True)
    jobs.change_priority(record(job="12", priority=8))
    assert high.beside_others


def test_a_job_whose_programs_are_not_there_yet_has_it_too(daemon: Daemon) -> None:
    daemon.job(priority=5)
    assert daemon.control.priority("12", 7) == 7
    daemon.client().close()
    eventually(lambda: [client["priority"] for client in daemon.core.seen.values()] == [7])


@NEEDS_ROOT
def test_its_owner_may_lower_it_and_take_that_back_and_nobody_else(daemon: Daemon, tmp_path: Path) -> None:
    nobody = 65534
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o011)
    daemon.job(priority=5, uid=nobody)

    def ask(priority: int) -> int:
        return int(as_nobody(lambda: daemon.control.priority("12", priority)))

    assert ask(9) == 9
    assert ask(5) == 5
    with pytest.raises(ControlError, match="normal was approved for it, and only root may give it more"):
        ask(4)
    assert daemon.control.priority("12", 0) == 0  # root
    assert ask(8) == 8
    with pytest.raises(ControlError, match="only root may give it more"):
        ask(0)  # what root once gave is not what was approved
    daemon.job("13", priority=5)
    with pytest.raises(ControlError, match="not running under this fikitd, or is not yours"):
        as_nobody(lambda: daemon.control.priority("13", 9))


@pytest.mark.parametrize("said", ["10", "-1", "urgent", "5x", "\u0665"])
def test_what_is_no_priority_is_refused(daemon: Daemon, said: str) -> None:
    daemon.job(priority=5)
    with pytest.raises(ControlError, match=r"is not known; use high|in ASCII"):
        daemon.control._ask("priority", "12", said)


def test_who_measures_has_none(daemon: Daemon) -> None:
    daemon.job(priority=5, measure=True)
    with pytest.raises(ControlError, match="job 12 measures"):
        daemon.control.priority("12", 8)


def test_what_cannot_be_noted_changes_nothing(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.job(priority=5)
    client = daemon.client()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as broken:
        broken.setattr("fikitd.store.changed_priorities.write_atomic", full)
        with pytest.raises(ControlError, match="the priority of job 12 cannot be noted, so it stays: No space left"):
            daemon.control.priority("12", 8)
    assert in_core(daemon) == [5]
    assert daemon.control.job("12")["priority"] == 5
    client.close()


def record(**facts: Any) -> JobRecord:
    return JobRecord(**{"job": "12", "uid": ME, "gid": os.getgid(), "priority": 5, "started_ns": 7, **facts})


def test_the_next_fikitd_knows_it_and_a_requeued_job_begins_with_what_was_approved(tmp_path: Path) -> None:
    record().write(tmp_path)
    first = JobRecords(tmp_path)
    changed = first.change_priority(record(), 8)
    assert (changed.priority, changed.approved) == (8, 5)
    assert stat.S_IMODE((tmp_path / "priorities" / "12").stat().st_mode) == 0o600
    following = JobRecords(tmp_path)
    found = following.get("12")
    assert found is not None
    assert (found.priority, found.approved) == (8, 5)
    assert JobRecord.parse(found.text()) == found  # as the ledger keeps it
    record(started_ns=8).write(tmp_path)
    requeued = following.get("12")
    assert requeued is not None
    assert (requeued.priority, requeued.approved) == (5, None)


def test_of_jobs_that_are_over_nothing_stays(tmp_path: Path) -> None:
    records = JobRecords(tmp_path)
    for job in ("12", "13"):
        record(job=job).write(tmp_path)
        records.change_priority(record(job=job), 8)
    records.remove("12")
    records.forget_changes({each.job for each in records.all()})
    assert [path.name for path in (tmp_path / "priorities").iterdir()] == ["13"]
    assert records.in_force(record(job="13")).priority == 8
    assert records.in_force(record(job="12")).priority == 5


@pytest.mark.parametrize("text", ["", "{}", '{"started_ns": 7, "priority": 12}', '{"started_ns": 7}', "\0" * 8192])
def test_a_file_that_is_none_counts_as_no_change(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "priorities").mkdir()
    (tmp_path / "priorities" / "12").write_text(text)
    assert ChangedPriorities(tmp_path).in_force(record()).priority == 5
    assert "job 12 has the priority that was approved" in caplog.text


@pytest.fixture
def run(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    here = site_paths.Place(
        Path(daemon.run_dir), Path(daemon.config.daemon.report_dir), Path(daemon.config.daemon.profile_dir)
    )
    monkeypatch.setattr("fikit.commands.priority.places", lambda: [here])
    return lambda *arguments: CliRunner().invoke(cli, ["priority", *arguments])


def test_the_command_line_says_why_a_job_with_auto_has_its_priority(daemon: Daemon, run: Callable[..., Any]) -> None:
    daemon.job(priority=5, auto_highest=5, auto_lowest=8)
    client = daemon.client()
    assert run("12").output == "job 12 has priority normal: auto, and no other job with auto is on its GPU\n"
    assert run("12", "low").output == "job 12 has priority low\n"
    assert run("12").output.startswith(
        "job 12 has priority low: changed by `fikit priority`; `fikit priority JOBID auto`"
    )
    assert run("12", "auto").output == "job 12 has priority normal\n"
    said = json.loads(run("12", "--json").output)
    assert said["auto"] == {"highest": 5, "lowest": 8, "state": "alone", "rest_s": None, "runs": 0}
    assert daemon.control.node()["clients"][0]["auto"] == "alone"
    client.close()


def test_the_command_line_shows_and_changes_it(daemon: Daemon, run: Callable[..., Any]) -> None:
    daemon.job(priority=5)
    client = daemon.client()
    assert run("12").output == "job 12 has priority normal\n"
    assert run("12", "low").output == "job 12 has priority low\n"
    assert json.loads(run("12", "7", "--json").output) == {"job": "12", "priority": 7, "priority_name": "7"}
    assert in_core(daemon) == [7]
    wrong = run("12", "hihg")
    assert wrong.exit_code == 2
    assert 'priority "hihg" is not known; use high' in wrong.output
    unknown = run("99", "low")
    assert unknown.exit_code == 1
    assert "srun --overlap --jobid=99 fikit priority 99 8" in unknown.output
    client.close()
