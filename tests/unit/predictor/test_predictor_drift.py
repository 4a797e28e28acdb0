"""Kernels that begin to take another time than they did."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from fikitd._core import Model
from hypothesis import given, settings
from hypothesis import strategies as st

CONTEXT = [1, 2, 3]


def settled(mean_ns: float, spread: float, rng: random.Random, samples: int = 100) -> tuple[Model, int]:
    model = Model()
    kernel = model.describe("k", 0, (1, 1, 1), (1, 1, 1), 0)
    for _ in range(samples):
        assert not model.learn(kernel, CONTEXT, round(mean_ns * rng.uniform(1 - spread, 1 + spread)))
    return model, kernel


@settings(derandomize=True)  # chance is what it is about: the same dice every time
@given(st.integers(1_000, 10**8), st.sampled_from([0.7, 1.3]), st.integers(0, 2**32))
def test_a_change_by_30_percent_gives_one_alarm_soon_and_is_predicted_at_once(
    mean_ns: int, factor: float, seed: int
) -> None:
    rng = random.Random(seed)
    model, kernel = settled(mean_ns, 0.02, rng)
    alarms = [model.learn(kernel, CONTEXT, round(factor * mean_ns * rng.uniform(0.99, 1.01))) for _ in range(80)]
    assert alarms.index(True) < 35
    assert model.drift_alarms == sum(alarms) == 1
    predicted = model.predict(kernel, CONTEXT).duration_ns
    assert predicted is not None
    assert abs(predicted / (factor * mean_ns) - 1) < 0.02


def alarmed(durations: Callable[[random.Random], Callable[[], int]], seeds: int = 400) -> float:
    """The share of kernels that, 300 runs after they are known, have given an alarm."""
    found = 0
    for seed in range(seeds):
        model = Model()
        kernel = model.describe("k", 0, (1, 1, 1), (1, 1, 1), 0)
        duration = durations(random.Random(seed))
        for _ in range(400):
            model.learn(kernel, CONTEXT, duration())
        found += model.drift_alarms > 0
    return found / seeds


def test_noise_however_wide_hardly_ever_gives_an_alarm() -> None:
    def noise(rng: random.Random) -> Callable[[], int]:
        mean_ns, spread = 10 ** rng.uniform(3, 8), rng.uniform(0, 0.9)
        return lambda: round(mean_ns * rng.uniform(1 - spread, 1 + spread))

    assert alarmed(noise) <= 0.01


def test_two_durations_at_random_hardly_ever_give_an_alarm() -> None:
    def two(rng: random.Random) -> Callable[[], int]:
        mean_ns = round(10 ** rng.uniform(3, 6))
        return lambda: mean_ns * rng.choice([1, 2])

    assert alarmed(two) <= 0.01


@given(st.integers(1_000, 10**6))
def test_two_durations_in_turn_give_no_alarm(mean_ns: int) -> None:
    turns = itertools.cycle([mean_ns, 2 * mean_ns])
    assert alarmed(lambda _: lambda: next(turns), seeds=1) == 0


def test_one_interrupted_kernel_is_no_drift() -> None:
    model, kernel = settled(10_000, 0.02, random.Random(1))
    assert not model.learn(kernel, CONTEXT, 10**9)
    assert model.drift_alarms == 0


def test_a_slow_drift_is_followed_before_it_is_an_alarm() -> None:
    """A card that grows hot: a tenth slower, which the mean over all runs would believe much too late."""
    model, kernel = settled(10_000, 0.01, random.Random(1), samples=1000)
    for _ in range(60):
        model.learn(kernel, CONTEXT, 11_000)
    said = model.predict(kernel, CONTEXT)
    assert model.drift_alarms == 0
    assert said.duration_ns is not None
    assert abs(said.duration_ns - 11_000) < 150
    assert said.duration_high_ns is not None
    assert said.duration_high_ns >= 11_000


def test_only_the_context_that_changed_is_forgotten() -> None:
    model, kernel = settled(10_000, 0.0, random.Random(1))
    for _ in range(100):
        model.learn(kernel, [4, 5, 6], 20_000)
    while not model.learn(kernel, CONTEXT, 15_000):
        pass
    assert model.predict(kernel, CONTEXT).duration_ns == 15_000
    assert model.predict(kernel, CONTEXT).durations == 1
    assert model.predict(kernel, [4, 5, 6]).duration_ns == 20_000


def test_collecting_does_not_follow() -> None:
    """What is stored in profiles are the statistics, whatever their order was."""
    predicted = []
    for values in ([10_000] * 100 + [11_000] * 50, [11_000] * 50 + [10_000] * 100):
        model = Model()
        for value in values:
            model.add_duration(7, CONTEXT, value)
        predicted.append(model.predict(7, CONTEXT).duration_ns)
    assert predicted[0] == predicted[1]
    assert predicted[0] is not None
    assert predicted[0] < 10_500


def test_following_leaves_what_is_known_alone_until_it_is_no_longer_so() -> None:
    model = Model()
    for _ in range(100):
        model.add_duration(7, CONTEXT, 10_000)
    for _ in range(60):
        assert not model.follow(7, CONTEXT, 11_000)
    said = model.predict(7, CONTEXT)
    assert (said.durations, said.duration_mean_ns) == (100, 10_000)
    assert said.duration_ns is not None
    assert abs(said.duration_ns - 11_000) < 50
    while not model.follow(7, CONTEXT, 15_000):
        pass
    said = model.predict(7, CONTEXT)
    assert (said.durations, said.duration_ns, said.duration_mean_ns) == (1, 15_000, 15_000)


def test_following_what_nobody_knows_learns_nothing() -> None:
    model = Model()
    assert not model.follow(7, CONTEXT, 10_000)
    assert model.predict(7, CONTEXT).duration_ns is None
