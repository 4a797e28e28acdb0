"""The placement agent: what it wants (pure), and what it does when Slurm, the clock, its journal or a job's owner is not as it hopes."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fikit.commands import place
from fikit.placement import agent as agents
from fikit.placement.agent import MOST_UPDATES, Agent, expectation
from fikit.placement.commands import SlurmError
from fikit.placement.jobs import Job
from fikit.placement.journal import NAME, Journal
from fikit.placement.plan import NOTHING, Change, Mark, Settings, order_factor, overdue_factor, plan
from fikitd.history import JobHistory

NOW = 1_700_000_000.0
SETTINGS = Settings(max_wait_s=3600.0, span=1000)
HOUR, DAY = 3600.0, 86_400.0


def job(number: int, limit_s: float = HOUR, **changed: Any) -> Job:
    return replace(Job(number, str(number), 1000, "train", "PENDING", NOW - 10, limit_s=limit_s, shards=4), **changed)


def factors(*jobs: Job, marks: dict[int, Mark] | None = None, now_s: float = NOW) -> dict[int, int]:
    found = plan(jobs, expectation(JobHistory()), marks or {}, SETTINGS, now_s)
    return {change.job: change.after.factor for change in found.changes}


def test_the_shorter_a_job_the_larger_its_factor_within_the_span() -> None:
    times = [1.0, 60.0, HOUR, DAY, 90 * DAY, None]
    found = [order_factor(each, 1000) for each in times]
    assert found == sorted(found, reverse=True)
    assert (found[0], found[-1]) == (500, -500)
    assert len(set(found)) == 5, "a job of which nothing is known is as the longest"


def test_nobody_is_ordered_by_other_jobs() -> None:
    """Or each job that comes would change all the others."""
    assert factors(job(1, HOUR))[1] == factors(job(1, HOUR), job(2, 60), job(3, DAY))[1]


def test_who_has_waited_long_is_first_and_those_stay_in_slurms_order() -> None:
    found = factors(job(1, DAY, submit_s=NOW - 2 * HOUR), job(2, DAY, submit_s=NOW - 3 * HOUR), job(3, 1.0))
    assert found[1] == found[2] == overdue_factor(1000)
    assert found[3] < found[1]


def test_the_most_urgent_is_set_first() -> None:
    jobs = (job(1, DAY), job(2, 60), job(3, DAY, submit_s=0.0), job(4, HOUR))
    assert list(factors(*jobs)) == [3, 2, 4, 1]


@pytest.mark.parametrize("alone", [{"alone": "it is held"}, {"shards": 0}, {"state": "RUNNING"}])
def test_other_jobs_are_left_alone(alone: dict[str, Any]) -> None:
    assert factors(job(1, **alone)) == {}


@pytest.mark.parametrize(
    ("changed", "after"),
    [
        ({"alone": "it has a dependency of its own"}, NOTHING),
        ({"state": "RUNNING"}, Mark(300, "")),
        ({"shards": 0}, NOTHING),
    ],
)
def test_what_was_set_of_a_job_that_is_no_longer_ordered_is_taken_back(changed: dict[str, Any], after: Mark) -> None:
    """Of one that runs only the comment: its place in the queue is nothing any more."""
    (change,) = plan(
        [job(1, **changed)], expectation(JobHistory()), {1: Mark(300, "fikit:order")}, SETTINGS, NOW
    ).changes
    assert change.after == after


def test_tasks_of_an_array_that_wait_count_before_one_that_runs() -> None:
    marks = {7: Mark(order_factor(HOUR, 1000), "fikit:order,expected_s=3600")}
    running = job(7, state="RUNNING", shown="7_1")
    assert plan([running, job(7, shown="7_[2-9]")], expectation(JobHistory()), marks, SETTINGS, NOW).changes == []


def test_a_small_change_of_an_expectation_is_none() -> None:
    set_now = {1: Mark(order_factor(HOUR, 1000), "fikit:order,expected_s=3600")}
    assert factors(job(1, HOUR * 1.05), marks=set_now) == {}
    assert factors(job(1, HOUR * 2), marks=set_now) != {}


class Fake:
    """A Slurm whose queue is `queue`; `failure` is raised by every call."""

    def __init__(self, *queue: Job) -> None:
        self.queue = list(queue)
        self.failure: str | None = None
        self.fails_at: set[str] = set()
        self.refuses: set[int] = set()
        self.foreign: set[int] = set()
        self.site: dict[int, Mark] = {}
        self.begun: set[int] = set()
        self.last: dict[int, Change] = {}
        self.calls: list[str] = []

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.failure and (not self.fails_at or name in self.fails_at):
            raise SlurmError(self.failure)

    def jobs(self) -> list[Job]:
        self._called("jobs")
        return list(self.queue)

    def commented(self, numbers: Iterable[int]) -> set[int]:
        self._called("commented")
        return set(numbers) & self.foreign

    def update(self, changes: Sequence[Change]) -> set[int]:
        self._called("update")
        for change in changes:
            if change.job not in self.refuses:
                self.site[change.job] = change.after
                self.last[change.job] = change
                self.begun |= {change.job} if change.begins else set()
        return {change.job for change in changes} & self.refuses


class Known:
    def __init__(self) -> None:
        self.known = JobHistory()

    def history(self) -> JobHistory:
        return self.known


def agent(slurm: Fake, directory: Path, now: float = NOW, **options: bool) -> Agent:
    return Agent(slurm, Known(), Journal(directory), SETTINGS, clock=lambda: now, **options)


def test_a_second_round_says_nothing_new(tmp_path: Path) -> None:
    slurm = Fake(job(1), job(2, 60))
    steering = agent(slurm, tmp_path)
    assert steering.round()
    assert steering.round()
    assert slurm.calls == ["jobs", "commented", "update", "jobs"]
    assert slurm.site[2].factor > slurm.site[1].factor


def test_advice_changes_nothing_and_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    slurm = Fake(job(1))
    advising = agent(slurm, tmp_path, advises=True)
    with caplog.at_level("INFO", "fikit.place"):
        advising.round()
        advising.round()
        advising.clear()
    assert slurm.calls == ["jobs", "jobs"]
    assert caplog.messages == [
        f"job 1: SiteFactor would become {order_factor(HOUR, 1000)}: it is expected to run for 3600 s"
    ]
    assert not (tmp_path / NAME).exists()


def test_at_most_so_many_updates_a_round_and_the_shortest_first(tmp_path: Path) -> None:
    slurm = Fake(*(job(number, 10.0 * number) for number in range(1, 121)))
    steering = agent(slurm, tmp_path)
    sizes = []
    for _ in range(3):
        steering.round()
        sizes.append(len(slurm.site))
    assert sizes == [MOST_UPDATES, 2 * MOST_UPDATES, 120]
    assert max(list(slurm.site)[:MOST_UPDATES]) == MOST_UPDATES


def test_a_slurmctld_that_is_restarted_costs_nothing_but_the_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slurm = Fake(job(1))
    steering = agent(slurm, tmp_path)
    slurm.failure = "squeue: Unable to contact slurm controller"
    with caplog.at_level("INFO", "fikit.place"):
        assert [steering.round() for _ in range(3)] == [False] * 3
        slurm.failure = None
        assert steering.round()
    assert slurm.site[1].factor
    assert len(caplog.messages) == 2, "said once, and that it is over"


def test_a_slurm_that_fails_in_the_middle_is_told_again(tmp_path: Path) -> None:
    slurm = Fake(job(1))
    slurm.failure, slurm.fails_at = "scontrol did not answer within 10 s", {"update"}
    steering = agent(slurm, tmp_path)
    assert not steering.round()
    assert Journal(tmp_path).load(), "it may have been set: a crash now must find it"
    slurm.failure = None
    assert steering.round()
    assert slurm.site[1].factor


def test_a_killed_agent_leaves_what_is_needed_to_take_everything_back(tmp_path: Path) -> None:
    slurm = Fake(job(1), job(2, 60))
    agent(slurm, tmp_path).round()
    after = agent(slurm, tmp_path)  # as `fikit place --clear` begins
    assert after.clear()
    assert set(slurm.site.values()) == {NOTHING}
    assert Journal(tmp_path).load() == {}


def test_an_agent_that_begins_again_says_nothing_twice(tmp_path: Path) -> None:
    slurm = Fake(job(1))
    agent(slurm, tmp_path).round()
    slurm.calls.clear()
    agent(slurm, tmp_path).round()
    assert slurm.calls == ["jobs"]


def test_what_cannot_be_taken_back_now_is_still_known_afterwards(tmp_path: Path) -> None:
    slurm = Fake(job(1))
    steering = agent(slurm, tmp_path)
    steering.round()
    slurm.failure = "away"
    assert not steering.clear()
    assert list(Journal(tmp_path).load()) == [1]


def test_a_clock_that_is_wrong_makes_the_queue_first_come_first_served_or_changes_nothing(tmp_path: Path) -> None:
    for year, wanted in (
        (NOW + 365 * DAY, [overdue_factor(1000)] * 2),
        (0.0, [order_factor(HOUR, 1000), order_factor(60, 1000)]),
    ):
        slurm = Fake(job(1), job(2, 60))
        directory = tmp_path / str(int(year))
        directory.mkdir()
        agent(slurm, directory, now=year).round()
        assert [slurm.site[number].factor for number in (1, 2)] == wanted


def test_a_job_that_slurm_refuses_is_left_in_peace(tmp_path: Path) -> None:
    slurm = Fake(job(1), job(2))
    slurm.refuses = {1}
    steering = agent(slurm, tmp_path)
    steering.round()
    steering.round()
    assert slurm.calls.count("update") == 1
    assert list(slurm.site) == [2]


def test_somebody_elses_comment_stays(tmp_path: Path) -> None:
    slurm = Fake(job(1), job(2))
    slurm.foreign = {1}
    agent(slurm, tmp_path).round()
    assert slurm.site[1] == Mark(order_factor(HOUR, 1000), "")
    assert slurm.site[2].comment == "fikit:order,expected_s=3600"


def test_a_job_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    slurm = Fake(job(1))
    steering = agent(slurm, tmp_path)
    steering.round()
    slurm.queue.clear()
    steering.round()
    assert steering.marks == {}
    assert Journal(tmp_path).load() == {}


@pytest.mark.parametrize(
    "text",
    [
        "", "{", '{"version": 2, "jobs": {}}', '{"version": 1, "jobs": {"1": [1e9, "", "", "", 0, []]}}', '{"version": 1, "jobs": {"1": [999999999, "", "", "", 0, []]}}',
        '{"version": 1, "jobs": {"1": [1]}}',
    ],
)  # fmt: skip
def test_a_journal_that_is_none_is_not_believed(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / NAME).write_text(text)
    assert Journal(tmp_path).load() == {}
    assert "is not believed" in caplog.text


def test_a_journal_that_others_may_write_is_not_believed(tmp_path: Path) -> None:
    slurm = Fake(job(1))
    agent(slurm, tmp_path).round()
    assert Journal(tmp_path).load()
    (tmp_path / NAME).chmod(0o666)
    assert Journal(tmp_path).load() == {}


def test_a_journal_names_no_job_by_words(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(
        json.dumps({"version": 1, "jobs": {"1 2": [1, "", "", "", 0, []], "3": [1, "", "", "", 0, []]}})
    )
    assert list(Journal(tmp_path).load()) == [3]


def test_a_full_disk_does_not_stop_the_agent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    slurm = Fake(job(1))
    steering = agent(slurm, tmp_path / "missing")
    assert steering.round()
    assert slurm.site[1].factor
    assert "cannot be taken back after a crash" in caplog.text


def test_it_ends_when_it_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "ROUND_S", 0.001)
    slurm, stop = Fake(job(1)), threading.Event()
    steering = agent(slurm, tmp_path)

    def once_set() -> list[Job]:
        if slurm.site:
            stop.set()
        return slurm.queue

    monkeypatch.setattr(slurm, "jobs", once_set)
    steering.run(stop)
    assert slurm.site == {1: NOTHING}


@pytest.fixture
def no_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine on which a call to Slurm fails the test."""

    def called(*arguments: object) -> None:
        raise AssertionError(f"Slurm was asked: {arguments}")

    monkeypatch.setattr("fikit.placement.commands._run", called)
    monkeypatch.setenv("FIKIT_CONFIG", str(tmp_path / "fikit.toml"))
    monkeypatch.setattr("signal.signal", lambda *arguments: None)
    return tmp_path / "fikit.toml"


