"""The switch of a simulated device, as fikitd's own trackers measure it from what jobs report. Simulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fikitd.simulation import simulator
from fikitd.simulation.simulator import MERGED, MPS, SLICES, Device

US = 1000


def scenario(traces: Path, device: Device, *lows: str, kind: str = "open30", **terms: object) -> simulator.Scenario:
    high, *low = (simulator.load(traces / f"{name}.csv") for name in ("serve", *(lows or ("train",))))
    return simulator.Scenario(high, low, kind, requests=400, device=device, **terms)  # type: ignore[arg-type]


@pytest.mark.takes_seconds
@pytest.mark.parametrize("switch_us", [0, 20, 50, 100, 200])
@pytest.mark.parametrize("policy", ["budget", "prio"])
def test_the_switch_is_found_within_a_tenth_or_3_us(traces: Path, switch_us: int, policy: str) -> None:
    found = simulator.measured_switch(scenario(traces, replace(SLICES, switch_ns=switch_us * US)), policy)
    if found is None:  # few fills and long ones show few changes
        assert policy == "budget"
        return
    assert abs(found[0] - switch_us * US) <= max(3 * US, switch_us * US / 10)


@pytest.mark.takes_seconds
def test_the_policy_that_goes_by_the_switch_finds_it(traces: Path) -> None:
    """Where it sees enough changes: of eight cases in two at least. Else it goes on by what it assumes."""
    found = [
        simulator.measured_switch(scenario(traces, replace(SLICES, switch_ns=us * US), kind=kind), "budget")
        for kind in ("open30", "closed")
        for us in (20, 50, 100, 200)
    ]
    assert sum(each is not None for each in found) >= 2


@pytest.mark.takes_seconds
@pytest.mark.parametrize("device", [MERGED, replace(SLICES, switch_ns=0)])
def test_where_a_change_costs_nothing_none_is_found(traces: Path, device: Device) -> None:
    found = simulator.measured_switch(scenario(traces, device), "budget")
    assert found is None or found[0] <= 3 * US


def test_where_kernels_overlap_there_is_none(traces: Path) -> None:
    assert simulator.measured_switch(scenario(traces, MPS), "budget") is None


@pytest.mark.takes_seconds
@pytest.mark.parametrize("switch_us", [0, 20, 50, 100])
@pytest.mark.parametrize("policy", ["budget", "prio", "xsched"])
def test_several_low_jobs_change_nothing(traces: Path, switch_us: int, policy: str) -> None:
    device = replace(SLICES, switch_ns=switch_us * US)
    found = simulator.measured_switch(scenario(traces, device, "train", "train"), policy)
    assert found is None or abs(found[0] - switch_us * US) <= max(4 * US, switch_us * US / 10)


@pytest.mark.takes_seconds
@pytest.mark.parametrize("switch_us", [0, 50])
def test_without_profiles_no_switch_is_made_up(traces: Path, switch_us: int) -> None:
    found = simulator.measured_switch(scenario(traces, replace(SLICES, switch_ns=switch_us * US), cold=True), "budget")
    assert found is None or abs(found[0] - switch_us * US) <= 5 * US
