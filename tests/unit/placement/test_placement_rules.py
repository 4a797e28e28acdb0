"""The rules of sharing a GPU against brute force: a clock that goes on in the smallest steps there are, from one end of a job to the next."""

from __future__ import annotations

import math
import os
from statistics import fmean

import pytest
from fikitd.gpus.placement import (
    Couple,
    Device,
    History,
    Priorities,
    Resident,
    Rules,
    Slowdowns,
    Verdict,
    consider,
    new_should_be_high,
    replay,
    shards_for,
    sub_batch,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from examples import examples

GIB = 1 << 30
CASES = settings(max_examples=examples(int(os.environ.get("FIKIT_PLACEMENT_CASES", "300"))), deadline=None)
rests = st.floats(1, 1e6)
slowdowns = st.floats(1, 100)
shares = st.floats(0, 1)
loads = st.lists(st.tuples(rests, shares), min_size=1, max_size=6)


def ends_alone_and_together(
    rest: dict[str, float], slowdown: dict[str, float], start: dict[str, float]
) -> dict[str, float]:
    """Two jobs on one GPU: who is there alone goes at full speed, both together at 1 / slowdown each."""
    left, ends, now = dict(rest), {}, 0.0
    while left:
        here = [name for name in left if start[name] <= now]
        rates = {name: 1 / slowdown[name] if len(here) == 2 else 1.0 for name in here}
        steps = [left[name] / rates[name] for name in here] + [start[name] - now for name in left if name not in here]
        step = min(steps)
        for name in here:
            left[name] -= rates[name] * step
        now += step
        for name in [name for name in here if left[name] <= 1e-9 * rest[name]]:
            ends[name] = now
            del left[name]
    return ends


@CASES
@given(rests, rests, slowdowns, slowdowns)
def test_both_ends_of_a_couple_are_those_of_brute_force(high: float, low: float, of_high: float, of_low: float) -> None:
    couple = Couple(high, low, of_high, of_low)
    ends = ends_alone_and_together({"high": high, "low": low}, {"high": of_high, "low": of_low}, {"high": 0, "low": 0})
    assert couple.shared_sum_s == pytest.approx(sum(ends.values()), rel=1e-6)
    assert couple.shared_last_s == pytest.approx(max(ends.values()), rel=1e-6)


@CASES
@given(running=rests, new=rests, of_running=slowdowns, of_new=slowdowns, new_is_high=st.booleans(), part=shares)
def test_sharing_at_once_or_one_after_the_other_is_never_worse_than_between(
    *, running: float, new: float, of_running: float, of_new: float, new_is_high: bool, part: float
) -> None:
    """Theorem 1: the best moment to start is now or at the running job's end; gains() says which."""
    rest, slowdown = {"running": running, "new": new}, {"running": of_running, "new": of_new}

    def total(delay: float) -> float:
        return sum(ends_alone_and_together(rest, slowdown, {"running": 0, "new": delay}).values())

    at_once, after, between = total(0), running + running + new, total(part * running)
    assert min(at_once, after) <= between * (1 + 1e-9)
    assume(abs(at_once - after) > 1e-6 * after)
    couple = Couple(new, running, of_new, of_running) if new_is_high else Couple(running, new, of_running, of_new)
    assert couple.gains(new_is_high, math.inf) == (at_once < after)


@CASES
@given(rests, rests, slowdowns, slowdowns, rests)
def test_the_closed_tests_of_the_reference_decide_as_the_sums_do(
    b: float, a: float, high_xi: float, low_xi: float, wait: float
) -> None:
    """docs/design/placement.md: four inequalities, by who outlives whom under sharing; and what a free GPU in `wait` changes."""
    low, high = Couple(b, a, high_xi, low_xi), Couple(a, b, high_xi, low_xi)
    outlives_as_low, outlives_as_high = low_xi * a >= high_xi * b, high_xi * a >= low_xi * b
    as_low = high_xi < 2 * low_xi / (2 * low_xi - 1) if outlives_as_low else a * (low_xi * (2 - 1 / high_xi) - 1) < b
    as_high = low_xi < 2 * high_xi / (2 * high_xi - 1) if outlives_as_high else a * (high_xi * (2 - 1 / low_xi) - 1) < b
    for couple, is_high, said in ((low, False, as_low), (high, True, as_high)):
        assume(abs(couple.shared_sum_s - 2 * b - a) > 1e-6 * (2 * b + a))
        assert couple.gains(is_high, math.inf) == said
        assume(abs(couple.shared_sum_s - b - min(wait, b) - a) > 1e-6 * (2 * b + a))
        assert couple.gains(is_high, wait) == (couple.shared_sum_s < b + min(wait, b) + a)
    if not outlives_as_low and not outlives_as_high:
        assume(abs(high_xi * (2 - 1 / low_xi) - low_xi * (2 - 1 / high_xi)) > 1e-6 * high_xi * low_xi)
        assert new_should_be_high(high, low) == (high_xi * (2 - 1 / low_xi) < low_xi * (2 - 1 / high_xi))


def ends_in_small_steps(jobs: list[Resident], priorities: Priorities) -> list[float]:
    """replay() with rates that are asked for anew after each of the ends, written down the long way."""
    left = {i: job.rest_s for i, job in enumerate(jobs)}
    order = sorted(left, key=lambda i: jobs[i].rest_s) if priorities is Priorities.ORDERED else list(left)
    ends, now = [0.0] * len(jobs), 0.0
    while left:
        here = [i for i in order if i in left]
        rates = dict(zip(here, closed_form([jobs[i].busy for i in here], priorities), strict=True))
        first = min(here, key=lambda i: left[i] / rates[i])
        step = left[first] / rates[first]
        for i in here:
            left[i] -= rates[i] * step
        now += step
        ends[first] = now
        del left[first]
    return ends


def closed_form(busy: list[float], priorities: Priorities) -> list[float]:
    """As docs/design/placement.md has it, in another way than the library."""
    if len(busy) == 1:
        return [1.0]
    found: list[float] = []
    for i, u in enumerate(busy):
        if priorities is not Priorities.EQUAL:
            share = 1 - sum(r * v for r, v in zip(found, busy, strict=False))
        else:
            share = max(1 - (sum(busy) - u), 1 / len(busy))
        found.append(
            1 / 1.03 if i == 0 and priorities is not Priorities.EQUAL else 1 / (1 - u + u / max(0.9 * share, 0.01))
        )
    return found


@CASES
@given(loads, st.sampled_from([Priorities.EQUAL, Priorities.ORDERED, Priorities.LISTED]))
def test_a_replay_ends_each_job_when_the_closed_form_says(
    jobs: list[tuple[float, float]], priorities: Priorities
) -> None:
    residents = [Resident(rest, busy) for rest, busy in jobs]
    rates = Slowdowns().rates(priorities, [(busy, -1) for _, busy in jobs])
    assert rates == pytest.approx(closed_form([busy for _, busy in jobs], priorities))
    assert replay(Slowdowns(), priorities, residents) == pytest.approx(
        ends_in_small_steps(residents, priorities), rel=1e-6
    )


@CASES
@given(loads, st.tuples(rests, shares), st.floats(0, 1e6))
def test_an_offer_gains_what_two_replays_say(
    jobs: list[tuple[float, float]], new: tuple[float, float], wait: float
) -> None:
    residents, job = [Resident(rest, busy) for rest, busy in jobs], Resident(*new)
    offer = consider(Slowdowns(), Rules(most=0, priorities=Priorities.ORDERED), job, residents, 80, wait)
    alone = ends_in_small_steps(residents, Priorities.ORDERED)
    together = ends_in_small_steps([*residents, job], Priorities.ORDERED)
    gain = sum(alone) + min(wait, max(alone)) + job.rest_s - sum(together)
    assert offer.gain_s == pytest.approx(gain, rel=1e-6, abs=1e-6 * sum(together))
    assert offer.end_s == pytest.approx(together[-1], rel=1e-6)
    assume(abs(gain) > 1e-6 * sum(together))
    assert offer.accepted == (gain > 0)


@CASES
@given(loads, st.sampled_from([Device.SLICES, Device.MPS]))
def test_automatic_priorities_are_the_order_with_the_earlier_ends(
    jobs: list[tuple[float, float]], device: Device
) -> None:
    form, residents = Slowdowns(device=device), [Resident(rest, busy) for rest, busy in jobs]
    equal, ordered = (sum(replay(form, each, residents)) for each in (Priorities.EQUAL, Priorities.ORDERED))
    assert sum(replay(form, Priorities.AUTOMATIC, residents)) == pytest.approx(min(equal, ordered))


def test_a_gpu_that_is_free_sooner_is_worth_something_to_those_who_come_later() -> None:
    """Two jobs that fill each other's idle time: sharing ends the GPU's work sooner, by how much decides over the gain."""
    form, running, new = Slowdowns(), [Resident(100, 0.3)], Resident(100, 0.3)
    plain, worth = (consider(form, Rules(saved_worth=value), new, running, 80) for value in (0.0, 0.5))
    last_s = max(replay(form, Priorities.AUTOMATIC, [*running, new]))
    assert worth.gain_s - plain.gain_s == pytest.approx(0.5 * (200 - last_s))
    assert last_s < 200


def test_a_gain_that_keeps_the_gpu_longer_can_be_a_loss() -> None:
    form, running, new = Slowdowns(), [Resident(100, 1.0)], Resident(99, 1.0)
    plain, worth = (consider(form, Rules(saved_worth=value), new, running, 80) for value in (0.0, 50.0))
    assert worth.gain_s < plain.gain_s, "two that fill a GPU end later together"
    assert worth.verdict is Verdict.SLOWER


@pytest.mark.parametrize("device", list(Device))
def test_more_work_of_others_never_makes_a_job_faster(device: Device) -> None:
    form = Slowdowns(device=device)
    for priorities in (Priorities.EQUAL, Priorities.ORDERED):
        low = [form.rates(priorities, [(busy / 10, -1), (0.5, -1)])[1] for busy in range(11)]
        assert low == sorted(low, reverse=True)
        assert all(0 < rate <= 1 for rate in low)


def test_what_an_offer_refuses_and_why() -> None:
    there, job = [Resident(100, 0.9, shards=60)], Resident(1000, 0.9, shards=14)
    form = Slowdowns()
    assert consider(form, Rules(), job, [], 80).verdict is Verdict.IDLE
    assert consider(form, Rules(), job, [], 13).verdict is Verdict.NO_MEMORY
    assert consider(form, Rules(), job, there, 13).verdict is Verdict.NO_MEMORY
    assert consider(form, Rules(), job, there * 2, 20).verdict is Verdict.FULL
    assert consider(form, Rules(most_busy=1), job, there, 20).verdict is Verdict.TOO_BUSY
    assert consider(form, Rules(), job, there, 20, wait_s=0).verdict is Verdict.SLOWER
    endless = Resident(math.inf, 0.9, shards=14)
    assert consider(form, Rules(), endless, there, 20).verdict is Verdict.SLOWER  # its gain is no number
    shares = consider(form, Rules(), job, there, 20)
    assert shares.verdict is Verdict.SHARES
    assert shares.slowdown_worst == pytest.approx(1.03)
    assert shares.slowdown_new == pytest.approx(0.1 + 0.9 / (0.9 * (1 - 0.9 / 1.03)))


def test_a_measured_pair_is_believed_before_the_closed_form_and_only_in_its_order() -> None:
    pairs = Slowdowns(2)
    pairs.measured(Priorities.ORDERED, 0, 1, 1.25, 4.0)
    pairs.measured(Priorities.EQUAL, 0, 1, 2.0, 5.0)
    first, second = (0.5, 0), (0.5, 1)
    assert pairs.rates(Priorities.ORDERED, [first, second]) == pytest.approx([0.8, 0.25])
    assert pairs.rates(Priorities.ORDERED, [second, first]) == pytest.approx(
        closed_form([0.5, 0.5], Priorities.ORDERED)
    )
    assert pairs.rates(Priorities.EQUAL, [second, first]) == pytest.approx([0.2, 0.5])
    assert pairs.rates(Priorities.ORDERED, [first, second, first]) == pytest.approx(
        closed_form([0.5] * 3, Priorities.ORDERED)
    )


@pytest.mark.parametrize("slowdown", [0.0, -1.0, math.nan, math.inf])
def test_a_slowdown_that_cannot_be_is_refused(slowdown: float) -> None:
    with pytest.raises(ValueError, match="positive number"):
        Slowdowns(1).measured(Priorities.EQUAL, 0, 0, 1.0, slowdown)


@CASES
@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=64), st.floats(0, 2e6), st.floats(1, 3e6))
def test_the_expected_rest_is_the_mean_of_what_longer_runs_had_left(
    runs: list[float], so_far: float, limit: float
) -> None:
    longer = [run - so_far for run in runs if run > so_far]
    expected = min(fmean(longer) if longer else so_far, max(0, limit - so_far))
    history = History(runs)
    assert history.expected_rest_s(so_far, limit) == pytest.approx(expected, rel=1e-9, abs=1e-6)
    assert history.next_jump_s(so_far) == min((run for run in runs if run > so_far), default=math.inf)


