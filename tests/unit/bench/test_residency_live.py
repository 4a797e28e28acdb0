"""What the live bench of turns makes of its runs; the runs themselves start programs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fikitd.clients.memory_rotation import line_about
from fikitd.gpus.memory_turns import Swap

from bench.residency import live
from bench.residency.live import Change, Outcome, Scale

S = 1_000_000_000
CHANGE = Change(after_s=30.0, length_s=30.0, took_s=0.55, stop_s=0.05, moved_mib=600.0, reckoned_s=0.45)


def outcome(high_s: float, kernels: int, changes: list[Change] | None = None, *, right: bool = True) -> Outcome:
    return Outcome([high_s] * 4, [kernels] * 3, right, changes or [], 80.0)


def figures(monkeypatch: pytest.MonkeyPatch, changes: list[Change], slower: int = 16) -> dict[str, dict[str, Any]]:
    runs = {
        ("turns", 0): outcome(1.0, 0),
        ("turns", 3): outcome(1.05, 400, changes),
        ("faults", 3): outcome(1.1, 380),
        ("paging", 3): outcome(1.2, 100, right=False),
    }
    monkeypatch.setattr(live, "run", lambda how, lows, seconds, scale: runs[how, lows])
    return {each["figure"]: each for each in live.rows(80.0, Scale(slower))}


def test_figures_are_beside_the_high_job_alone_and_the_same_low_jobs_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    found = figures(monkeypatch, [CHANGE] * 3)
    assert found["high JCT"]["value"] == pytest.approx(1.05)
    assert found["low work / that of paging (TGS) at 30 us per batch"]["value"] == pytest.approx(4.0)
    assert found["low work / that of turns without moves (nvshare) at 30 us per batch"]["holds"]
    assert found["low jobs whose buffers are all right"]["holds"] is False
    assert all(each["case"] == "A: 1 GiB, x16, live, emulated" for each in found.values())


def test_time_lost_is_that_without_work_against_what_the_link_needs_and_the_whole_change_stands_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = figures(monkeypatch, [CHANGE, replace(CHANGE, after_s=10.0, moved_mib=0.0)])
    c_s = 600 * 2**20 / 1.5e9
    bound = c_s / (30 + c_s)
    whole_s = 30 + 10 + 2 * 0.55
    assert found["time lost to moves / (c / (E + c))"]["value"] == pytest.approx(2 * 0.5 / whole_s / bound, abs=1e-4)
    assert found["whole changes / (c / (E + c))"]["value"] == pytest.approx(2 * 0.55 / whole_s / bound, abs=1e-4)
    assert found["whole changes / (c / (E + c))"]["bar"] is None
    learnt = found["time lost to moves / (c / (E + c)), c with what fikitd learnt beside the link"]
    assert learnt["value"] == pytest.approx(2 * 0.5 / whole_s / (0.45 / 30.45), abs=1e-4)
    assert found["share of the time lost to changes"]["value"] == pytest.approx(2 * 0.55 / whole_s, abs=1e-4)


def test_without_a_change_there_is_nothing_to_say_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("c / (E + c)" in figure for figure in figures(monkeypatch, []))


def test_the_least_turn_and_the_link_go_with_the_slowness() -> None:
    assert (Scale(16).epoch_s, Scale(8).epoch_s) == (30, 15)
    assert 'memory = "1024MiB"' in Scale(8).gpu
    assert "h2d_gbps = 3.0" in Scale(8).gpu


def test_the_daemons_line_about_a_change_is_read() -> None:
    swap = Swap(frozenset({3, 4}), took_ns=1_060_000_000, stop_ns=10_000_000, reckoned_ns=201_000_000, moved_bytes=448 << 20, after_ns=15 * S, length_ns=30 * S)  # fmt: skip
    line = f"fikitd: info: GPU-1: {line_about(swap, '3, 4')}"
    assert live.changes_in(line + "\n" + line) == [Change(15.0, 30.0, 1.06, 0.01, 448.0, 0.201)] * 2
