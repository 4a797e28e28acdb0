"""What the simulator says of a low job's time, and of what a profile knows whose measuring run was cut short."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from fikitd.simulation import simulator
from fikitd.simulation.simulator import Scenario

from bench import recordings


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """Made-up inference above made-up training."""
    high = simulator.parse("inference", recordings.inference(1).text().decode())
    low = simulator.parse("training", recordings.training(1).text().decode())
    return Scenario(high, [low], requests=10, device=simulator.MERGED)


@pytest.mark.parametrize("policy", ["fifo", "prio", "budget"])
def test_all_of_a_low_jobs_time_is_accounted_for(scenario: Scenario, policy: str) -> None:
    outcome, time = simulator.simulate(scenario, policy), simulator.low_time(scenario, policy)
    high_ns = sum(time.below.values())
    assert sum(time.free.values()) + high_ns == pytest.approx(outcome.span_ms * 1e6, abs=10)
    assert time.free["runs"] == pytest.approx(outcome.low_share * outcome.span_ms * 1e6, rel=1e-6)
    assert "runs" not in time.below
    assert high_ns > 0.05 * outcome.span_ms * 1e6


def test_a_job_without_a_gate_is_never_held_and_one_that_is_kept_out_always(scenario: Scenario) -> None:
    fifo, exclusive = (simulator.low_time(scenario, policy) for policy in ("fifo", "exclusive"))
    assert set(fifo.free) | set(fifo.below) <= {"runs", "queued", "host"}
    assert exclusive.free["behind"] > 0.9 * sum(exclusive.free.values())
    assert "runs" not in exclusive.free


def test_time_at_the_gate_is_the_dispatchers_own_until_it_has_decided(scenario: Scenario) -> None:
    fast, slow = (
        simulator.low_time(replace(scenario, costs=simulator.Costs(observe_ns=us * 1000, wake_ns=0)), "prio")
        for us in (2, 40)
    )
    assert slow.free["reaction"] > 2 * fast.free["reaction"] > 0


def test_nobody_waits_for_what_an_ended_run_has_not_launched(scenario: Scenario) -> None:
    time = simulator.low_time(replace(scenario, arrivals="open30", requests=40, device=simulator.MPS), "budget")
    assert time.free["run_ahead"] < 0.01 * time.free["runs"]


def test_a_measuring_run_that_is_cut_short_leaves_what_it_saw_twice(scenario: Scenario) -> None:
    def harvest(passes: float, *, rhythm: bool = True) -> float:
        high = replace(scenario.high, learning_ns=round(passes * scenario.high.alone_ns), stored=True)
        return simulator.simulate(replace(scenario, high=high, rhythm=rhythm), "budget").harvest

    nothing = harvest(0.9, rhythm=False)
    assert harvest(0.9) == pytest.approx(nothing, rel=0.01)  # it does nothing twice within a pass
    assert nothing < harvest(2.5) < harvest(3.05)  # in the first one its kernels were not known


def test_a_profile_has_kernels_as_events_time_them_with_the_devices_pause_behind_each(scenario: Scenario) -> None:
    high = replace(scenario.high, learning_ns=round(2.5 * scenario.high.alone_ns), stored=True)
    wrong_us = simulator.simulate(Scenario(high, (), requests=5), "budget").mispredicted_us_p99
    assert wrong_us == pytest.approx(high.native.kernel_gap_ns / 1000, rel=0.15)  # within the width of a bucket


def test_the_longer_a_job_has_been_silent_before_its_first_request_the_less_it_is_waited_for(
    scenario: Scenario,
) -> None:
    def harvest(lead_ns: int) -> float:
        return simulator.simulate(replace(scenario, arrivals="open30", requests=1, lead_ns=lead_ns), "budget").harvest

    assert harvest(0) < harvest(1_000_000_000)


def test_where_hosts_wait_is_said_for_every_piece_of_work(scenario: Scenario) -> None:
    waits = scenario.high.native.waits_before
    kinds = [
        line[0] for line in recordings.inference(1).text().decode().splitlines() if line.startswith(("K,", "M,", "S,"))
    ]
    assert len(waits) == sum(kind != "S" for kind in kinds)
    assert waits[0]  # for the end of the pass before it
    assert sum(waits) == kinds.count("S")  # each of its synchronisations ends a request of its own


def test_what_a_profile_holds_of_runs_depends_on_how_much_work_they_may_be(scenario: Scenario) -> None:
    def grants(longest_run_ns: float) -> int:
        return simulator.simulate(replace(scenario, tuning={"longest_run_ns": longest_run_ns}), "budget").grants

    usual = simulator.simulate(scenario, "budget").grants
    assert grants(simulator.TUNING["longest_run_ns"]) == usual
    assert grants(1) > 1.2 * usual  # each kernel asks


def test_a_measuring_run_of_one_segment_does_not_say_where_its_host_waits(scenario: Scenario) -> None:
    """Its kernels were not known before; of a second pass they are, and a third one confirms it."""

    def harvest(passes: int, *, rhythm: bool = True) -> float:
        high = replace(served(60), learning_passes=passes, stored=True)
        return simulator.simulate(replace(scenario, high=high, requests=4, rhythm=rhythm), "budget").harvest

    assert harvest(1) == harvest(1, rhythm=False)
    assert harvest(2) < harvest(3)


def served(kernels: int) -> simulator.Trace:
    """Kernels with pauses between them, and one wait at their end."""
    made = recordings.Made(random.Random(1))
    for number in range(kernels):
        made.work(f"kernel {number}", 50)
        made.think(400)
    made.synchronize()
    return simulator.parse("served", made.text().decode())
