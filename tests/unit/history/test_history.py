"""What is known of a job from the earlier runs of its user and name: expectations, whom a false name costs, and hostile input."""

from __future__ import annotations

import os
import time
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from cli_samples import REPORT
from fikitd.api.outcomes import HEAD, MOST_OF_NAME, SUFFIX, UNKNOWN, Outcome, name_key, recorded_name
from fikitd.history import JobHistory, SpoolHistory, accounting, own_reports
from fikitd.history.known import MOST_OF_USER, Rest
from hypothesis import given
from hypothesis import strategies as st

ENDED_S = 1_790_000_000
ME, OTHER = 1000, 1001


def run(elapsed_s: float, name: str = "train", **facts: Any) -> Outcome:
    return Outcome(
        **{
            "job": 1, "uid": ME, "name": name_key(name), "ended_s": ENDED_S, "elapsed_s": elapsed_s, "busy": UNKNOWN,
            "peak_mib": 0, "slowdown": UNKNOWN, "given_s": UNKNOWN, "emulated": 0, **facts,
        }
    )  # fmt: skip


def rest(
    history: JobHistory, elapsed_s: float = 0.0, limit_s: float = inf, name: str = "train", user: int = ME
) -> Rest:
    said = history.expected_rest(user, name, elapsed_s, limit_s)
    assert said is not None
    return said


def test_by_its_name_a_job_is_expected_to_run_as_those_that_lasted_longer() -> None:
    history = JobHistory([run(10), run(20), run(60)])
    assert rest(history) == (30, "name", 3)
    assert rest(history, 10) == (30, "name", 3), "20 and 60 are left: 10 and 50 to go"
    assert rest(history, 59) == (1, "name", 3)
    assert rest(history, 90) == (90, "name", 3), "outlived them all: as long again"


def test_never_more_than_the_limit_leaves() -> None:
    history = JobHistory([run(1000)])
    assert rest(history, 0, 300).rest_s == 300
    assert rest(history, 299, 300).rest_s == 1
    assert rest(history, 400, 300).rest_s == 0


def test_without_runs_of_its_name_the_users_count_then_the_users_of_the_cluster_then_the_limit() -> None:
    mine = [run(s, f"job{s}") for s in (10, 20, 400)]
    theirs = [run(5000, "x", uid=OTHER)]
    assert rest(JobHistory(mine + theirs), name="new") == (20, "user", 3)
    assert rest(JobHistory(mine + theirs), name="new", user=7) == ((20 + 5000) / 2, "cluster", 2)
    assert rest(JobHistory(), limit_s=60) == (60, "limit", 0)
    assert JobHistory().expected_rest(ME, "new") is None


def test_a_run_counts_with_its_time_alone() -> None:
    history = JobHistory([run(30, slowdown=3.0), run(12, slowdown=0.5), run(11), run(500, slowdown=1e15), run(0.0001)])
    assert history.runs_s(ME, "train") == [5, 11, 12, 10], (
        "no run is longer alone, or is made short by what its job says of itself"
    )


def test_a_long_job_that_calls_itself_short_is_found_out_and_costs_nobody_else() -> None:
    honest = [run(20, "eval", uid=OTHER)] * 5
    short = [run(10, "quick")] * 5
    before, other = rest(JobHistory([*short, *honest]), name="quick"), rest(JobHistory(honest), name="eval", user=OTHER)
    assert before.rest_s == 10
    lying = JobHistory([*short, *honest])
    for elapsed_s in (11.0, 100.0, 5000.0):
        assert rest(lying, elapsed_s, name="quick").rest_s >= elapsed_s, "while it runs it is the longer one soon"
    lied = JobHistory([run(50_000, "quick", ended_s=ENDED_S + 1), *short, *honest])
    assert rest(lied, name="quick").rest_s > 8000, "one run, and the name is no short one any more"
    assert rest(lied, 11.0, name="quick").rest_s > 49_000
    assert rest(lied, name="eval", user=OTHER) == other, "nobody else's expectation has changed"


def test_who_has_many_runs_does_not_speak_for_the_cluster() -> None:
    many = [run(1, f"flood{number}", uid=666, job=number) for number in range(3000)]
    others = [run(1000, "a", uid=1), run(2000, "b", uid=2)]
    said = rest(JobHistory(many + others), name="new", user=3)
    assert said == (1000, "cluster", 3)
    assert len(JobHistory(many + others)) == MOST_OF_USER + 2


def test_the_newest_runs_of_a_name_count() -> None:
    runs = [run(1000, ended_s=ENDED_S + number) for number in range(MOST_OF_NAME)]
    assert rest(JobHistory([run(1, ended_s=ENDED_S - 9), *runs])) == (1000, "name", MOST_OF_NAME)
    assert rest(JobHistory([*runs, run(1, ended_s=ENDED_S + 999)])).rest_s < 1000


