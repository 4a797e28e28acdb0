"""Identity, context and back-off of the predictor."""

from __future__ import annotations

import json
import struct
from typing import Any

from fikitd._core import Model, identify
from hypothesis import given
from hypothesis import strategies as st


def kernels(model: Model, *names: str) -> list[int]:
    return [model.describe(name, 0, (1, 1, 1), (1, 1, 1), 0) for name in names]


def test_the_identity_is_fnv_1a_over_the_parts_in_fixed_widths_because_profiles_hold_it() -> None:
    expected = 0xCBF29CE484222325
    for byte in b"saxpy\0" + struct.pack("<Q7I", 0x1234, 8, 1, 1, 256, 1, 1, 64):
        expected = (expected ^ byte) * 0x100000001B3 % 2**64
    assert identify("saxpy", 0x1234, (8, 1, 1), (256, 1, 1), 64) == expected


def test_every_part_of_the_identity_counts() -> None:
    base: tuple[Any, ...] = ("saxpy", 1, (8, 4, 2), (256, 1, 1), 64)
    others = [
        ("saxpy2", *base[1:]),
        (base[0], 2, *base[2:]),
        (*base[:2], (8, 2, 4), *base[3:]),
        (*base[:3], (1, 256, 1), base[4]),
        (*base[:4], 65),
    ]
    assert len({identify(*base), *(identify(*other) for other in others)}) == 6


def test_three_kernels_of_context_separate_what_the_identity_alone_does_not() -> None:
    model = Model()
    a, b, k = kernels(model, "a", "b", "k")
    model.add_duration(k, [a, a, a], 100)
    model.add_duration(k, [a, a, b], 300)
    assert model.predict(k, [a, a, a])[0] == 100
    assert model.predict(k, [a, a, b])[0] == 300


def test_an_unseen_context_backs_off_to_the_identity_and_an_unseen_identity_to_unknown() -> None:
    model = Model()
    a, b, k = kernels(model, "a", "b", "k")
    model.add_duration(k, [a, a, a], 100)
    model.add_duration(k, [a, a, b], 300)
    assert model.predict(k, [b, b, b]) == (200, None)
    assert model.predict(k, []) == (200, None)
    assert model.predict(a, [a, a, a]) == (None, None)
    assert model.predict(0, []) == (None, None)


def test_duration_and_gap_back_off_separately() -> None:
    model = Model()
    a, k = kernels(model, "a", "k")
    model.add_duration(k, [a, a, a], 100)
    model.add_gap(k, [], 7)
    assert model.predict(k, [a, a, a]) == (100, 7)


def test_an_incomplete_context_is_no_context() -> None:
    model = Model()
    a, k = kernels(model, "a", "k")
    model.add_duration(k, [a], 100)
    assert [entry["context"] for entry in model.export()] == [[]]


def test_a_rare_stall_does_not_make_every_gap_look_long() -> None:
    model = Model()
    (k,) = kernels(model, "k")
    for value in [1000] * 99 + [10**9]:
        model.add_gap(k, [], value)
        model.add_duration(k, [], value)
    duration, gap = model.predict(k, [])
    assert duration == 10_000_990, "a duration is the mean, as in the paper"
    assert gap is not None
    assert 960 <= gap <= 1024


def test_a_gap_that_is_often_short_is_predicted_by_its_mean() -> None:
    model = Model()
    (k,) = kernels(model, "k")
    for value in [1000] * 40 + [2000] * 60:
        model.add_gap(k, [], value)
    assert model.predict(k, [])[1] == 1600


def test_quantiles_are_there_beside_the_mean() -> None:
    model = Model()
    (k,) = kernels(model, "k")
    for value in [1000] * 90 + [100_000] * 10:
        model.add_duration(k, [], value)
        model.add_gap(k, [], value)
    assert model.predict(k, [])[0] == 10_900
    for low, high in (model.predict_quantile(k, [], 0.1), model.predict_quantile(k, [], 0.95)):
        assert low is not None
        assert low == high
    assert model.predict_quantile(k, [], 0.1)[0] in range(960, 1025)


def test_the_zeroth_identity_is_never_learnt() -> None:
    model = Model()
    model.add_duration(0, [], 100)
    assert model.predict(0, []) == (None, None)
    assert model.export() == []


IDS = st.integers(0, 5)


@given(st.lists(st.tuples(IDS, IDS, IDS, IDS, st.integers(0, 10**6), st.booleans()), max_size=60))
def test_a_profile_through_json_predicts_as_the_model_it_came_from(samples: list[tuple[Any, ...]]) -> None:
    model = Model()
    ids = kernels(model, *"abcdef")
    for k, x, y, z, ns, is_gap in samples:
        add = model.add_gap if is_gap else model.add_duration
        add(ids[k], [ids[x], ids[y], ids[z]], ns)
    copy = Model.from_profile(json.loads(json.dumps(model.export())))
    for k, x, y, z, _, _ in samples:
        context = [ids[x], ids[y], ids[z]]
        assert copy.predict(ids[k], context) == model.predict(ids[k], context)
        assert copy.predict(ids[k], []) == model.predict(ids[k], [])


def test_contexts_are_bounded_but_kernels_are_still_learnt() -> None:
    model = Model()
    (k, late) = kernels(model, "k", "late")
    for i in range(1, 40_000):
        model.add_duration(k, [i, i, i], 100)
    model.add_duration(late, [k, k, k], 50)
    assert len(model.export()) <= 32_768 + 2
    assert model.predict(late, [k, k, k]) == (50, None)