@pytest.mark.parametrize("text", ["", '[placement]\nmode = "off"\n'])
def test_with_mode_off_no_call_is_made(no_slurm: Path, text: str) -> None:
    no_slurm.write_text(text)
    done = CliRunner().invoke(place.command, ["--daemon", "--state", str(no_slurm.parent)])
    assert done.exit_code == 0, done.output
    assert os.listdir(no_slurm.parent) == ["fikit.toml"]  # noqa: PTH208


def test_nothing_to_clear_needs_no_slurm(no_slurm: Path) -> None:
    no_slurm.write_text("")
    assert CliRunner().invoke(place.command, ["--clear", "--state", str(no_slurm.parent)]).exit_code == 0


def test_without_multifactor_priorities_it_only_says_what_it_would_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(place, "setting", lambda name: "priority/basic")
    assert not place._can_order(threading.Event())
    assert "knows no SiteFactor" in caplog.text


def test_it_waits_for_a_slurmctld_that_is_not_there_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [SlurmError("away"), SlurmError("away"), place.ORDERED_BY]

    def setting(name: str) -> str:
        answer = answers.pop(0)
        if isinstance(answer, SlurmError):
            raise answer
        return str(answer)

    stop = threading.Event()
    monkeypatch.setattr(stop, "wait", lambda timeout: False)
    monkeypatch.setattr(place, "setting", setting)
    assert place._can_order(stop)
    assert answers == []
