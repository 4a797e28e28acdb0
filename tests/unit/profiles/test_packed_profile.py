"""Profiles in blocks of bytes, as they go between fikitd and its workers: nothing is lost, and no bytes do harm."""

from __future__ import annotations

import random
from typing import Any

import daemon_fakes as fakes
import pytest
from core_fake_client import FakeClient, dispatcher, eventually, profile_entry
from fikitd._core import pack_profile, unpack_profile
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

ALL = 2**30
SKETCH = [9, 1, 2, 3]
RHYTHM = {
    "version": 1,
    "slacks": {f"{n:016x}": SKETCH for n in range(1, 40)},
    "segments": {f"{n:016x}": {"span": SKETCH, "after": [3, -7, 1]} for n in range(1, 5)},
    "runs": {f"{n:016x}": [n, 100 * n] for n in range(1, 9)},
}


def identity(n: int) -> str:
    return f"{n:016x}"


def kernels(count: int, contexts: int = 1) -> list[dict[str, Any]]:
    return [
        fakes.kernel(
            f"k{n}",
            context=context,
            grid=[n + 1, 1, 1],
            boundary=fakes.statistics(2, 7e6),
            **({"beside": True} if n % 3 == 2 else {}),
            **({"doubtful": True} if n % 6 == 5 else {}),
        )
        for n in range(count)
        for context in [[], *([identity(c + 1), identity(2), identity(3)] for c in range(contexts))]
    ]


def key(kernel: dict[str, Any]) -> tuple[Any, ...]:
    return (kernel["name"], kernel["context"], "beside" in kernel, "doubtful" in kernel)


def test_what_was_packed_comes_back() -> None:
    many = kernels(50)
    again, rhythm = unpack_profile(pack_profile(many, RHYTHM, ALL, names=True))
    assert sorted(again, key=key) == sorted(many, key=key)
    assert rhythm == RHYTHM
    assert unpack_profile(pack_profile([], {}, ALL)) == ([], {})
    assert pack_profile([], {}, ALL) == b""


@pytest.mark.parametrize("limit", [0, 30, 100, 1000, 5000, 20_000])
def test_of_a_long_profile_kernels_come_before_contexts_and_all_is_within_the_limit(limit: int) -> None:
    packed = pack_profile(kernels(50), RHYTHM, limit, names=True)
    assert len(packed) <= max(limit, 32)
    some, _ = unpack_profile(packed)
    if any(kernel["context"] for kernel in some):
        assert sum(not kernel["context"] for kernel in some) == 50
    assert len(pack_profile(kernels(50), RHYTHM, ALL)) < len(pack_profile(kernels(50), RHYTHM, ALL, names=True))


def test_a_packed_profile_is_used_as_the_same_profile_is() -> None:
    known = [profile_entry("mine", 5_000_000, 0), profile_entry("other", 7_000_000, 0)]
    told = []
    for packed in (False, True):
        with dispatcher("prio") as running:
            client = FakeClient(running, 1, priority=1)
            client.describe(1, "mine")
            if packed:
                running.use_profile(1, pack_profile(known, RHYTHM, ALL))
            else:
                running.set_profile(1, known, RHYTHM)
            client.launch(1)
            client.drained()
            assert eventually(lambda: running.stats(1)["span_alone_ns"])
            told.append(running.stats(1)["span_alone_ns"])
    assert told == [5_000_000, 5_000_000]


@given(st.binary(max_size=300))
@settings(max_examples=examples(200), deadline=None)
def test_any_bytes_are_a_profile_or_an_error(data: bytes) -> None:
    for candidate in (data, pack_profile([], RHYTHM, ALL)[:4] + data):
        try:
            unpack_profile(candidate)
        except ValueError:
            continue


def test_a_profile_that_was_changed_anywhere_is_one_or_an_error() -> None:
    chance = random.Random(1)
    whole = pack_profile(kernels(3), RHYTHM, ALL, names=True)
    with dispatcher("prio") as running:
        client = FakeClient(running, 1, priority=1)
        for _ in range(2000):
            data = bytearray(whole)
            for _ in range(chance.randint(1, 3)):
                data[chance.randrange(len(data))] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
            cut = bytes(data[: chance.choice([len(data), chance.randrange(len(data))])])
            try:
                running.use_profile(1, cut)
            except ValueError:
                continue
        assert running.stats(client.number)["kernels"] == 0


def test_a_client_that_has_left_tells_what_it_did() -> None:
    with dispatcher("prio", trace_events=64) as running:
        client = FakeClient(running, 1, priority=1, measure=True)
        client.describe(1, "mine")
        client.launch(1)
        client.sample(1, 5000)
        departed = running.take_client(1)
        with pytest.raises(IndexError):
            running.stats(1)
    assert departed.stats["kernels"] == 1
    assert departed.journal()["kernels"] == b"1 mine\n"
    learnt, _ = unpack_profile(departed.profile(ALL))
    assert [(kernel["name"], kernel["duration"]["count"]) for kernel in learnt] == [("mine", 1)]
