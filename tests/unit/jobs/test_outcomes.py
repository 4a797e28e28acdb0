"""What the controller may know of a run: written by fikitd, read by whoever places jobs, and trusted by neither."""

from __future__ import annotations

import os
import pwd
import stat
import time
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from cli_samples import REPORT
from daemon_fakes import FakeCore, FakeProc
from daemon_in_thread import Daemon
from fikitd.api import outcomes
from fikitd.api.client import Control
from fikitd.api.outcomes import (
    HEAD,
    MOST,
    MOST_OF_NAME,
    SUFFIX,
    UNKNOWN,
    Outcome,
    Spool,
    bounded,
    history,
    name_key,
    of_report,
    read,
)
from hypothesis import given
from hypothesis import strategies as st

ME = pwd.getpwuid(os.geteuid()).pw_name
ENDED_S = 1_790_000_000


def outcome(**facts: Any) -> Outcome:
    return Outcome(
        **{
            "job": 12, "uid": 1000, "name": name_key("serve"), "ended_s": ENDED_S, "elapsed_s": 9.0, "busy": 0.37,
            "peak_mib": 8964, "slowdown": 1.04, "given_s": 0.25, "emulated": 1, "gpu": name_key("GPU-0"), "priority": 1, **facts,
        }
    )  # fmt: skip


def spooled(directory: Path, *outcomes: Outcome, node: str = "n1") -> Path:
    spool = Spool(str(directory), ME, node)
    for each in outcomes:
        spool.add(each)
    return directory / f"{node}{SUFFIX}"


def test_a_report_becomes_numbers() -> None:
    said = of_report(REPORT, 0.25, ENDED_S)
    assert said == outcome(uid=REPORT["uid"], busy=REPORT["gpu_time_s"] / REPORT["alone_s"], slowdown=1.0395)
    assert not set(said.text()) - set("0123456789.- "), "whatever the job is called"


def test_what_a_report_does_not_know_is_unknown() -> None:
    said = of_report({**REPORT, "slowdown": None, "gpu_time_s": None}, 0, ENDED_S)
    assert said is not None
    assert (said.slowdown, said.busy) == (UNKNOWN, UNKNOWN)
    assert Outcome.parse(said.text()) == said


def test_nobody_is_busy_for_more_than_all_the_time() -> None:
    said = of_report({**REPORT, "gpu_time_s": 2 * REPORT["alone_s"]}, 0, ENDED_S)
    assert said is not None
    assert said.busy == 1.0


def test_jobs_that_are_not_slurms_or_launched_nothing_have_none() -> None:
    assert of_report({**REPORT, "job": "run-7-1"}, 0, 0) is None
    assert of_report({**REPORT, "kernels": 0}, 0, 0) is None


def test_the_spool_of_each_node_is_read_the_newest_first(tmp_path: Path) -> None:
    path = spooled(tmp_path, outcome(ended_s=ENDED_S), outcome(ended_s=ENDED_S + 9))
    spooled(tmp_path, outcome(ended_s=ENDED_S + 5), node="n2")
    assert [each.ended_s - ENDED_S for each in read(tmp_path)] == [9, 5, 0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o400


def test_the_spool_is_bounded(tmp_path: Path) -> None:
    path = spooled(tmp_path, outcome())
    path.chmod(0o600)
    path.write_text("\n".join([HEAD, *(outcome(job=number, name=number).text() for number in range(MOST)), ""]))
    spooled(tmp_path, outcome(job=7777))
    jobs = [each.job for each in sorted(read(tmp_path), key=lambda each: each.job)]
    assert (len(jobs), jobs[0], jobs[-1]) == (MOST, 1, 7777), "the oldest went"
    assert len(path.read_text().splitlines()) == 1 + MOST


def test_no_more_is_read_than_the_spool_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = spooled(tmp_path, outcome())
    path.chmod(0o600)
    path.write_text("\n".join([HEAD, *(outcome(job=number).text() for number in range(MOST + 5)), ""]))
    assert sorted(each.job for each in read(tmp_path)) == list(range(5, MOST + 5)), "the newest"
    spooled(tmp_path, outcome(job=9001), node="n2")
    spooled(tmp_path, outcome(job=9002), node="n3")
    monkeypatch.setattr(outcomes, "MOST_FILES", 2)
    assert [each.job for each in read(tmp_path) if each.job > 9000] == [9001]


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs a second uid")
NOBODY = pwd.getpwnam("nobody")


@AS_ROOT
def test_only_files_of_root_and_of_whom_the_reader_trusts_are_read(tmp_path: Path) -> None:
    path = spooled(tmp_path, outcome())
    os.chown(path, NOBODY.pw_uid, -1)
    assert read(tmp_path) == []
    assert len(read(tmp_path, [NOBODY.pw_uid])) == 1


@AS_ROOT
def test_the_file_is_its_users_and_goes_on(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path), NOBODY.pw_name, "n1")
    spool.add(outcome())
    spool.add(outcome(job=13))
    status = (tmp_path / f"n1{SUFFIX}").stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (NOBODY.pw_uid, 0o400)
    assert sorted(each.job for each in read(tmp_path, [NOBODY.pw_uid])) == [12, 13]


