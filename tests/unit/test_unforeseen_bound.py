"""The bound where nobody knows the arrivals: against policies that are played with thousands of random requests."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fikitd.simulator import Scenario, SimulatorError, parse, simulate
from fikitd.unforeseen import HighJob, Unforeseen, most_work

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
from bench import recordings

REQUEST, THINK = 10.0, 3.0
"""A request: its host computes for 3, launches a kernel of 7 and waits for it."""
SERVED = 20_000

Policy = Callable[[float, float], bool]
"""May a kernel of this length begin, so long after the last request has ended? Asked again and again while there is none."""


def high(load: float) -> HighJob:
    return HighJob(load / REQUEST, REQUEST, rest_slack_ns=THINK, busy_slack_ns=THINK)


def play(
    load: float, lengths: list[float], policy: Policy, *, also_within: bool, seed: int = 1
) -> tuple[float, float, float]:
    """Device time of the low job, delays of all responses together, and response times of the high job alone. `also_within`:
    the next kernel begins with each request, too, if it is shorter than what the host takes to think twice."""
    source = random.Random(seed)
    arrival = host = alone = device = work = delay = response = 0.0
    place = 0
    for _ in range(SERVED):
        arrival += source.expovariate(load / REQUEST)
        rest = host
        while True:  # without a request; what begins is not taken back
            begin = max(device, rest)
            length = lengths[place % len(lengths)]
            if begin >= arrival:
                break
            if policy(length, begin - host):
                device, work, place = begin + length, work + length, place + 1
            rest = begin + 0.5
        start = max(arrival, host)
        length = lengths[place % len(lengths)]
        if also_within and length <= 2 * THINK and device <= start:
            device, work, place = start + length, work + length, place + 1
        host = device = max(device, start + THINK) + REQUEST - THINK
        alone = max(arrival, alone) + REQUEST
        delay += host - alone
        response += alone - arrival
    return work, delay, response


ALWAYS: Policy = lambda _length, _idle: True  # noqa: E731
LATER: Policy = lambda _length, idle: idle > 5  # noqa: E731
SHORT_ONES_LATER: Policy = lambda length, idle: length > 8 or idle > 8  # noqa: E731
SELDOM: Policy = lambda _length, idle: idle < 1  # noqa: E731


@pytest.mark.parametrize("load", [0.3, 0.6])
@pytest.mark.parametrize("also_within", [False, True])
@pytest.mark.parametrize("policy", [ALWAYS, LATER, SHORT_ONES_LATER, SELDOM])
@pytest.mark.parametrize("lengths", [[4.0], [1.0, 5.0, 30.0], [6.0, 2.0, 2.0, 12.0]])
def test_no_policy_gives_more_for_its_delays(
    lengths: list[float], policy: Policy, *, also_within: bool, load: float
) -> None:
    work, delay, _ = play(load, lengths, policy, also_within=also_within)
    most = most_work(high(load), lengths, delay)
    assert 0 < work <= 1.1 * most  # chance: the bound is of expectations


def test_it_is_nearly_reached_where_kernels_begin_without_a_request_only_and_are_short() -> None:
    """They cost what is said: all that is left out is whom a delay meets that would not have waited alone."""
    work, delay, _ = play(0.3, [4.0], ALWAYS, also_within=False)
    assert work >= 0.85 * most_work(high(0.3), [4.0], delay)


def made_late(load: float, to_come: float, late: float) -> float:
    """All responses together, on average, when a request with so much to come ends so much later, and nobody waits behind it yet."""
    source, trials, together = random.Random(1), 20_000, 0.0
    for _ in range(trials):
        arrival, alone, shared = 0.0, to_come, to_come + late
        while shared > alone:  # until one finds nobody
            together += shared - alone
            arrival += source.expovariate(load / REQUEST)
            alone, shared = max(arrival, alone) + REQUEST, max(arrival, shared) + REQUEST
    return together / trials


@pytest.mark.parametrize("load", [0.3, 0.7])
@pytest.mark.parametrize("to_come", [0.0, 2.0, THINK, REQUEST])
def test_what_begins_within_a_request_makes_those_late_that_arrive_until_its_end(load: float, to_come: float) -> None:
    length = 3.5
    late = length - min(to_come, THINK)
    assert made_late(load, to_come, late) >= 0.97 * high(load)._late_within_ns(length)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_so_many_are_late_when_a_kernel_begins_while_its_slack_is_all_that_is_to_come(load: float) -> None:
    """The rest, those that arrive between the end alone and the later one, is left out."""
    length = THINK + 0.1
    assert made_late(load, THINK, 0.1) == pytest.approx(high(load)._late_within_ns(length), rel=0.1)


def test_a_kernel_costs_the_least_of_what_it_would_at_rest_and_within_a_request() -> None:
    job = HighJob(0.05, 10, rest_slack_ns=2, busy_slack_ns=5)
    assert job.together == pytest.approx(2)
    assert job.least_delay_ns(2) == 0
    assert job.least_delay_ns(5) == 0
    # Begun when 5 are to come, within which a quarter of a request arrives, and another one behind each.
    assert job.least_delay_ns(5.01) == pytest.approx(0.01 * 1.5)
    # 98 - 20 (1 - e^-4.9), twice, is more than 100, and so is 95 * 1.5: it begins when a request is nearly over
    assert job.least_delay_ns(100) == pytest.approx(100)
    busy = HighJob(0.09, 10, rest_slack_ns=2, busy_slack_ns=5)
    assert busy.least_delay_ns(6) == pytest.approx(1 + 0.09 * 5 * 10)  # at rest 10 (4 - (1 - e^-0.36) / 0.09), more
    far = HighJob(0.001, 10, rest_slack_ns=2, busy_slack_ns=5)
    assert far.least_delay_ns(100) == pytest.approx((98 - 1000 * (1 - 2.718281828**-0.098)) / 0.99)


def test_what_costs_nothing_has_no_bound_and_what_comes_first_in_a_pass_is_had_once() -> None:
    job = HighJob(0.001, 10, rest_slack_ns=2, busy_slack_ns=5)
    assert most_work(job, [1, 2], 0) == float("inf")
    cost = job.least_delay_ns(50)
    assert most_work(job, [5, 50], cost) == pytest.approx(55 + 5)
    assert most_work(job, [50, 5], 0) == 0


@pytest.fixture(scope="module")
def made_up() -> Scenario:
    """Made-up inference above made-up training."""
    made = parse("inference", recordings.inference(1).text().decode())
    low = parse("training", recordings.training(1).text().decode())
    return Scenario(made, [low], arrivals="open30", requests=60)


def test_slacks_of_a_recording_are_idle_time_within_a_request(made_up: Scenario) -> None:
    job = Unforeseen(made_up).high
    assert 0 <= job.rest_slack_ns <= job.busy_slack_ns < job.request_ns
    assert job.rate * job.request_ns == pytest.approx(0.3)


def test_no_policy_of_fikit_harvests_more_than_the_bound_at_its_slowdown(made_up: Scenario) -> None:
    bound = Unforeseen(made_up)
    for policy in ("fifo", "prio", "fikit", "budget", "tally"):
        outcome = simulate(made_up, policy)
        assert outcome.harvest <= bound.harvest(outcome.high_jct_ratio), policy


def test_it_says_what_it_is_not_for(made_up: Scenario) -> None:
    with pytest.raises(SimulatorError, match="one low job"):
        Unforeseen(Scenario(made_up.high, [*made_up.lows, *made_up.lows], arrivals="open30"))
    with pytest.raises(SimulatorError, match="arrive"):
        Unforeseen(Scenario(made_up.high, made_up.lows))
