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
from fikitd.api.memory_story import POINTS, MemoryStory
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
