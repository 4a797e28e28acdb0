"""`fikit mail`: the line about a job that has just ended, by its report or by the controller's numbers."""

from __future__ import annotations

import os
import pwd
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_samples import REPORT, site_without_daemon
from click.testing import CliRunner, Result
from fikit.commands import mail
from fikit.slurm import jobs
from fikitd.api.outcomes import UNKNOWN, Outcome, Spool
from fikitd.api.reports import NOT_STORED, ReportStore

LINE = "fikit: job 12 high: 1.04x of its time alone (1.05x allowed), 1834 kernels, GPU time 3.2 s, waited 12 ms (emulated GPU). Details: fikit-report 12\n"
OUTCOME = Outcome(12, 1001, 7, 0, 734.0, 0.61, 9523, 1.0395, 1.0, 0, 0, 1)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportStore:
    monkeypatch.setattr(jobs, "shown", lambda job: "")
    return ReportStore(site_without_daemon(tmp_path, monkeypatch))


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(mail.command, list(arguments))


def at(seconds_ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds_ago))


def ended(seconds_ago: float, **facts: Any) -> dict[str, Any]:
    return {**REPORT, "warnings": [], "started": at(seconds_ago + 9), "ended": at(seconds_ago), **facts}


def spool(tmp_path: Path, outcome: Outcome) -> None:
    directory = tmp_path / "outcomes"
    directory.mkdir(mode=0o755, exist_ok=True)
    Spool(str(directory), pwd.getpwuid(os.geteuid()).pw_name, "n1").add(outcome)
    config = Path(os.environ["FIKIT_CONFIG"])
    text = config.read_text()
    if "outcomes_dir" not in text:
        user = pwd.getpwuid(os.geteuid()).pw_name
        config.write_text(
            text.replace("[daemon]\n", f'[daemon]\noutcomes_dir = "{directory}"\noutcomes_user = "{user}"\n')
        )


def test_of_a_report_it_is_the_reports_line(store: ReportStore) -> None:
    store.save(ended(5))
    assert ask("12").stdout == LINE


def test_an_older_report_of_that_number_is_of_an_earlier_run(store: ReportStore) -> None:
    store.save(ended(3600))
    said = ask("12")
    assert (said.exit_code, said.output) == (1, "Error: there is no report of job 12, ended in the last 15 minutes\n")


def test_who_may_read_no_report_has_the_controllers_numbers(store: ReportStore, tmp_path: Path) -> None:
    spool(tmp_path, replace(OUTCOME, ended_s=int(time.time()) - 5))
    assert ask("12").stdout == (
        "fikit: job 12 high: ran 12 min, 1.04x of its time alone, GPU busy 61 % of its time alone, peak 9.30 GiB. Details: fikit-report 12\n"
    )
    spool(tmp_path, replace(OUTCOME, job=13, ended_s=int(time.time()) - 3600))
    assert ask("13").exit_code == 1


def test_of_what_is_not_known_nothing_is_said(store: ReportStore, tmp_path: Path) -> None:
    spool(
        tmp_path,
        replace(OUTCOME, ended_s=int(time.time()), busy=UNKNOWN, slowdown=UNKNOWN, peak_mib=0, emulated=1, priority=3),
    )
    assert ask("12").stdout == "fikit: job 12 3: ran 12 min (emulated GPU). Details: fikit-report 12\n"


class Clock:
    """Time that passes by sleeping; what `later` does happens after so many seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after_s: float, later: Any) -> None:
        self.now_s, self._after_s, self._later = 0.0, after_s, later
        monkeypatch.setattr(mail.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(mail.time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self._later is not None and self.now_s >= self._after_s:
            self._later()
            self._later = None


@pytest.mark.parametrize("shown", ["JobId=12 ... TresPerNode=gres:shard:4 ...", "JobId=12 TRES=cpu=1,gres/gpu=1 ..."])
def test_a_job_with_a_gpu_is_waited_for(store: ReportStore, monkeypatch: pytest.MonkeyPatch, shown: str) -> None:
    monkeypatch.setattr(jobs, "shown", lambda job: shown)
    clock = Clock(monkeypatch, 3.0, lambda: store.save(ended(1)))
    assert ask("12", "--wait", "20").stdout == LINE
    assert clock.now_s == 3.0


def test_it_is_waited_for_no_longer_than_asked(store: ReportStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "shown", lambda job: "TresPerNode=gres:shard:4")
    clock = Clock(monkeypatch, 99.0, None)
    assert ask("12", "--wait", "20").exit_code == 1
    assert clock.now_s == 20.0


def test_a_job_without_a_gpu_delays_no_mail(store: ReportStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "shown", lambda job: "JobId=12 JobName=gres_gpu_x TRES=cpu=1 Comment=shard")
    clock = Clock(monkeypatch, 99.0, None)
    assert ask("12", "--wait", "20").exit_code == 1
    assert clock.now_s == 0


def test_a_report_of_a_job_that_still_runs_is_not_the_last_word(store: ReportStore) -> None:
    store.save(ended(5, state="running", ended=None))
    assert ask("12").exit_code == 1


def test_what_a_user_wrote_into_the_own_report_stays_one_line_of_plain_text(store: ReportStore) -> None:
    store.save(ended(5, warnings=[f"{NOT_STORED}: x\r\n.\r\nSubject: y\x1b[2J\x00"]))
    said = ask("12").stdout
    assert (said.count("\n"), said.endswith("\n")) == (1, True)
    assert said[:-1].isprintable()
    assert "Subject: y" in said


@pytest.mark.parametrize("job", ["", "12_3", "../12", "１２", "-1"])
def test_what_is_no_number_is_refused(store: ReportStore, job: str) -> None:
    said = ask("--", job)
    assert said.exit_code == 2
    assert "is no number of a job" in said.output
