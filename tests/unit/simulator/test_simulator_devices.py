"""The devices that exist: time slices with switches, and MPS. What a simulation says of each, and what no policy can do there."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from fikitd._simulator import Interval
from fikitd.simulation.bound import Bound, most_in_gaps_ns
from fikitd.simulation.simulator import (
    ARRIVALS,
    MERGED,
    MPS,
    SLICES,
    Device,
    DeviceError,
    Observed,
    Scenario,
    SimulatorError,
    compare,
    named,
    parse,
    policies_of,
    simulate,
)

from bench import recordings

US = 1000
BY_ADMISSION = replace(MPS, mps_model="admission")
DEVICES = {
    "slices": SLICES,
    "mps": MPS,
    "mps, slower": replace(MPS, overlap_slowdown=1.5),
    "mps by admission": BY_ADMISSION,
}


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """Made-up inference above made-up training."""
    high = parse("inference", recordings.inference(1).text().decode())
    low = parse("training", recordings.training(1).text().decode())
    return Scenario(high, [low], requests=10)


def test_by_default_a_device_is_one_without_mps_whose_switch_costs_time(scenario: Scenario) -> None:
    assert scenario.device == SLICES
    assert (SLICES.slice_ns, SLICES.switch_ns, SLICES.origin) == (1_024 * US, 50 * US, "assumed")
    assert simulate(scenario, "prio").device == "slices of 1024 us, a switch of 50 us"


@pytest.mark.takes_seconds
@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_no_policy_harvests_more_than_the_bound_of_its_device(
    scenario: Scenario, device: Device, arrivals: str
) -> None:
    here = replace(scenario, arrivals=arrivals, device=device)
    bound = Bound(here)
    for policy in policies_of(device):
        outcome = simulate(here, policy)
        assert outcome == simulate(here, policy)
        if outcome.high_jct_ratio <= 1 + bound.most:
            assert outcome.harvest <= bound.harvest(outcome.high_jct_ratio), policy


def test_what_a_switch_costs_is_felt_by_both_jobs(scenario: Scenario) -> None:
    outcomes = [
        simulate(replace(scenario, device=replace(SLICES, switch_ns=switch * US)), "prio") for switch in (0, 50, 200)
    ]
    ratios, harvests = ([getattr(o, name) for o in outcomes] for name in ("high_jct_ratio", "harvest"))
    assert ratios == sorted(ratios)
    assert ratios[0] < ratios[-1]
    assert harvests == sorted(harvests, reverse=True)
    assert harvests[0] > harvests[-1]


def test_longer_slices_of_the_high_job_protect_it_at_the_cost_of_the_low_one(scenario: Scenario) -> None:
    # Shorter than what the low job's host launches at once.
    short = replace(scenario, device=replace(SLICES, slice_ns=200 * US))
    weighted, equal = (simulate(short, policy) for policy in ("weighted", "fifo"))
    assert weighted.grants == equal.grants == 0
    assert weighted.high_jct_ratio < equal.high_jct_ratio
    assert weighted.low_share < equal.low_share


def test_mps_priority_protects_the_high_job_without_a_gate(scenario: Scenario) -> None:
    # Two jobs whose kernels do not fit beside each other.
    crowded = replace(scenario, high=scenario.lows[0], device=MPS)
    prioritised, equal = (simulate(crowded, policy) for policy in ("mps-priority", "fifo"))
    assert prioritised.grants == equal.grants == 0
    assert 1 <= prioritised.high_jct_ratio < equal.high_jct_ratio
    assert prioritised.low_share < equal.low_share


def test_where_kernels_overlap_harvest_counts_the_share_of_the_device_that_they_take(scenario: Scenario) -> None:
    """Kernels of the whole device exclude each other: then it is as it would be without overlap."""
    overlapping, merged = (simulate(replace(scenario, device=device), "prio") for device in (MPS, MERGED))
    assert 0 < overlapping.harvest <= 1
    assert overlapping.high_jct_ratio < merged.high_jct_ratio


def test_with_mps_harvest_is_low_work_over_the_time_less_the_high_jobs_work() -> None:
    """The high job alone: ten requests of 100 ns, of which 60 ns are a kernel of half of the device."""
    alone = Observed(span_ns=1000, responses_ns=[100] * 10, high_ns=300)
    shared = Observed(span_ns=1200, responses_ns=[120] * 10, high_ns=300, low_ns=450)
    of = {device.sharing: compare(alone, shared, closed=True, device=device) for device in (MPS, SLICES)}
    assert of["mps"].high_jct_ratio == of["slices"].high_jct_ratio == pytest.approx(1.2)
    assert of["mps"].harvest == pytest.approx(450 / (1200 - 300))
    assert of["slices"].harvest == pytest.approx(450 / (1200 * 0.7))


def test_with_mps_jobs_that_share_all_of_the_device_harvest_all_of_it_and_no_more(scenario: Scenario) -> None:
    """Two that always want the whole device have half of it each: what the high one's work leaves is the low one's, however long both take."""
    crowded = replace(scenario, high=scenario.lows[0], requests=3, device=MPS)
    outcome = simulate(crowded, "fifo")
    assert outcome.high_jct_ratio > 1.2
    assert 0 < outcome.harvest <= 1


def test_kernels_that_slow_each_other_down_cost_the_high_job_more(scenario: Scenario) -> None:
    ratios = [
        simulate(replace(scenario, device=replace(MPS, overlap_slowdown=slowdown)), "fifo").high_jct_ratio
        for slowdown in (1.0, 1.2, 1.5)
    ]
    assert ratios == sorted(ratios)
    assert ratios[0] < ratios[-1]


def test_by_admission_small_kernels_wait_for_large_ones_as_in_one_queue(scenario: Scenario) -> None:
    in_proportion, admitted, merged = (
        simulate(replace(scenario, device=device), "fifo").high_jct_ratio for device in (MPS, BY_ADMISSION, MERGED)
    )
    assert in_proportion < 1.05
    assert 1.5 < admitted == pytest.approx(merged, rel=0.05)


def test_by_admission_a_switch_costs_time_where_kernels_wait_for_room(scenario: Scenario) -> None:
    ratios = [
        simulate(replace(scenario, device=replace(BY_ADMISSION, mps_switch_ns=switch)), "fifo").high_jct_ratio
        for switch in (0, 5 * US)
    ]
    assert ratios[0] < ratios[1]


@pytest.mark.parametrize(("policy", "device"), [("mps-priority", SLICES), ("weighted", MPS)])
def test_a_policy_for_another_device_is_refused_in_one_sentence(
    scenario: Scenario, policy: str, device: Device
) -> None:
    with pytest.raises(SimulatorError, match=f"^{policy} needs a device with"):
        simulate(replace(scenario, device=device), policy)


def _served(gaps: tuple[int, ...], works: tuple[int, ...], tails: tuple[int, ...], visits: tuple[int, ...]) -> int:
    """When a high job has ended, between whose kernels a low one takes the device for so long, switches included: its host goes on when both the
    kernel before and what it computes beside it are over."""
    end = host = 0
    for gap, work, tail, visit in zip(gaps, works, tails, visits, strict=True):
        begin = max(host + gap, end + visit)
        end = begin + work
        host = max(end, begin + work + tail if visit == 0 else host + gap + work + tail)
    return end


@pytest.mark.parametrize("switch", [0, 1, 3])
def test_no_way_to_visit_a_small_high_job_gives_more_than_the_bound(switch: int) -> None:
    """Every visit of up to seven units before each of three kernels."""
    for gaps, tails in itertools.product([(0, 4, 2), (5, 1, 5), (2, 2, 6)], [(0, 0, 0), (2, 0, 0), (1, 3, 0)]):
        works = (3, 2, 4)
        alone, host, intervals = 0, 0, []
        for gap, work, tail in zip(gaps, works, tails, strict=True):
            end = max(host + gap, alone) + work
            host = end + tail
            intervals.append(Interval(end, work, tail))
            alone = end
        most = most_in_gaps_ns(intervals, switch)
        for visits in itertools.product(range(8), repeat=3):
            delay = max(0, _served(gaps, works, tails, visits) - alone)
            low = sum(max(0, visit - 2 * switch) for visit in visits)
            assert low <= most + delay, (gaps, tails, visits)


def test_jobs_are_measured_alone_on_the_device_that_they_share(scenario: Scenario) -> None:
    there = replace(scenario, device=replace(SLICES, launch_latency_ns=9 * US, kernel_gap_ns=7 * US))
    for here, recorded in zip((there.high, *there.lows), (scenario.high, *scenario.lows), strict=True):
        assert (here.native.launch_latency_ns, here.native.kernel_gap_ns) == (9 * US, 7 * US)
        assert recorded.native.kernel_gap_ns < 7 * US
    assert there.lows[0].alone_ns > scenario.lows[0].alone_ns
    again = replace(there, device=SLICES)
    assert again.lows[0].alone_ns == scenario.lows[0].alone_ns
    assert simulate(again, "budget") == simulate(scenario, "budget")


def test_a_profile_of_an_emulated_gpu_is_a_device(tmp_path: Path) -> None:
    path = tmp_path / "gpu.toml"
    path.write_text(
        '[device]\nname = "Emulated H100"\nslice_us = 2000\nswitch_us = 33.5\nidle_yields = false\nkernel_gap_us = 1\n'
    )
    device = named(str(path))
    assert (device.slice_ns, device.switch_ns, device.idle_holds, device.kernel_gap_ns) == (
        2_000_000,
        33_500,
        True,
        1000,
    )
    assert device.launch_latency_ns is None
    assert device.origin == "Emulated H100 (gpu.toml)"
    path.write_text('[device]\nsharing = "mps"\noverlap_slowdown = 1.2\n')
    assert str(named(str(path))) == "mps, overlapping kernels 1.2 times as long"
    path.write_text('[device]\nsharing = "mps"\nmps_model = "admission"\nmps_switch_us = 0.26\n')
    assert str(named(str(path))) == "mps by admission"
    assert named(str(path)).mps_switch_ns == 260
    assert named(str(path), mps_model="proportion") == replace(MPS, mps_switch_ns=260, origin="as told")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[device", "couldn't read the device"),
        ("device = 3", "device must be a table"),
        ('[device]\nsharing = "merged"', "sharing must be one of slices, mps, not 'merged'"),
        ("[device]\nslice_us = -1", "slice_us must be a number from 0 to"),
        ("[device]\nswitch_us = nan", "switch_us must be a number"),
        ("[device]\nswitch_us = true", "switch_us must be a number"),
        ("[device]\noverlap_slowdown = 0.5", "overlap_slowdown must be a number from 1 to 100"),
        ('[device]\nmps_model = "fair"', "mps_model must be one of proportion, admission, not 'fair'"),
        ('[device]\nidle_yields = "no"', "idle_yields must be true or false"),
    ],
)
def test_a_bad_profile_is_one_sentence(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "gpu.toml"
    path.write_text(text)
    with pytest.raises(DeviceError, match=what) as caught:
        named(str(path))
    assert "\n" not in str(caught.value)


def test_a_time_that_the_device_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="mps has no slices"):
        named("mps", switch_ns=1)
    with pytest.raises(DeviceError, match="on slices no kernels overlap"):
        named("slices", overlap_slowdown=1.2)
    with pytest.raises(DeviceError, match="slices has no MPS: leave the model of MPS away"):
        named("slices", mps_model="admission")
    with pytest.raises(DeviceError, match="use slices, mps or a profile"):
        named(str(tmp_path / "none.toml"))
    assert named("slices", switch_ns=20 * US).switch_ns == 20 * US
