"""--fikit-priority=auto in fikitd: the shorter of two jobs goes first, a person's word counts more, and the next fikitd goes on."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import daemon_fakes as fakes
import pytest
from daemon_fakes import eventually
from daemon_in_thread import ME, Daemon
from fikitd.api.client import Control, ControlError
from fikitd.api.job_time import Sums
from fikitd.api.outcomes import HEAD, SUFFIX, UNKNOWN, Outcome, name_key
from fikitd.gpus.placement import PATIENCE_S, TURN_S
from fikitd.history import SpoolHistory
from fikitd.jobs import auto_priority
from fikitd.store.changed_priorities import AUTO, USER, ChangedPriorities
from fikitd.store.records import JobRecord, JobRecords

RANGE: dict[str, Any] = {"priority": 5, "auto_highest": 5, "auto_lowest": 8}


def outcome(name: str, elapsed_s: float) -> Outcome:
    return Outcome(
        job=1, uid=ME, name=name_key(name), ended_s=int(time.time()) - 60, elapsed_s=elapsed_s, busy=0.8, peak_mib=1, slowdown=UNKNOWN,
        given_s=0.0, emulated=1,
    )  # fmt: skip


def note(directory: Path, *outcomes: Outcome) -> None:
    """What earlier runs left, as fikitd writes it."""
    path = directory / f"node{SUFFIX}"
    path.write_text("".join(f"{line}\n" for line in (HEAD, *(each.text() for each in outcomes))))
    path.chmod(0o600)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    """Not serving yet. Runs of `short` took a minute, of `long` a day."""
    monkeypatch.setattr(auto_priority, "INTERVAL_S", 0.05)
    outcomes = tmp_path / "outcomes"
    outcomes.mkdir(mode=0o700)
    note(outcomes, outcome("short", 60), outcome("long", 86_400), outcome("long", 86_400))
    config = fakes.config_in(tmp_path)
    config = replace(config, daemon=replace(config.daemon, outcomes_dir=str(outcomes), outcomes_user="root"))
    proc = fakes.FakeProc(tmp_path / "proc")
    proc.root.mkdir()
    return Daemon(config, fakes.FakeCore(), proc, Control(config.daemon.run_dir))


@pytest.fixture
def daemon(site: Daemon) -> Iterator[Daemon]:
    with fakes.serving(site.config, site.core, site.proc.root):
        yield site


def both(daemon: Daemon, *names: str) -> list[fakes.FakeClient]:
    """Jobs 12, 13 and so on, with a client each, by name."""
    clients = []
    for job, name in enumerate(names, start=12):
        daemon.job(str(job), name=name, started_ns=job, **RANGE)
        clients.append(daemon.client())
    return clients


def now(daemon: Daemon) -> list[int]:
    """Priorities of jobs 12 and 13, which report and dispatcher agree on."""
    said = [daemon.control.job(job)["priority"] for job in ("12", "13")]
    in_core = [client["priority"] for dispatcher in daemon.core.dispatchers for client in dispatcher.clients.values()]
    return said if in_core == said else in_core


def test_the_job_with_the_shorter_expected_rest_goes_first_whoever_came_first(daemon: Daemon) -> None:
    clients = both(daemon, "long", "short")
    eventually(lambda: now(daemon) == [6, 5])
    auto = daemon.control.job("12")["auto"]
    assert auto.pop("rest_s") == pytest.approx(86_400, abs=60)
    assert auto == {"highest": 5, "lowest": 8, "state": "ordered", "runs": 2}
    assert daemon.control.job("12")["warnings"] == [], "what fikitd chooses is no event"
    assert JobRecord.read(Path(daemon.run_dir) / "jobs" / "12").priority == 5, "the record is what was approved"
    assert daemon.control.priority("12", AUTO) == 6, "nobody had taken it from fikitd"
    clients.pop().close()  # the short one is gone
    eventually(lambda: daemon.control.job("12")["auto"]["state"] == "alone")
    eventually(lambda: daemon.control.job("12")["priority"] == 5)
    clients.pop().close()


@pytest.mark.parametrize("names", [("new", "newer"), ("new", "short"), ("long", "new")])
def test_without_history_all_are_equal(daemon: Daemon, names: tuple[str, str]) -> None:
    clients = both(daemon, *names)
    eventually(lambda: [daemon.control.job(job)["auto"]["state"] for job in ("12", "13")] == ["unknown", "unknown"])
    assert now(daemon) == [5, 5]
    for client in clients:
        client.close()


def test_what_a_person_says_counts_until_it_is_taken_back(daemon: Daemon) -> None:
    clients = both(daemon, "long", "short")
    eventually(lambda: now(daemon) == [6, 5])
    assert daemon.control.priority("13", 8) == 8
    eventually(lambda: now(daemon) == [5, 8])
    assert daemon.control.job("13")["auto"]["state"] == "user"
    assert daemon.control.priority("12", 5) == 5, "also where it is the one it has already"
    assert daemon.control.job("12")["auto"]["state"] == "user"
    assert daemon.control.priority("13", AUTO) == 5
    assert daemon.control.priority("12", AUTO) == 5
    eventually(lambda: now(daemon) == [6, 5])
    for client in clients:
        client.close()


def test_a_job_without_a_range_is_not_touched_and_cannot_be_left_to_fikitd(daemon: Daemon) -> None:
    daemon.job("12", name="long", priority=5, started_ns=12)
    first = daemon.client()
    daemon.job("13", name="short", started_ns=13, **RANGE)
    second = daemon.client()
    eventually(lambda: daemon.control.job("13")["auto"]["state"] == "alone")
    assert now(daemon) == [5, 5]
    assert daemon.control.job("12")["auto"] is None
    with pytest.raises(ControlError, match="job 12 was not submitted with --fikit-priority=auto"):
        daemon.control.priority("12", AUTO)
    first.close()
    second.close()


def test_the_next_fikitd_goes_on(site: Daemon) -> None:
    with fakes.serving(site.config, site.core, site.proc.root):
        clients = both(site, "long", "short")
        eventually(lambda: now(site) == [6, 5])
        site.control.priority("13", 7)
        eventually(lambda: now(site) == [5, 7])
        site.control.priority("13", AUTO)
        eventually(lambda: now(site) == [6, 5])
        for client in clients:
            client.close()
    following = JobRecords(Path(site.run_dir))
    found = [following.get(job) for job in ("12", "13")]
    assert [(each.priority, each.chosen) for each in found if each] == [(6, AUTO), (5, "")]


class StandIn:
    """A job as far as it is looked at: `lost_s` is what it has waited for others."""

    def __init__(self, number: int, name: str) -> None:
        self.number, self.lost_s = number, 0.0
        self.record = JobRecord(str(number), ME, os.getgid(), name=name, started_ns=7, **RANGE)
        self.places, self.device_mode, self.auto = Counter(gpu=1), "slices", {}
        self.time = self

    def sums(self) -> Sums:
        return Sums(elapsed=(10 + self.lost_s) * 1e9, waited=self.lost_s * 1e9)


class StandIns:
    """Of Jobs, what is asked of it."""

    def __init__(self, *jobs: StandIn) -> None:
        self.jobs = jobs

    def all(self) -> list[StandIn]:
        return list(self.jobs)

    def change_priority(self, record: JobRecord) -> None:
        next(job for job in self.jobs if job.record.job == record.job).record = record


def test_one_that_has_waited_for_an_hour_below_another_has_its_turn(tmp_path: Path) -> None:
    long, short = StandIn(12, "long"), StandIn(13, "short")
    note(tmp_path, outcome("short", 60), outcome("long", 86_400))
    clock, told = [0.0], []
    auto = auto_priority.AutoPriorities(
        jobs=cast("Any", StandIns(long, short)), records=JobRecords(tmp_path), history=SpoolHistory(tmp_path),
        change_priority=told.append, changes=asyncio.Event(), clock=lambda: clock[0],
    )  # fmt: skip

    def after(seconds: float, waits_s: float = 0.0) -> tuple[list[int], str]:
        clock[0] += seconds
        long.lost_s += waits_s
        asyncio.run(auto.decide())
        return [job.record.priority for job in (long, short)], long.auto["state"]

    assert after(0) == ([6, 5], "ordered")
    assert after(PATIENCE_S, waits_s=PATIENCE_S - 1) == ([6, 5], "ordered")
    assert after(5, waits_s=2) == ([5, 5], "turn")
    assert after(TURN_S - 1, waits_s=100) == ([5, 5], "turn")
    assert after(2) == ([6, 5], "ordered")
    assert after(PATIENCE_S, waits_s=PATIENCE_S - 1) == ([6, 5], "ordered"), "it begins anew"
    assert after(5, waits_s=2) == ([5, 5], "turn")
    assert [record.priority for record in told] == [6, 5, 6, 5]


def test_a_requeued_job_begins_with_what_was_approved(tmp_path: Path) -> None:
    record = JobRecord("12", ME, os.getgid(), started_ns=7, **RANGE)
    record.write(tmp_path)
    records = JobRecords(tmp_path)
    changed = records.change_priority(record, 7, AUTO)
    assert (changed.priority, changed.approved, changed.chosen, changed.automatic) == (7, 5, AUTO, True)
    assert JobRecord.parse(changed.text()) == changed  # as the ledger keeps it
    replace(record, started_ns=8).write(tmp_path)
    requeued = JobRecords(tmp_path).get("12")
    assert requeued is not None
    assert (requeued.priority, requeued.chosen, requeued.auto) == (5, "", (5, 8))


@pytest.mark.parametrize("lines", ["auto_highest=5\n", "auto_highest=8\nauto_lowest=5\n", "auto_highest=x\nauto_lowest=8\n",
                                   "auto_highest=5\nauto_lowest=10\n", "auto_lowest=\nauto_highest=\n"])  # fmt: skip
def test_a_range_of_a_form_that_is_not_known_is_none(lines: str) -> None:
    record = JobRecord.parse(f"version=1\njob=12\nuid=1\ngid=1\npriority=5\n{lines}chosen=user\n")
    assert (record.auto, record.automatic, record.priority, record.chosen) == (None, False, 5, "")


def test_a_record_of_before_has_no_range() -> None:
    assert JobRecord.parse("version=1\njob=12\nuid=1\ngid=1\npriority=5\n").auto is None


@pytest.mark.parametrize(
    ("change", "priority"),
    [({"priority": 9}, 9), ({"priority": 9, "by": USER}, 9), ({"priority": 7, "by": AUTO}, 7), ({"priority": 9, "by": AUTO}, 5),
     ({"priority": 7, "by": "somebody"}, 5)],
)  # fmt: skip
def test_a_noted_change_of_fikitds_counts_within_the_range_and_one_of_before_is_a_persons(
    tmp_path: Path, change: dict[str, Any], priority: int
) -> None:
    (tmp_path / "priorities").mkdir()
    (tmp_path / "priorities" / "12").write_text(json.dumps({"started_ns": 7, **change}))
    record = JobRecord("12", ME, os.getgid(), started_ns=7, **RANGE)
    assert ChangedPriorities(tmp_path).in_force(record).priority == priority


def test_what_cannot_be_noted_changes_nothing(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("fikitd.store.changed_priorities.write_atomic", full)
    clients = both(daemon, "long", "short")
    eventually(lambda: "the priority of job 12 cannot be noted, so it stays: No space left" in caplog.text)
    assert now(daemon) == [5, 5]
    for client in clients:
        client.close()