@AS_ROOT
def test_a_directory_of_another_user_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.chown(tmp_path, NOBODY.pw_uid, -1)
    spooled(tmp_path, outcome())
    assert len(caplog.messages) == 1
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="written by others"):
        read(tmp_path)


def test_a_fault_that_comes_again_is_told_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool = Spool(str(tmp_path / "spool"), ME, "n1")
    spool.add(outcome())
    (tmp_path / "spool").mkdir(mode=0o700)
    spool.add(outcome())
    (tmp_path / "spool").chmod(0o777)
    spool.add(outcome())
    assert len(caplog.messages) == 2


def test_who_has_many_runs_pushes_out_nobody_elses() -> None:
    kept = [outcome(job=1, uid=7), outcome(job=2, uid=8)]
    for number in range(3 * MOST_OF_NAME):
        kept = bounded([*kept, outcome(job=number + 10)])
    assert [each.job for each in kept[:2]] == [1, 2]
    assert len(kept) == 2 + MOST_OF_NAME, "of one name the newest"
    names = [outcome(job=number + 10, name=number) for number in range(MOST - 2)]
    full = [outcome(job=1, uid=7), outcome(job=2, uid=8), *names]
    assert [each.job for each in bounded([*full, outcome(job=9, uid=8, name=5)])][:3] == [1, 2, 11], (
        "the oldest of who has most goes"
    )
    assert len(bounded([*full, outcome(job=9, uid=8, name=5)])) == MOST


def test_a_file_of_before_is_read_and_goes_on_as_one_of_now(tmp_path: Path) -> None:
    path = spooled(tmp_path, outcome())
    path.chmod(0o600)
    path.write_text(f"fikit-runs 1\n{outcome(job=7).text().rsplit(' ', 2)[0]}\n")
    assert read(tmp_path) == [outcome(job=7, gpu=0, priority=5)]
    spooled(tmp_path, outcome(job=8))
    assert path.read_text().startswith(f"{HEAD}\n")
    assert sorted(each.job for each in read(tmp_path)) == [7, 8]


def test_no_directory_no_spool(tmp_path: Path) -> None:
    Spool("", ME, "n1").add(outcome())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", ["user", "directory", "open"])
