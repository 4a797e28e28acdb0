"""What is appended to a job's AdminComment, and when it is not; Slurm's commands are fakes."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from cli_samples import REPORT
from daemon_fakes import FakeCore, FakeProc
from daemon_in_thread import Daemon
from fikitd.api.client import Control
from fikitd.api.outcomes import UNKNOWN, of_report
from fikitd.config.fikit_toml import Config
from fikitd.jobs import admin_comment
from fikitd.jobs.admin_comment import GIVE_UP_S, AdminComments, NoAnswer, run, survives, text_of

TEXT = "fikit:gpu_s=3.210,wait_s=0.012,peak_mib=8964,priority=1,kept=1,emulated"


class FakeSlurm:
    """slurmdbd's jobs: number -> [name, state, comment]."""

    def __init__(self, **jobs: list[str]) -> None:
        self.jobs = {name.removeprefix("j"): list(facts) for name, facts in jobs.items()}
        self.down = ""
        self.asked = 0

    async def __call__(self, *command: str) -> str:
        self.asked += 1
        if self.down:
            raise NoAnswer(self.down)
        if command[0] == "sacctmgr":
            assert command[1:5] == ("--immediate", "modify", "job", "where")
            name, comment = command[5].removeprefix("jobid="), command[7].removeprefix("AdminComment=")
            [facts] = [facts for facts in self.jobs.values() if facts[0] == name]
            facts[2] = comment
            return ""
        job, columns = command[-3], command[-1]
        if columns == "AdminComment":
            [facts] = [facts for facts in self.jobs.values() if facts[0] == job]
            return facts[2] + "\n"
        rows = self.jobs.items() if job == "2" else [(n, f) for n, f in self.jobs.items() if n == job]
        return "".join(f"{number}|{facts[0]}|{facts[1]}\n" for number, facts in rows)


@pytest.fixture
def slurm() -> FakeSlurm:
    return FakeSlurm(j12=["12", "COMPLETED", ""])


def comments(
    run_dir: Path, slurm: FakeSlurm, *reports: dict[str, Any], after_s: int = 1, now: list[float] | None = None
) -> AdminComments:
    """With jobs that ended an hour ago."""
    now = [0.0] if now is None else now
    made = AdminComments(run_dir, after_s, slurm, lambda: now[0])
    for report in reports:
        made.note(report)
    now[0] += 3600
    return made


def waiting(run_dir: Path) -> list[str]:
    return sorted(path.name for path in (run_dir / "comments").glob("*"))


def test_what_the_controller_may_know_is_appended_and_what_nobody_knows_left_out() -> None:
    outcome = of_report(REPORT, 0.25, 0)
    assert outcome is not None
    assert text_of(REPORT, outcome) == TEXT.replace(
        ",priority", ",elapsed_s=9.000,busy=0.371,slowdown=1.040,given_s=0.250,priority"
    )
    assert "busy" not in text_of(REPORT, replace(outcome, busy=UNKNOWN))
    assert survives(text_of(REPORT, outcome))


def test_it_is_written_once_and_then_forgotten(tmp_path: Path, slurm: FakeSlurm) -> None:
    made = comments(tmp_path, slurm, REPORT)
    assert asyncio.run(made.round())
    assert slurm.jobs["12"][2] == TEXT
    assert waiting(tmp_path) == []
    asked = slurm.asked
    assert asyncio.run(made.round())
    assert slurm.asked == asked


def test_what_is_there_stays(tmp_path: Path, slurm: FakeSlurm) -> None:
    slurm.jobs["12"][2] = "node check ok | x=1\nsecond line"
    assert asyncio.run(comments(tmp_path, slurm, REPORT).round())
    assert slurm.jobs["12"][2] == f"node check ok | x=1\nsecond line;{TEXT}"
    assert asyncio.run(comments(tmp_path, slurm, REPORT).round())
    assert slurm.jobs["12"][2].count("fikit:") == 1


@pytest.mark.parametrize("there", ["JS1:H4sIAA", '{"a": 1}', "it's", "x" * 60_000])
def test_what_sacctmgr_would_change_is_left_alone(
    tmp_path: Path, slurm: FakeSlurm, there: str, caplog: pytest.LogCaptureFixture
) -> None:
    slurm.jobs["12"][2] = there
    slurm.jobs["13"] = ["13", "COMPLETED", there]
    assert asyncio.run(comments(tmp_path, slurm, REPORT, {**REPORT, "job": "13"}).round())
    assert [facts[2] for facts in slurm.jobs.values()] == [there, there]
    assert waiting(tmp_path) == []
    assert caplog.text.count("left as they are") == 1


def test_a_task_of_an_array_is_not_its_array(tmp_path: Path) -> None:
    slurm = FakeSlurm(j3=["2_0", "COMPLETED", "first"], j2=["2_1", "COMPLETED", "second"])
    assert asyncio.run(comments(tmp_path, slurm, {**REPORT, "job": "2"}).round())
    assert slurm.jobs == {"3": ["2_0", "COMPLETED", "first"], "2": ["2_1", "COMPLETED", f"second;{TEXT}"]}


@pytest.mark.parametrize("state", [None, "RUNNING", "PENDING"])
def test_it_waits_until_slurmdbd_knows_that_the_job_is_over(
    tmp_path: Path, slurm: FakeSlurm, state: str | None
) -> None:
    if state is None:
        del slurm.jobs["12"]
    else:
        slurm.jobs["12"][1] = state
    made = comments(tmp_path, slurm, REPORT)
    assert asyncio.run(made.round())
    assert waiting(tmp_path) == ["12"]
    slurm.jobs["12"] = ["12", "CANCELLED by 0", ""]
    assert asyncio.run(made.round())
    assert slurm.jobs["12"][2] == TEXT


