"""`python -m bench dispatch`: what it measures, not how fast this machine is; and when the dispatcher spins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fikitd._core import Spin

from bench.launch import dispatch
from bench.record import BenchError

SPIN_NS = 20_000


@pytest.fixture(scope="module")
def measured() -> dispatch.Result:
    return dispatch.run(emulated=True, rounds=20, gpus=2, clients=3, idle_ms=50)


@pytest.mark.starts_processes
def test_every_kind_of_waiting_is_measured_so_often_as_asked(measured: dispatch.Result) -> None:
    assert set(measured.samples) == set(dispatch.LINES)
    decisions = {name for name in measured.samples if name.startswith("decide")}
    assert all(len(measured.samples[name]) >= 20 for name in decisions)
    assert {len(times) for name, times in measured.samples.items() if name not in decisions} == {20}
    assert 0 < measured.values["behind_cpu_share"] < 2
    assert measured.values["empty_cpu_share"] >= 0
    assert measured.values["idle_cpu_share"] >= 0


@pytest.mark.starts_processes
def test_the_table_names_the_load_and_every_row(measured: dispatch.Result) -> None:
    assert "load average" in measured.summary.splitlines()[0]
    assert all(title in measured.summary for title, _ in dispatch.LINES.values())
    assert "2 dispatchers" in measured.summary
    assert not measured.emulated, "no device takes part"


def test_no_gpu_takes_part() -> None:
    with pytest.raises(BenchError, match="leave --real away"):
        dispatch.run(emulated=False)


@pytest.mark.starts_processes
def test_a_program_that_fails_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "fikit-dispatch-bench"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho first >&2\necho it broke >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("FIKIT_NATIVE", os.fspath(tmp_path))
    with pytest.raises(BenchError, match=r"^it broke$"):
        dispatch.run(emulated=True)


def test_the_dispatcher_spins_while_events_are_close() -> None:
    spin = Spin(SPIN_NS)
    assert spin.limit_ns == SPIN_NS
    for _ in range(100):
        spin.came_after(10_000)
    spin.came_after(10**12)
    assert spin.limit_ns == SPIN_NS, "one pause is no habit"


def test_it_does_not_where_they_are_far_apart_and_learns_when_that_changes() -> None:
    spin = Spin(SPIN_NS)
    for _ in range(20):
        spin.came_after(500_000)
    assert spin.limit_ns == 0
    for _ in range(20):
        spin.came_after(1_000)
    assert spin.limit_ns == SPIN_NS


def test_a_site_without_spinning_gets_none() -> None:
    spin = Spin(0)
    spin.came_after(-5)
    assert spin.limit_ns == 0