def test_what_the_runs_of_a_name_were() -> None:
    runs = [
        run(10, busy=0.25, peak_mib=100, slowdown=1.0, given_s=1.0, ended_s=1),
        run(20, busy=0.75, peak_mib=300, slowdown=2.0, given_s=UNKNOWN, emulated=1, ended_s=2),
        run(40, busy=UNKNOWN, peak_mib=200, ended_s=3),
    ]
    known = JobHistory(runs).known(ME, "train")
    assert known is not None
    assert (known.runs, known.run_s, known.busy, known.peak_bytes) == (3, (10, 10, 40), 0.5, 300 * 2**20)
    assert (known.slowdown, known.given, known.emulated) == (1.5, 0.1, True)
    assert JobHistory(runs).known(OTHER, "train") is None
    nothing = JobHistory([run(10)]).known(ME, "train")
    assert nothing is not None
    assert (nothing.busy, nothing.peak_bytes, nothing.slowdown, nothing.given) == (None, None, None, None)


def test_the_usual_busy_share_has_one_voice_for_each_user() -> None:
    runs = [run(1, busy=0.1, uid=1)] * 50 + [run(1, busy=0.5, uid=2), run(1, busy=0.9, uid=3)]
    assert JobHistory(runs).usual_busy() == 0.5
    assert JobHistory([run(1)]).usual_busy() is None


@pytest.mark.parametrize("times", [(-1.0, 5.0), (float("nan"), 5.0), (1.0, float("nan")), (1.0, -5.0)])
def test_times_that_are_none_are_refused(times: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="cannot have run"):
        JobHistory().expected_rest(ME, "x", *times)


number = st.one_of(st.just(UNKNOWN), st.floats(0, 1e15))
outcomes_ = st.lists(
    st.builds(
        Outcome, job=st.integers(0, 99), uid=st.integers(0, 3), name=st.sampled_from([name_key("a"), name_key("b"), 0]),
        ended_s=st.integers(0, 10**15), elapsed_s=number, busy=number, peak_mib=st.integers(0, 10**15), slowdown=number,
        given_s=number, emulated=st.integers(0, 10**15),
    ),
    max_size=30,
)  # fmt: skip


@given(
    outcomes_, st.integers(0, 4), st.sampled_from("abc"), st.floats(0, 1e9), st.one_of(st.just(inf), st.floats(0, 1e9))
)
def test_whatever_the_outcomes_are_answers_are_within_bounds(
    found: list[Outcome], user: int, name: str, elapsed_s: float, limit_s: float
) -> None:
    history = JobHistory(found)
    said = history.expected_rest(user, name, elapsed_s, limit_s)
    if said is None:
        assert limit_s == inf
    else:
        assert 0 <= said.rest_s <= max(limit_s - elapsed_s, 0.0)
        assert said.rest_s < inf
    known = history.known(user, name)
    if known is not None:
        assert known.run_s[0] <= known.run_s[1] <= known.run_s[2]
        assert known.busy is None or 0 <= known.busy <= 1
    assert history.usual_busy() is None or 0 <= (history.usual_busy() or 0) <= 1


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=64), st.floats(0, 2e6))
def test_expectation_of_a_name_is_the_mean_of_what_the_longer_runs_had_left(
    runs_s: list[float], elapsed_s: float
) -> None:
    longer = [each - elapsed_s for each in runs_s if each > elapsed_s]
    expected = sum(longer) / len(longer) if longer else elapsed_s
    assert rest(JobHistory(map(run, runs_s)), elapsed_s).rest_s == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=64), st.floats(0, 2e6))
def test_expectation_of_a_user_is_the_median_of_the_longer_runs(runs_s: list[float], elapsed_s: float) -> None:
    longer = [each for each in runs_s if each > elapsed_s]
    expected = median(longer) - elapsed_s if longer else elapsed_s
    history = JobHistory(run(each, f"n{index}") for index, each in enumerate(runs_s))
    assert rest(history, elapsed_s, name="new").rest_s == pytest.approx(expected)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def spooled(directory: Path, node: str, *runs: Outcome) -> None:
    """As fikitd does: replaced as a whole."""
    new = directory / ".new"
    new.write_text("\n".join([HEAD, *(each.text() for each in runs), ""]))
    new.chmod(0o400)
    new.rename(directory / f"{node}{SUFFIX}")