def test_a_history_forgets_its_oldest_runs_and_says_nothing_of_none() -> None:
    history = History([1e6, *[10.0] * 63])
    assert history.expected_s() > 1e4
    history.add(10.0)
    assert (history.runs, history.expected_s(), history.median_s) == (64, 10.0, 10.0)
    assert History().expected_s() == math.inf
    assert History().expected_rest_s(100, limit_s=600) == 500
    with pytest.raises(ValueError, match="positive number"):
        History([0.0])


@given(st.floats(0, 200 * GIB))
def test_shards_hold_a_tenth_more_than_the_peak(peak: float) -> None:
    shards = shards_for(peak)
    assert shards >= 1
    assert shards * GIB >= 1.1 * peak * (1 - 1e-12)
    assert shards == 1 or (shards - 1) * GIB < 1.1 * peak


@given(
    st.floats(0, 10 * GIB), st.floats(GIB / 100, GIB), st.integers(1, 64), st.integers(65, 256), st.floats(0, 80 * GIB)
)
def test_a_sub_batch_is_the_largest_that_fits_and_its_steps_make_the_batch(
    fixed: float, each: float, one: int, other: int, free: float
) -> None:
    batch, steps = sub_batch(one, fixed + each * one, other, fixed + each * other, free, wanted_batch=512)
    slack = 1e-6 * (fixed + each * 512)
    if batch == 0:
        assert fixed + each > free - slack
        return
    assert fixed + each * batch <= free + slack
    assert batch == 512 or fixed + each * (batch + 1) > free - slack
    assert batch * steps >= 512 > batch * (steps - 1)
