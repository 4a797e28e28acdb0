"""What a job's report says of its memory on the host: moves, misses, and how much was on the GPU over time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import daemon_fakes as fakes
import pytest
from cli_samples import REPORT
from daemon_fakes import eventually
from daemon_in_thread import Daemon
from fikitd.api import report_format
from fikitd.api.client import Control
from fikitd.api.memory_story import POINTS, MemoryPlan, MemoryStory, host_limit_bytes
from fikitd.api.reports import summary_line
from fikitd.config.fikit_toml import OversubscribeConfig
from fikitd.jobs import memory_watch
from hypothesis import given
from hypothesis import strategies as st

GIB = 2**30
NOTHING = dict.fromkeys(("movable_bytes", "resident_bytes", "in_bytes", "out_bytes", "missed_bytes", "moving_ns", "turns", "failures"), 0)  # fmt: skip


def moves(**words: int) -> dict[str, int]:
    return {**NOTHING, **words}


def checked(story: MemoryStory, *clients: dict[str, int]) -> dict[str, Any]:
    """As a stored report has it."""
    memory = {**REPORT["memory"], "moved": story.fields(clients)}
    report = report_format.parse(json.dumps({**REPORT, "memory": memory}).encode())
    moved: dict[str, Any] = report["memory"]["moved"]
    assert moved == story.fields(clients)
    return moved


def test_clients_that_are_there_and_those_that_are_gone_add_up() -> None:
    story = MemoryStory(16 * GIB)
    story.went(moves(in_bytes=1, out_bytes=2, missed_bytes=3, moving_ns=4_000_000_000, turns=5, failures=6))
    said = checked(story, moves(in_bytes=10, turns=1), moves(out_bytes=20, moving_ns=500_000_000))
    assert (said["in_bytes"], said["out_bytes"], said["missed_bytes"], said["turns"], said["failures"]) == (
        11,
        22,
        3,
        6,
        6,
    )
    assert (said["moving_s"], said["host_limit_bytes"], said["resident_peak_bytes"]) == (4.5, 16 * GIB, None)


def test_a_look_has_the_jobs_memory_on_the_gpu_and_others() -> None:
    story = MemoryStory(16 * GIB)
    story.look(
        1.0,
        GIB,
        3 * GIB,
        [
            moves(movable_bytes=9 * GIB, resident_bytes=2 * GIB, in_bytes=5),
            moves(resident_bytes=GIB, out_bytes=7, turns=2),
        ],
    )
    story.look(2.5, GIB, 0, [moves(movable_bytes=9 * GIB, in_bytes=5), moves(out_bytes=7, turns=3)])
    said = checked(story)
    assert said["resident_peak_bytes"] == 4 * GIB
    assert said["history"] == [
        {"t_s": 1.0, "resident_bytes": 4 * GIB, "others_bytes": 3 * GIB, "moved_bytes": 12, "turns": 2},
        {"t_s": 2.5, "resident_bytes": GIB, "others_bytes": 0, "moved_bytes": 12, "turns": 3},
    ]


def test_no_more_than_the_gpu_has_is_on_it() -> None:
    story = MemoryStory(16 * GIB)
    story.look(1.0, GIB, 0, [moves(movable_bytes=20 * GIB, resident_bytes=20 * GIB)], gpu_bytes=16 * GIB)
    assert checked(story)["resident_peak_bytes"] == 16 * GIB


def test_a_day_of_looks_is_a_history_of_equal_steps() -> None:
    story = MemoryStory(1)
    for second in range(86_400):
        story.look(
            float(second), 0, 0, [moves(movable_bytes=9, resident_bytes=9 if second == 40_001 else 1, in_bytes=second)]
        )
    history = checked(story)["history"]
    steps = {round(after["t_s"] - before["t_s"]) for before, after in pairwise(history)}
    assert POINTS // 2 <= len(history) <= POINTS
    assert steps == {512}
    assert [point["t_s"] for point in history if point["resident_bytes"] == 9] == [40_001 // 512 * 512]


def test_a_shim_that_says_nothing_of_its_memory_is_not_taken_to_have_none() -> None:
    story = MemoryStory(16 * GIB)
    story.look(1.0, GIB, 0, [moves()])
    assert checked(story)["resident_peak_bytes"] is None
    assert checked(story)["history"] == []


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(0, 2**40)), min_size=1, max_size=800))
def test_however_long_it_takes_the_history_is_short_and_keeps_its_peak_and_its_end(
    looks: list[tuple[float, int]],
) -> None:
    story, now_s, moved = MemoryStory(1), 0.0, 0
    for after_s, resident in looks:
        now_s += after_s
        moved += 7
        story.look(now_s, 0, 0, [moves(movable_bytes=2**40, resident_bytes=resident, in_bytes=moved)])
    history = checked(story)["history"]
    assert 1 <= len(history) <= POINTS
    assert max(point["resident_bytes"] for point in history) == max(resident for _, resident in looks)
    assert history[-1]["moved_bytes"] == moved
    assert [point["t_s"] for point in history] == sorted(point["t_s"] for point in history)


@contextmanager
def serving(tmp_path: Path, allow: str = "lower") -> Iterator[Daemon]:
    """A fikitd, in the same directories as the one before, at a site whose jobs below high may have memory on the host."""
    config, core, proc = fakes.config_in(tmp_path), fakes.FakeCore(), fakes.FakeProc(tmp_path / "proc")
    config = replace(config, oversubscribe=OversubscribeConfig(allow=allow))
    proc.root.mkdir(exist_ok=True)
    with fakes.serving(config, core, proc.root):
        yield Daemon(config, core, proc, Control(config.daemon.run_dir))


def told(daemon: Daemon, job: str = "12") -> dict[str, Any]:
    moved: dict[str, Any] = daemon.control.job(job)["memory"]["moved"]
    return moved


def test_a_job_without_memory_on_the_host_has_no_such_part(tmp_path: Path) -> None:
    with serving(tmp_path, allow="no") as daemon:
        daemon.job(priority=8, mem_bytes=GIB, mem_host_bytes=GIB)
        client = daemon.client()
        assert "moved" not in daemon.control.job("12")["memory"]
        assert daemon.control.node()["clients"][0]["memory_on_gpu_bytes"] is None
        client.close()


def test_the_watch_looks_and_the_next_daemon_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_watch, "LOOK_S", 0.01)
    here = {"moves": moves(movable_bytes=3 * GIB, resident_bytes=2 * GIB, in_bytes=5, missed_bytes=1, turns=2)}
    with serving(tmp_path) as first:
        first.core.stats = here
        first.job(priority=8, mem_bytes=2 * GIB, mem_host_bytes=2 * GIB, started_ns=time.time_ns())
        client = first.client()
        history = eventually(lambda: told(first)["history"])
        assert (history[-1]["resident_bytes"], history[-1]["others_bytes"]) == (2 * GIB, 0)
        assert (
            told(first)["resident_peak_bytes"] == first.control.node()["clients"][0]["memory_on_gpu_bytes"] == 2 * GIB
        )
        client.close()
        eventually(lambda: first.control.job("12")["state"] == "ended")
    with serving(tmp_path) as second:
        assert (told(second)["in_bytes"], told(second)["turns"], told(second)["resident_peak_bytes"]) == (5, 2, 2 * GIB)
        second.core.stats = here
        second.job(priority=8, mem_bytes=2 * GIB, mem_host_bytes=2 * GIB)
        second.control.end("12")
        assert second.stored()["memory"]["moved"]["missed_bytes"] == 1


def test_memory_that_the_driver_took_away_unseen_is_not_on_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_watch, "LOOK_S", 0.01)
    with serving(tmp_path) as site:
        site.core.stats = {"moves": moves(movable_bytes=20 * GIB, resident_bytes=20 * GIB)}
        site.job(priority=8, mem_bytes=12 * GIB, mem_host_bytes=12 * GIB, started_ns=time.time_ns())
        client = site.client()
        assert eventually(lambda: told(site)["resident_peak_bytes"]) == 16 * GIB, "the GPU's"
        assert site.control.node()["clients"][0]["memory_on_gpu_bytes"] == 16 * GIB
        client.close()


@pytest.mark.parametrize("rows", ['{"gone": {"in_bytes": 1, "new": 2}, "step_s": 1, "points": []}', '{"gone": {}}', "[1]", '{"gone": {}, "step_s": "x", "points": [{}]}'])  # fmt: skip
def test_notes_that_are_none_cost_that_job_its_earlier_counters(
    rows: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path) as first:
        first.job(priority=8, mem_bytes=GIB, mem_host_bytes=GIB, started_ns=7)
        first.client().close()
        eventually(lambda: first.control.job("12")["state"] == "ended")
    note = tmp_path / "run" / "ledger" / "12"
    note.write_text(json.dumps({**json.loads(note.read_text()), "moved": json.loads(rows)}))
    with serving(tmp_path) as second:
        assert second.control.jobs() == []
    assert "job 12: what it did before fikitd was restarted is lost" in caplog.text


def test_the_end_line_says_how_much_was_moved() -> None:
    story = MemoryStory(GIB)
    record = {**REPORT, "memory": {**REPORT["memory"], "moved": story.fields([])}}
    assert "memory moved" not in summary_line(record)
    record["memory"]["moved"] = story.fields([moves(in_bytes=3 * GIB, out_bytes=GIB, moving_ns=2_500_000_000)])
    assert ", waited 12 ms, memory moved 4 GiB (2.5 s waited for it) (emulated GPU)" in summary_line(record)


def test_the_newest_plan_is_in_the_report_with_the_passes_of_all_of_them() -> None:
    story = MemoryStory(16 * GIB)
    assert story.plan_fields() is None
    plan = MemoryPlan(6 * GIB, 8 * GIB, 4 * GIB, 0.05, 10, 1)
    story.planned(1, plan)
    story.planned(1, replace(plan, passes=12))
    story.plans_ended(1)
    story.planned(2, replace(plan, budget_bytes=7 * GIB, passes=3, skipped=2))
    said = {
        "budget_bytes": 7 * GIB, "peak_bytes": 8 * GIB, "moved_bytes_per_pass": 4 * GIB, "expected_loss": 0.05, "passes": 15, "skipped": 3,
        "processes": 1,
    }  # fmt: skip
    assert story.plan_fields() == said
    memory = {**REPORT["memory"], "moved": story.fields([]), "plan": said}
    assert report_format.parse(json.dumps({**REPORT, "memory": memory}).encode())["memory"]["plan"] == said
    later = MemoryStory(16 * GIB)
    later.go_on_from(json.loads(json.dumps(story.rows())))
    assert later.plan_fields() == said
    later.planned(1, plan)
    assert later.plan_fields() == {**said, "budget_bytes": 6 * GIB, "passes": 25, "skipped": 4}


def test_what_a_job_was_given_stays_its_own_whatever_the_site_allows_to_those_after_it(tmp_path: Path) -> None:
    facts = {"priority": 8, "mem_bytes": 2 * GIB, "mem_host_bytes": 2 * GIB, "started_ns": time.time_ns()}
    with serving(tmp_path) as first:
        first.job(**facts)
        client = first.client()
        assert told(first)["host_limit_bytes"] == 2 * GIB
        client.close()
        eventually(lambda: first.control.job("12")["state"] == "ended")
    with serving(tmp_path, allow="no") as second:
        second.job(**facts)
        assert told(second)["host_limit_bytes"] == 2 * GIB
        assert second.control.no_host_memory("12") == ""
        client = second.client()
        assert told(second)["host_limit_bytes"] == 2 * GIB
        client.close()
        second.job("13", **facts)
        assert second.control.no_host_memory("13").startswith("this site does not allow it")


def test_a_job_that_was_given_none_has_none_from_a_site_that_allows_it_later(tmp_path: Path) -> None:
    facts = {"priority": 8, "mem_bytes": 2 * GIB, "mem_host_bytes": 2 * GIB, "started_ns": time.time_ns()}
    with serving(tmp_path, allow="no") as first:
        first.job(**facts)
        client = first.client()
        assert "moved" not in first.control.job("12")["memory"]
        client.close()
        eventually(lambda: first.control.job("12")["state"] == "ended")
    with serving(tmp_path) as second:
        second.job(**facts)
        client = second.client()
        report = second.control.job("12")
        assert "moved" not in report["memory"]
        assert report["memory"]["limit_bytes"] == 2 * GIB
        assert any("no effect" in each for each in report["warnings"])
        client.close()


@pytest.mark.parametrize("limit", [None, 0, -1, True, "2", 2.0], ids=repr)
def test_what_is_no_limit_in_a_note_is_as_one_of_a_fikitd_before(limit: Any) -> None:
    rows = MemoryStory(GIB).rows()
    assert host_limit_bytes(rows) == GIB
    assert host_limit_bytes({**rows, "host_limit_bytes": limit}) is None
    assert host_limit_bytes({}) == 0


def test_the_plans_of_several_processes_are_summed_and_one_that_ends_is_not_forgotten() -> None:
    story = MemoryStory(16 * GIB)
    small = MemoryPlan(2 * GIB, 3 * GIB, GIB, 0.01, 30, 2)
    story.planned(1, MemoryPlan(6 * GIB, 8 * GIB, 4 * GIB, 0.05, 10, 1))
    story.planned(2, small)
    assert story.plan_now() == {"budget_bytes": 8 * GIB, "peak_bytes": 11 * GIB, "expected_loss": 0.05}
    said = {
        "budget_bytes": 8 * GIB, "peak_bytes": 11 * GIB, "moved_bytes_per_pass": 7 * GIB // 4, "expected_loss": 0.05, "passes": 40,
        "skipped": 3, "processes": 2,
    }  # fmt: skip
    assert story.plan_fields() == said
    assert said["moved_bytes_per_pass"] * 40 == (10 * 4 + 30) * GIB, "what all passes moved"
    story.plans_ended(1)
    story.planned(2, replace(small, passes=35))
    assert story.plan_now() == {"budget_bytes": 2 * GIB, "peak_bytes": 3 * GIB, "expected_loss": 0.01}
    assert story.plan_fields() == {**said, "passes": 45}, "of the time when most processes had one"
    later = MemoryStory(16 * GIB)
    later.go_on_from(json.loads(json.dumps(story.rows())))
    later.planned(2, replace(small, passes=1, skipped=0))
    assert later.plan_fields() == {**said, "passes": 46}
    later.without_plan(2)
    later.planned(2, replace(small, passes=5, skipped=0))
    assert later.plan_fields() == {**said, "passes": 50}, "its own are counted once"
    later.plans_ended(2)
    assert later._counts == {}, "a job may have any number of processes, one after the other"
    assert later.plan_fields() == {**said, "passes": 50}


def test_a_report_from_before_processes_were_counted_is_one_still() -> None:
    old = {
        "budget_bytes": 7,
        "peak_bytes": 8,
        "moved_bytes_per_pass": 4,
        "expected_loss": 0.05,
        "passes": 15,
        "skipped": 3,
    }
    memory = {**REPORT["memory"], "moved": MemoryStory(1).fields([]), "plan": old}
    assert report_format.parse(json.dumps({**REPORT, "memory": memory}).encode())["memory"]["plan"] == old
    later = MemoryStory(1)
    later.go_on_from({**later.rows(), "plan": old})
    assert later.plan_fields() == {**old, "processes": 1}
