"""Users know 12_3 and 12+1; reports and traces have the task's own number."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from cli_samples import REPORT, site_without_daemon, without_advice
from click.testing import CliRunner
from fikit.commands import report, trace
from fikit.slurm import jobs as slurm_jobs
from fikitd.api.reports import ReportStore


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a test puts its scontrol and sacct; there are no others."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


def program(path: Path, lines: str, code: int = 0) -> None:
    path.write_text(f"#!/bin/sh\nprintf '{lines}'\nexit {code}\n")
    path.chmod(0o755)


@pytest.mark.starts_processes
@pytest.mark.parametrize("jobid", ["12_3", "12+1"])
def test_slurmctld_knows_a_jobs_own_number(slurm: Path, jobid: str) -> None:
    program(slurm / "scontrol", "JobId=15 ArrayJobId=12 ArrayTaskId=3 JobName=a\\n")
    assert slurm_jobs.number(jobid) == "15"


@pytest.mark.starts_processes
def test_slurmdbd_knows_it_where_slurmctld_has_forgotten(slurm: Path) -> None:
    program(slurm / "scontrol", "Invalid job id specified", 1)
    program(slurm / "sacct", "15\\n15\\n")
    assert slurm_jobs.number("12_3") == "15"


@pytest.mark.starts_processes
def test_names_that_are_no_utf8_and_answers_that_are_no_number_are_borne(slurm: Path) -> None:
    program(slurm / "scontrol", "JobId=15 ArrayJobId=12 JobName=caf\\351\\033[2J\n")
    assert slurm_jobs.number("12_3") == "15"
    program(slurm / "scontrol", "", 1)
    program(slurm / "sacct", "../\\033[2J\n")
    assert slurm_jobs.number("12_3") == "12_3"


@pytest.mark.starts_processes
def test_nobody_knows_it(slurm: Path) -> None:
    assert slurm_jobs.number("12_3") == "12_3"
    program(slurm / "sacct", "")
    assert slurm_jobs.number("12_3") == "12_3"


@pytest.mark.parametrize("jobid", ["12", "run-1", "12_x", "12_3; true", "-M other 1_1"])
def test_what_is_no_task_is_not_asked_about(slurm: Path, jobid: str) -> None:
    program(slurm / "scontrol", "JobId=15 \\n")
    assert slurm_jobs.number(jobid) == jobid


@pytest.mark.starts_processes
def test_a_task_has_its_report(slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ReportStore(site_without_daemon(tmp_path, monkeypatch)).save({**REPORT, "job": "15"})
    program(slurm / "scontrol", "JobId=15 ArrayJobId=12\\n")
    assert "Job 15" in CliRunner().invoke(report.command, ["12_3"]).output


def test_a_task_that_slurm_has_forgotten_is_told_where_its_number_is(
    slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site_without_daemon(tmp_path, monkeypatch)
    for command in (report.command, trace.command):
        done = CliRunner().invoke(command, ["12_3"])
        assert done.exit_code == 1
        assert "its own number" in done.output


ME = str(os.getuid())


@pytest.fixture
def array(slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportStore:
    """Array 12, whose last task has its number; Slurm has forgotten it."""
    store = ReportStore(site_without_daemon(tmp_path, monkeypatch))
    for number, task in (("12", "12_20"), ("13", "12_3"), ("14", ""), ("15", "123_1")):
        store.save({**REPORT, "job": number, "array": task})
    return store


def test_a_task_is_found_by_its_report_when_slurm_has_forgotten_it(array: ReportStore) -> None:
    assert "Job 13 (12_3) serve" in CliRunner().invoke(report.command, ["12_3"]).output
    assert "Job 12 (12_20) serve" in CliRunner().invoke(report.command, ["12_20"]).output


def test_an_arrays_number_lists_its_tasks_and_says_how_to_ask_for_one(array: ReportStore) -> None:
    shown = CliRunner().invoke(report.command, ["12"]).output
    assert [line.split()[1] for line in shown.splitlines() if "serve" in line] == ["(12_3)", "(12_20)"]
    assert "Job 12 is an array. One of its tasks: fikit-report 12_TASK" in shown
    (array.directory / ME / "12.json").unlink()
    assert "is an array" in CliRunner().invoke(report.command, ["12"]).output, "as long as one of its tasks is known"


def test_a_task_that_is_all_there_is_of_its_array_is_shown(array: ReportStore) -> None:
    (array.directory / ME / "13.json").unlink()
    assert "Job 12 (12_20) serve" in CliRunner().invoke(report.command, ["12"]).output
    assert "Job 14 serve" in CliRunner().invoke(report.command, ["14"]).output


def test_programs_get_a_list_for_an_arrays_number_however_many_tasks_there_are(array: ReportStore) -> None:
    def said(jobid: str) -> object:
        return without_advice(CliRunner().invoke(report.command, [jobid, "--json"]).output)

    def tasks() -> list[str]:
        records = said("12")
        assert isinstance(records, list)
        return [record["array"] for record in records]

    assert tasks() == ["12_3", "12_20"]
    for jobid, own in (("12_3", "13"), ("12_20", "12"), ("13", "13"), ("14", "14")):
        assert said(jobid) == array.load(own), "one job's record is an object"
    (array.directory / ME / "13.json").unlink()
    assert tasks() == ["12_20"]
    (array.directory / ME / "12.json").unlink()
    array.save({**REPORT, "job": "13", "array": "12_3"})
    assert tasks() == ["12_3"]


def test_a_trace_is_of_one_task(array: ReportStore) -> None:
    done = CliRunner().invoke(trace.command, ["12"])
    assert (done.exit_code, done.output) == (1, "Error: job 12 is an array: name one of its tasks, 12_3, 12_20\n")
    assert "there is no trace of job 13 " in CliRunner().invoke(trace.command, ["12_3"]).output
    (array.directory / ME / "13.json").unlink()
    assert "there is no trace of job 12 " in CliRunner().invoke(trace.command, ["12"]).output, "the one that there is"


@pytest.fixture
def het(slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportStore:
    """Heterogeneous job 12, whose second component shared no GPU; Slurm has forgotten it."""
    store = ReportStore(site_without_daemon(tmp_path, monkeypatch))
    for number, component in (("12", "12+0"), ("14", "12+2"), ("22", "12+10"), ("15", ""), ("16", "123+0")):
        store.save({**REPORT, "job": number, "het": component})
    return store


def test_components_are_found_by_their_reports_when_slurm_has_forgotten_them(het: ReportStore) -> None:
    assert "Job 14 (12+2) serve" in CliRunner().invoke(report.command, ["12+2"]).output
    assert "Job 12 (12+0) serve" in CliRunner().invoke(report.command, ["12+0"]).output
    assert without_advice(CliRunner().invoke(report.command, ["12+2", "--json"]).output) == het.load("14")
    assert "there is no report of job 12+1" in CliRunner().invoke(report.command, ["12+1"]).output
    assert "there is no trace of job 14 " in CliRunner().invoke(trace.command, ["12+2"]).output


def test_the_number_of_a_heterogeneous_job_lists_its_components(het: ReportStore) -> None:
    shown = CliRunner().invoke(report.command, ["12"]).output
    assert [line.split()[1] for line in shown.splitlines() if "serve" in line] == ["(12+0)", "(12+2)", "(12+10)"]
    assert "Job 12 is a heterogeneous job. One of its components: fikit-report 12+COMPONENT" in shown
    records = json.loads(CliRunner().invoke(report.command, ["12", "--json"]).output)
    assert [record["het"] for record in records] == ["12+0", "12+2", "12+10"]
    done = CliRunner().invoke(trace.command, ["12"])
    known = "12+0, 12+2, 12+10"
    assert done.output == f"Error: job 12 is a heterogeneous job: name one of its components, {known}\n"


@pytest.mark.parametrize("text", ["12_x", "12_3_4", "_", "[red]", "-1_2"])
def test_what_a_user_wrote_into_a_report_is_no_task(array: ReportStore, text: str) -> None:
    array.save({**REPORT, "job": "16", "array": text})
    assert CliRunner().invoke(report.command, ["12"]).exit_code == 0
    assert CliRunner().invoke(report.command, ["--list"]).exit_code == 0