def test_a_spool_that_cannot_be_is_one_line_in_the_log(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "spool"
    if fault != "directory":
        directory.mkdir(mode=0o700)
    if fault == "open":
        directory.chmod(0o777)
    spool = Spool(str(directory), "nobody-of-that-name" if fault == "user" else ME, "n1")
    spool.add(outcome())
    spool.add(outcome())
    assert len(caplog.messages) == 1
    said = {"user": "there is no user nobody-of-that-name", "directory": "No such file", "open": "written by others"}
    assert said[fault] in caplog.messages[0]
    assert not directory.exists() or not list(directory.iterdir())


def test_lines_and_files_that_are_none_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = spooled(tmp_path, outcome())
    path.chmod(0o600)
    path.write_text(path.read_text() + "12 x\n" + outcome(job=13).text() + "\n" + outcome().text() + " 1\n")
    (tmp_path / f"other{SUFFIX}").write_text("what is this\n")
    (tmp_path / f"open{SUFFIX}").write_text(f"{HEAD}\n{outcome(job=66).text()}\n")
    (tmp_path / f"open{SUFFIX}").chmod(0o666)
    (tmp_path / f"link{SUFFIX}").symlink_to(path)
    (tmp_path / f"group{SUFFIX}").write_text(f"{HEAD}\n{outcome(job=67).text()}\n")
    (tmp_path / f"group{SUFFIX}").chmod(0o620)
    (tmp_path / f"no node{SUFFIX}").write_text(f"{HEAD}\n{outcome(job=68).text()}\n")
    os.mkfifo(tmp_path / f"pipe{SUFFIX}", 0o600)
    assert sorted(each.job for each in read(tmp_path)) == [12, 13]
    assert len(caplog.messages) == 6


def test_a_node_with_a_wrong_clock_is_not_the_newest_for_years(tmp_path: Path) -> None:
    spooled(tmp_path, outcome(ended_s=int(time.time()) + 10**6), outcome(job=13))
    assert [each.job for each in read(tmp_path)] == [13]


def test_history_is_by_user_and_name() -> None:
    runs = [outcome(job=1), outcome(job=2, uid=7), outcome(job=3), outcome(job=4, name=name_key("train"))]
    found = history(runs, most=1)
    assert {key: [each.job for each in known] for key, known in found.items()} == {
        (1000, name_key("serve")): [1], (7, name_key("serve")): [2], (1000, name_key("train")): [4],
    }  # fmt: skip


@given(st.text(max_size=120))
def test_whatever_stands_in_a_line_it_is_an_outcome_or_refused(text: str) -> None:
    try:
        said = Outcome.parse(text)
    except ValueError:
        return
    assert Outcome.parse(said.text()) == said


@given(
    st.lists(
        st.sampled_from(["1", "-1", "0.5", "-1.0", "1e5", "nan", "inf", "٣", "99999999999999999999", "-0", ""]),
        min_size=10,
        max_size=10,
    )
)
def test_numbers_are_numbers_within_bounds(words: list[str]) -> None:
    try:
        said = Outcome.parse(" ".join(words))
    except ValueError:
        return
    assert said.job >= 0
    assert all(
        value == UNKNOWN or 0 <= value <= 1e15 for value in (said.elapsed_s, said.busy, said.slowdown, said.given_s)
    )


def test_a_job_that_is_over_is_in_the_spool_with_what_it_cost_others(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o700)
    config = fakes.config_in(tmp_path)
    daemon_config = type(config.daemon)(**{**vars(config.daemon), "outcomes_dir": str(spool), "outcomes_user": ME})
    config = type(config)(**{**vars(config), "daemon": daemon_config})
    core, proc = FakeCore(), FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    with fakes.serving(config, core, proc.root):
        daemon = Daemon(config, core, proc, Control(config.daemon.run_dir))
        daemon.job("12")
        low = daemon.client()
        daemon.job("13")
        high = daemon.client()
        low.send(fakes.description(slot=1))
        fakes.eventually(lambda: core.seen[1]["described"])
        core.stats = {
            "held": [
                {
                    "reason": "behind",
                    "by": 1,
                    "kernel": "",
                    "p90_ns": None,
                    "count": 1,
                    "total_ns": 7,
                    "cost_ns": 5 * 10**8,
                },
                {
                    "reason": "lower_work",
                    "by": 1,
                    "kernel": "",
                    "p90_ns": None,
                    "count": 1,
                    "total_ns": 10**9,
                    "cost_ns": 0,
                },
            ]
        }
        low.close()
        fakes.eventually(lambda: daemon.control.job("12")["state"] == "ended")
        daemon.control.end("12")
        (said,) = fakes.eventually(lambda: read(spool))
        high.close()
    assert (said.job, said.name, said.given_s) == (12, name_key(""), 1.5)
    assert said.gpu not in (0, name_key("")), "the pairs of fikitd.history.pairs are by GPU"
    assert said.priority == 1
