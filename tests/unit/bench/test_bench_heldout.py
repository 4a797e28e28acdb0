"""bench heldout: pairs that are no standard pair, each with arrivals of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from fikitd.simulation.simulator import SLICES

from bench import record
from bench.scheduling import heldout, pairs


def test_standard_pairs_are_left_out_and_order_is_fixed() -> None:
    high, low = pairs.PAIRS["P1"]
    found = heldout.cases({low: b"", high: b""}, None, SLICES)
    assert {case.names for case in found} == {(low, high)}
    assert [(case.arrivals, case.seed) for case in found] == [
        ("closed", 101), ("open30", 101), ("open30", 102), ("open70", 101), ("open70", 102)
    ]  # fmt: skip


@pytest.mark.starts_processes
def test_every_pair_is_judged(traces: Path) -> None:
    result = heldout.run(emulated=True, traces=traces, requests=3)
    assert result.values["cases"] == 10
    assert {row["case"] for row in result.details["runs"]} >= {"serve + train closed", "train + serve open70"}
    assert "emulated" in result.summary


def test_a_baseline_that_keeps_the_bound_and_harvests_more_is_told() -> None:
    mine = [{"jct": 1.01, "harvest": 0.5}] * 4
    of_baseline = [(1.05, 0.6), (1.051, 0.6), (1.0, 0.5005), (1.0, 0.4)]
    assert heldout._more([{"jct": jct, "harvest": harvest} for jct, harvest in of_baseline], mine) == [
        True, False, False, False
    ]  # fmt: skip


def test_it_does_not_run_on_hardware() -> None:
    with pytest.raises(record.BenchError, match="leave --real away"):
        heldout.run(emulated=False)