def test_where_slurmdbd_does_not_answer_it_waits_and_says_so_once(
    tmp_path: Path, slurm: FakeSlurm, caplog: pytest.LogCaptureFixture
) -> None:
    slurm.down = "sacct: error: no connection"
    made = comments(tmp_path, slurm, REPORT, {**REPORT, "job": "13"})
    assert not asyncio.run(made.round())
    assert not asyncio.run(made.round())
    assert slurm.asked == 2, "one question tells"
    assert caplog.text.count("AdminComments have to wait: sacct: error: no connection") == 1
    slurm.down = ""
    slurm.jobs["13"] = ["13", "FAILED", ""]
    assert asyncio.run(comments(tmp_path, slurm).round()), "of the next fikitd"
    assert [facts[2] for facts in slurm.jobs.values()] == [TEXT, TEXT]


def test_what_cannot_be_written_for_a_day_is_given_up(
    tmp_path: Path, slurm: FakeSlurm, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    made = comments(tmp_path, slurm, REPORT, now=now)
    now[0] = GIVE_UP_S + 60
    assert asyncio.run(made.round())
    assert (waiting(tmp_path), slurm.asked) == ([], 0)
    assert "given up" in caplog.text


@pytest.mark.parametrize("step_s", [-10 * 86_400, 10 * 86_400], ids=["back", "forward"])
def test_a_clock_that_was_set_neither_delays_it_nor_gives_it_up(tmp_path: Path, slurm: FakeSlurm, step_s: int) -> None:
    made = comments(tmp_path, slurm, REPORT)
    noted = time.time() - step_s
    os.utime(tmp_path / "comments" / "12", (noted, noted))
    assert asyncio.run(made.round())
    assert (waiting(tmp_path), slurm.jobs["12"][2]) == ([], TEXT)


def test_it_is_not_yet_due(tmp_path: Path, slurm: FakeSlurm) -> None:
    made = AdminComments(tmp_path, 3600, slurm)
    made.note(REPORT)
    assert asyncio.run(made.round())
    assert (waiting(tmp_path), slurm.asked) == (["12"], 0)


def test_jobs_of_nobodys_cluster_and_of_sites_that_do_not_want_it_leave_nothing(
    tmp_path: Path, slurm: FakeSlurm
) -> None:
    comments(tmp_path, slurm, {**REPORT, "job": "run-77-1"})
    comments(tmp_path, slurm, REPORT, after_s=0)
    assert not (tmp_path / "comments").exists()
    assert Config().daemon.admin_comment_s == 0


def test_too_many_and_a_full_directory_are_a_line_in_the_log(
    tmp_path: Path, slurm: FakeSlurm, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_comment, "MOST", 1)
    comments(tmp_path, slurm, REPORT, {**REPORT, "job": "13"})
    assert waiting(tmp_path) == ["12"]
    assert "job 13: what it used cannot be put into its AdminComment: 1 others wait already" in caplog.text


def test_the_text_says_what_is_known_and_survives_sacctmgr() -> None:
    assert text_of(REPORT) == TEXT
    hardware = {**REPORT, "gpu_time_s": None, "device": {**REPORT["device"], "emulated": False}}
    assert text_of(hardware) == "fikit:gpu_s_at_most=8.420,wait_s=0.012,peak_mib=8964,priority=1,kept=1"
    assert ",kept" not in text_of({**hardware, "kept": None})
    assert text_of({**hardware, "kept": False}).endswith(",kept=0")
    assert text_of({**hardware, "span_s": 0.0}) == "fikit:wait_s=0.012,peak_mib=8964,priority=1,kept=1"
    assert survives(TEXT)


@pytest.mark.starts_processes
def test_commands_that_fail_or_are_not_there_are_one_sentence() -> None:
    assert asyncio.run(run("echo", "a|b")) == "a|b\n"
    for command, words in {
        ("no-such-command",): "there is no no-such-command in fikitd's PATH",
        ("sh", "-c", "echo first >&2; echo second >&2; exit 1"): "sh: second",
        ("sh", "-c", "exit 3"): "sh: exit code 3",
    }.items():
        with pytest.raises(NoAnswer, match=words):
            asyncio.run(run(*command))


@pytest.mark.starts_processes
def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_comment, "COMMAND_S", 0.1)
    with pytest.raises(NoAnswer, match=r"did not answer within 0\.1 s"):
        asyncio.run(run("sleep", "60"))


def test_the_end_of_a_job_only_leaves_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    config = fakes.config_in(tmp_path)
    config = Config(type(config.daemon)(**{**vars(config.daemon), "admin_comment_s": 3600}), config.scheduler)
    proc = FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(config, FakeCore(), proc.root):
        site = Daemon(config, FakeCore(), proc, Control(config.daemon.run_dir))
        site.job()
        site.client().close()
        site.control.end("12")
        assert waiting(Path(config.daemon.run_dir)) == ["12"]
    assert waiting(Path(config.daemon.run_dir)) == ["12"], "for the next fikitd"
    assert "AdminComment" not in caplog.text


def test_a_comment_that_is_no_utf8_is_left_as_it_is() -> None:
    assert not survives(b"caf\xe9".decode(errors="replace"))
    assert survives("café")
