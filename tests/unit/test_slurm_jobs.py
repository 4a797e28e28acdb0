"""Users know 12_3; reports and traces have the task's own number."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_samples import REPORT, site_without_daemon
from click.testing import CliRunner
from fikit import slurm_jobs
from fikit.commands import report, trace
from fikitd.reports import ReportStore


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


@pytest.mark.parametrize("jobid", ["12_3", "12+1"])
def test_slurmctld_knows_a_jobs_own_number(slurm: Path, jobid: str) -> None:
    program(slurm / "scontrol", "JobId=15 ArrayJobId=12 ArrayTaskId=3 JobName=a\\n")
    assert slurm_jobs.number(jobid) == "15"


def test_slurmdbd_knows_it_where_slurmctld_has_forgotten(slurm: Path) -> None:
    program(slurm / "scontrol", "Invalid job id specified", 1)
    program(slurm / "sacct", "15\\n15\\n")
    assert slurm_jobs.number("12_3") == "15"


def test_nobody_knows_it(slurm: Path) -> None:
    assert slurm_jobs.number("12_3") == "12_3"
    program(slurm / "sacct", "")
    assert slurm_jobs.number("12_3") == "12_3"


@pytest.mark.parametrize("jobid", ["12", "run-1", "12_x", "12_3; true", "-M other 1_1"])
def test_what_is_no_task_is_not_asked_about(slurm: Path, jobid: str) -> None:
    program(slurm / "scontrol", "JobId=15 \\n")
    assert slurm_jobs.number(jobid) == jobid


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
