"""The upper bound of the harvest, on the devices that exist; every way to visit a small high job is in test_simulator_devices.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fikitd._simulator import alone
from fikitd.simulation.bound import Bound
from fikitd.simulation.simulator import MPS, SLICES, Device, Scenario, SimulatorError, parse

from bench import recordings

MS = 1_000_000


@pytest.fixture(scope="module")
def made_up() -> Scenario:
    """Made-up inference above made-up training."""
    high = parse("inference", recordings.inference(1).text().decode())
    low = parse("training", recordings.training(1).text().decode())
    return Scenario(high, [low], requests=12)


@pytest.mark.parametrize("device", [SLICES, MPS], ids=["slices", "mps"])
def test_more_may_be_harvested_where_more_delay_is_allowed(made_up: Scenario, device: Device) -> None:
    bound = Bound(replace(made_up, device=device))
    assert 0 < bound.harvest(1.0) <= bound.harvest(1.05) <= bound.harvest(1.2) <= 1.2


def test_with_mps_no_more_than_what_the_high_jobs_work_leaves_can_be_had(made_up: Scenario) -> None:
    assert Bound(replace(made_up, device=MPS)).harvest(1.25) <= 1


def test_a_dearer_switch_leaves_less(made_up: Scenario) -> None:
    harvests = [
        Bound(replace(made_up, device=replace(SLICES, switch_ns=switch_ns))).harvest(1.0)
        for switch_ns in (0, 50_000, 200_000)
    ]
    assert harvests == sorted(harvests, reverse=True)
    assert harvests[0] > harvests[-1]


def test_a_high_job_alone_does_the_same_work_however_its_requests_arrive(made_up: Scenario) -> None:
    trace = made_up.high.native
    together, apart = (alone(trace, 3, arrivals) for arrivals in ([0, 1, 2], [0, 1000 * MS, 2000 * MS]))
    assert sum(i.work_ns for i in together.intervals) == sum(i.work_ns for i in apart.intervals) > 0
    assert together.span_ns < apart.span_ns
    assert together.response_ns > apart.response_ns  # they wait for each other
    assert all(interval.tail_ns >= 0 for interval in apart.intervals)


def test_the_bound_says_what_it_is_not_for(made_up: Scenario) -> None:
    with pytest.raises(SimulatorError, match="one low job"):
        Bound(replace(made_up, lows=[*made_up.lows, *made_up.lows]))
    with pytest.raises(SimulatorError, match="up to 25 %"):
        Bound(made_up).harvest(1.5)
