"""bench pairs --live: what a program had of the device, and rounds that a later call does not measure again."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fikitd.simulation.simulator import MPS, SLICES

from bench import record, recordings
from bench.live import live_pairs, live_rounds, live_table, low_time, reaction
from bench.live.device_use import used_ns
from bench.live.live_rounds import Rounds

LOW, HIGH = 7, 8
OPTIONS: dict[str, Any] = {
    "emulated": True, "live": True, "arrivals": ["closed"], "policy": "prio", "seconds": 0.2, "rounds": 1, "most": 1,
    "resume": None, "svg": None,
}  # fmt: skip
SETTINGS = {"policy": "budget", "device": "mps"}
SEEN = reaction.Reactions(observe=[1.0], wake=[2.5])


def op(
    pid: int, start: int | None, end: int | None, work: int, *, demand: float = 1, kind: str = "kernel"
) -> dict[str, Any]:
    return {"pid": pid, "kind": kind, "start_ns": start, "end_ns": end, "work_ns": work, "demand": demand}


def test_in_slices_a_kernel_had_the_time_that_it_needed_not_others_turns_within_it() -> None:
    events = [
        op(LOW, 0, 1000, 400),
        op(HIGH, 100, 700, 600),
        op(LOW, 1000, 1100, 100, demand=0.5, kind="fill"),
        op(LOW, 0, 50, 50, kind="copy_in"),
    ]
    assert used_ns(events, LOW, 0, 2000, SLICES) == 500
    assert used_ns(events, HIGH, 0, 2000, SLICES) == 600


def test_with_mps_a_kernel_had_its_share_of_the_device_however_long_it_was_slowed_down() -> None:
    events = [op(LOW, 0, 1000, 800, demand=0.5), op(LOW, 1000, 1100, 100, demand=0.25)]
    assert used_ns(events, LOW, 0, 2000, MPS) == 400 + 25


def test_of_a_kernel_at_the_edge_of_the_span_counts_what_is_within() -> None:
    events = [op(LOW, 0, 1000, 500), op(LOW, 1000, None, 400), op(LOW, None, None, 400)]
    assert used_ns(events, LOW, 800, 1100, SLICES) == 100 + 100
    assert used_ns(events, LOW, 1500, 2000, SLICES) == 0


def test_a_kernel_that_was_dropped_had_no_more_than_its_time() -> None:
    assert used_ns([op(LOW, 0, 100, 1_000_000)], LOW, 0, 2000, SLICES) == 100


def ratios(jct: float, harvest: float) -> dict[str, Any]:
    both = {"high_jct_ratio": jct, "high_p99_ratio": jct, "harvest": harvest}
    shares = dict.fromkeys(low_time.STATES, 0.0) | {"runs": 1.0}
    between = {name: (value, value) for name, value in both.items()}
    return {
        **both, "between": between, "orders": 9, "harvest_spread": 0.01, "delayed_ms": 1.0, "reported_delayed_ms": 2.0,
        "host_longer": 0.012, "low_time": shares,
    }  # fmt: skip


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """Without a daemon: the harvests that the runs of a pair are to find, one after the other. Those that are left."""
    harvests: dict[str, list[float]] = {}

    def measure(stage: object, book: object, case: live_pairs.Case) -> live_rounds.Measured:
        return ratios(1.0, harvests[case.pair].pop(0)) | {"lead_ms": 0.0}, SEEN

    class Stage:
        profiles = Path("/nonexistent")

    monkeypatch.setattr(live_pairs, "measure", measure)
    monkeypatch.setattr(live_pairs, "learn", lambda *_: None)
    monkeypatch.setattr(Rounds, "keep_profiles", lambda *_: None)
    monkeypatch.setattr(live_pairs.stages, "stage", lambda *_: nullcontext(Stage()))
    monkeypatch.setattr(live_pairs.Case, "simulate", lambda *_: ratios(1.0, 0.5))
    return harvests


@pytest.mark.starts_processes
def test_cases_outside_the_margins_are_measured_again_as_often_as_may_be(
    traces: Path, measured: dict[str, list[float]]
) -> None:
    """Not until they agree: that would be to choose."""
    found = [0.3, 0.52, 0.53, 0.2, 0.1]
    measured |= {"serve + train": [0.5], "train + serve": list(found)}
    result = live_pairs.run(**{**OPTIONS, "most": 5}, traces=traces, pairs=None)
    assert measured == {"serve + train": [], "train + serve": []}
    assert result.values["within"] == 1
    assert result.samples["train + serve closed harvest"] == found


@pytest.mark.starts_processes
def test_a_later_call_measures_only_what_no_earlier_one_has(
    traces: Path, measured: dict[str, list[float]], capsys: pytest.CaptureFixture[str]
) -> None:
    measured |= {"serve + train": [0.5], "train + serve": [0.41]}
    options = {**OPTIONS, "resume": traces / "kept"}
    live_pairs.run(**options, traces=traces, pairs=["serve + train"])
    assert "1/1  serve + train closed, round 1: JCT ratio 1.000, harvest 0.500" in capsys.readouterr().err
    result = live_pairs.run(**options, traces=traces, pairs=None)
    assert result.samples["serve + train closed harvest"] == [0.5]
    assert result.samples["train + serve closed harvest"] == [0.41]
    measured |= {"serve + train": [0.6], "train + serve": [0.7]}
    result = live_pairs.run(**{**options, "rounds": 2}, traces=traces, pairs=None)
    assert result.samples["serve + train closed harvest"] == [0.5, 0.6]
    assert [row["machine"]["nice"] for row in result.details["cases"][0]["live"]] == [os.nice(0)] * 2


@pytest.mark.starts_processes
def test_a_call_that_was_interrupted_leaves_what_it_had_measured(
    traces: Path, measured: dict[str, list[float]]
) -> None:
    measured |= {"serve + train": [0.5], "train + serve": []}
    options = {**OPTIONS, "resume": traces / "kept"}
    with pytest.raises(IndexError):
        live_pairs.run(**options, traces=traces, pairs=None)
    measured["train + serve"].append(0.4)
    assert live_pairs.run(**options, traces=traces, pairs=None).samples["train + serve closed harvest"] == [0.4]


def test_rounds_of_other_settings_or_none_are_one_sentence(tmp_path: Path) -> None:
    kept = Rounds(tmp_path, SETTINGS)
    kept.save("P1 closed", 1, ({"harvest": 0.5}, SEEN))
    assert kept.load("P1 closed", 1) == ({"harvest": 0.5, "machine": {}}, SEEN)
    assert kept.load("P1 closed", 2) is kept.load("P1 open30", 1) is None
    with pytest.raises(record.BenchError, match=r"P1-closed-1\.json was measured with other settings, give --resume"):
        Rounds(tmp_path, {**SETTINGS, "device": "slices"}).load("P1 closed", 1)
    (tmp_path / "P1-closed-1.json").write_text("{")
    with pytest.raises(record.BenchError, match=r"P1-closed-1\.json holds no round of live pairs: remove it"):
        kept.load("P1 closed", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(record.BenchError, match="couldn't make"):
        Rounds(tmp_path / "file" / "below", SETTINGS)


def test_what_a_measuring_run_has_learnt_is_there_for_a_later_call(tmp_path: Path) -> None:
    kept, fikitds = Rounds(tmp_path / "kept", SETTINGS), tmp_path / "profiles"
    kept.take_profiles(fikitds)
    assert not fikitds.exists()
    assert kept.load_calibration() is None
    kept.save_calibration(SEEN)
    (fikitds / "0").mkdir(parents=True)
    for name in ("serve", "train"):
        (fikitds / "0" / name).write_text(name)
        kept.keep_profiles(fikitds, kept.learnt() | {name})
    later = Rounds(tmp_path / "kept", SETTINGS)
    assert later.learnt() == {"serve", "train"}
    assert later.load_calibration() == SEEN
    later.take_profiles(tmp_path / "anew")
    assert sorted(file.name for file in (tmp_path / "anew" / "0").iterdir()) == ["serve", "train"]
    (tmp_path / "kept" / "learnt" / "recordings.json").write_text("[")
    with pytest.raises(record.BenchError, match="remove it, and the recordings are measured anew"):
        later.learnt()


def test_fills_of_one_length_take_one_time() -> None:
    """Else the shim, which knows them by their length, would know none of them again: here their length stands for their time."""

    def row(kind: str, took_us: float | str, length: int, name: int) -> str:
        return f"{kind},1.0,2.0,3.0,{took_us},7,,,,,,,,,{length},{name},0"

    names = ["#N 0 Memset (Device)", "#N 1 Memcpy HtoD (Pinned -> Device)", "#N 2 Memcpy DtoD (Device -> Device)"]
    rows = [row("M", us, length, 0) for us, length in ((2.0, 64), (4.0, 64), (9.0, 128))]
    others = [row("M", 5.0, 64, 1), row("M", 6.0, 64, 1), row("M", 7.0, 64, 2)]
    text = recordings.steady_fills("\n".join([*names, *rows, *others, ""]).encode()).decode()
    steady = [row("M", us, length, 0) for us, length in (("3.000", 64), ("3.000", 64), ("9.000", 128))]
    assert text.splitlines() == [*names, *steady, *others[:2], row("M", "7.000", 64, 2)]


def test_margins_are_those_of_the_claim() -> None:
    assert live_table.MARGINS == (0.03, 0.10)


def test_what_only_computes_gives_up_its_priority_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [os.SCHED_RR]
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: now[0])
    monkeypatch.setattr(os, "sched_getparam", lambda _: os.sched_param(1))
    monkeypatch.setattr(os, "sched_setscheduler", lambda _, policy, __: now.__setitem__(0, policy))
    with live_pairs.patient():
        assert now == [os.SCHED_OTHER]
    assert now == [os.SCHED_RR]