def test_the_spool_is_read_again_only_where_a_node_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    clock, looked = Clock(), []
    spool = SpoolHistory(tmp_path, clock=clock)
    runs = SpoolHistory._runs
    monkeypatch.setattr(SpoolHistory, "_runs", lambda self, path: looked.append(path.name) or runs(self, path))
    spooled(tmp_path, "n1", run(10))
    spooled(tmp_path, "n2", run(30))
    assert rest(spool.history()) == (20, "name", 2)
    spooled(tmp_path, "n2", run(30), run(50))
    assert rest(spool.history()) == (20, "name", 2), "it was just read"
    clock.now_s += 31
    assert rest(spool.history()) == (30, "name", 3)
    assert looked == ["n1.runs", "n2.runs", "n2.runs"]
    (tmp_path / "n2.runs").unlink()
    clock.now_s += 31
    assert rest(spool.history()) == (10, "name", 1)
    assert spool.latest is spool.history()


def test_a_spool_that_cannot_be_read_is_one_line_and_what_was_known_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o700)
    clock = Clock()
    spool = SpoolHistory(tmp_path, clock=clock)
    spooled(tmp_path, "n1", run(10))
    assert len(spool.history()) == 1
    tmp_path.chmod(0o777)
    for _ in range(3):
        clock.now_s += 31
        assert len(spool.history()) == 1
    assert len(caplog.messages) == 1
    assert "may be written by others" in caplog.messages[0]
    assert len(SpoolHistory("").history()) == 0


def test_damaged_files_and_runs_of_the_future_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o700)
    spooled(tmp_path, "n1", run(10), run(99, ended_s=int(time.time()) + 10**6))
    spooled(tmp_path, "n2", run(30))
    (tmp_path / "n3.runs").write_bytes(os.urandom(1000))
    (tmp_path / "n2.runs").chmod(0o666)
    clock = Clock()
    spool = SpoolHistory(tmp_path, clock=clock)
    assert rest(spool.history()) == (10, "name", 1)
    clock.now_s += 31
    spool.history()
    assert len(caplog.messages) == 2, "once for each file"


COMMENT = "site:x;fikit:gpu_s=12.3,wait_s=0.412,peak_mib=512,elapsed_s=20.1,busy=0.65,slowdown=1.04,given_s=0.2,priority=8,kept=1,emulated"


def answer(separator: str, *rows: tuple[str, str, str, str, str]) -> str:
    return "".join("".join(f"{field}{separator}" for field in row) + "\n" for row in rows)


def test_an_admin_comment_is_an_outcome() -> None:
    rows = (
        ("12", "1000", "1790000000", COMMENT, "train"),
        ("13", "1000", "Unknown", COMMENT, "x"),
        ("14", "1", "5", "", "y"),
    )
    assert accounting.parse(answer("<s>", *rows), "<s>") == [
        run(20.1, job=12, busy=0.65, peak_mib=512, slowdown=1.04, given_s=0.2, emulated=1, priority=8)
    ]
    before = COMMENT.replace(",priority=8,kept=1", "")  # of a fikitd that did not say it
    assert accounting.parse(answer("<s>", ("12", "1000", "1790000000", before, "train")), "<s>")[0].priority == 5


@given(st.text(max_size=40))
def test_a_jobs_name_cannot_make_rows_of_its_own(name: str) -> None:
    hostile = name + "\n99<s1>0<s1>5<s1>" + COMMENT + "<s1>eval\n99|0|5|" + COMMENT + "|eval"
    separator = accounting.new_separator()
    found = accounting.parse(answer(separator, ("12", "1000", "5", COMMENT, hostile)), separator)
    assert [(each.job, each.uid, each.name) for each in found] == [(12, 1000, name_key(recorded_name(hostile)))]
    with pytest.raises(ValueError, match="number of fields"):
        accounting.parse(answer("<s1>", ("12", "1000", "5", COMMENT, hostile)), "<s1>")


@given(st.text(alphabet="fikit:=,.0123456789abelpsd_-e", max_size=80))
def test_whatever_a_comment_says_numbers_are_within_bounds(text: str) -> None:
    for each in accounting.parse(answer("<s>", ("1", "2", "3", f"fikit:elapsed_s=1,{text}", "n")), "<s>"):
        assert Outcome.parse(each.text())


def test_own_reports_are_outcomes_of_jobs_that_have_ended() -> None:
    found = list(
        own_reports.of_reports([REPORT, {**REPORT, "state": "running"}, {**REPORT, "ended": "2026-02-31T00:00:00Z"}])
    )
    assert [(each.job, each.elapsed_s, each.given_s) for each in found] == [
        (int(REPORT["job"]), REPORT["elapsed_s"], UNKNOWN)
    ]


def test_a_run_that_several_sources_know_counts_once_by_the_first() -> None:
    first, again = run(10, job=5), run(99, job=5)
    assert own_reports.merged([first, run(11, job=5)], [again, run(7, job=6)]) == [first, run(11, job=5), run(7, job=6)]
