"""What a client's kernels touch, from its ring to its profile: the client is a liar where it likes."""

from __future__ import annotations

import resource
from typing import Any

import pytest
from core_fake_client import LONG_LEASE, TOUCH, TOUCHES, FakeClient, dispatcher, eventually
from fikitd._core import Dispatcher, pack_profile, unpack_profile
from fikitd.profiles.profile_rhythm import checked

PAGES = 512
FIRST, SECOND = 1, 2


def touches(client: FakeClient, number: int, slot: int, *places: tuple[int, int, int]) -> None:
    client.put(TOUCHES, slot, len(places), number)
    for allocation, page, pages in places:
        client.put(TOUCH, allocation, pages << 32 | page, number)


def one_pass(client: FakeClient, *places: tuple[int, int, int]) -> None:
    """Two launches and a wait; the second one says what it touches."""
    client.launch(FIRST)
    client.launch(SECOND)
    touches(client, client.page.launch_seq, SECOND, *places)
    client.drained()
    client.ring()
    assert eventually(lambda: client.read)


def described(running: Dispatcher, **options: Any) -> FakeClient:
    client = FakeClient(running, 1, 5, measure=True, **options)
    client.describe(FIRST, "first")
    client.describe(SECOND, "second")
    return client


def learnt(running: Dispatcher) -> dict[str, Any]:
    return dict(running.export_rhythm(1).get("accesses", {}))


def test_an_iterations_touches_are_in_the_profile_and_come_back() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        client = described(running)
        for _ in range(4):
            one_pass(client, (0, 3, PAGES), (1, 0, PAGES))
        (iteration,) = learnt(running)["iterations"]
        rhythm = running.export_rhythm(1)
        departed = running.take_client(1)
    second = [len(iteration["steps"]) - 1]
    assert [touch[1:3] for touch in iteration["touches"]] == [[0, 3], [1, 0]]
    assert {touch[0] for touch in iteration["touches"]} == set(second)
    assert checked(rhythm) == rhythm
    _, stored = unpack_profile(departed.profile(2**20))
    assert stored["accesses"] == rhythm["accesses"]
    assert unpack_profile(pack_profile([], stored, 2**20))[1]["accesses"] == rhythm["accesses"]


def test_a_place_of_known_length_is_another_one_and_comes_back() -> None:
    """As copies and memsets say it: so many pages, in the upper bits of the slot."""
    with dispatcher("budget", LONG_LEASE) as running:
        client = described(running)
        for _ in range(4):
            one_pass(client, (1, 2, PAGES), (1 + 7 * 4096, 2, PAGES), (1 + 9 * 4096, 2, PAGES))
        (iteration,) = learnt(running)["iterations"]
        rhythm = running.export_rhythm(1)
        departed = running.take_client(1)
    assert [(touch[1:3], touch[4:]) for touch in iteration["touches"]] == [([1, 2], []), ([1, 2], [7]), ([1, 2], [9])]
    assert len({touch[3] for touch in iteration["touches"]}) == 1
    assert checked(rhythm) == rhythm
    assert unpack_profile(departed.profile(2**20))[1]["accesses"] == rhythm["accesses"]


def test_what_is_known_from_before_is_not_stored_again() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        client = described(running)
        for _ in range(4):
            one_pass(client, (0, 0, PAGES))
        before = running.export_rhythm(1)
    with dispatcher("budget", LONG_LEASE) as running:
        client = described(running)
        running.set_profile(1, [], before)
        for _ in range(4):
            one_pass(client, (1, 0, PAGES))
        known, own = running.accesses(1), learnt(running)
    assert {touch[1] for touch in own["iterations"][0]["touches"]} == {1}
    assert {touch[1] for touch in known["iterations"][0]["touches"]} == {0, 1}


def test_an_iteration_that_is_read_in_many_parts_is_whole() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        client = described(running)
        for _ in range(4):
            for number in range(300):
                client.launch(SECOND)
                touches(client, client.page.launch_seq, SECOND, (number, number, PAGES))
            client.drained()
            client.ring()
            assert eventually(lambda: client.read)
        began = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        known, (own,) = running.accesses(1), learnt(running)["iterations"]
        rests = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - began
    (iteration,) = known["iterations"]
    assert iteration == own
    assert [touch[:3] for touch in iteration["touches"]] == [[number, number, number] for number in range(300)]
    assert known["pages"] == [PAGES] * 300
    assert rests >= 300 // 64, "between parts it sleeps, and the dispatcher may decide"


def test_a_client_that_says_nothing_has_nothing() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        client = described(running)
        client.put(TOUCH, 0, PAGES << 32, 1)  # of no launch that was looked at
        for _ in range(4):
            client.launch(FIRST)
            client.drained()
        client.ring()
        assert eventually(lambda: client.read)
        assert "accesses" not in running.export_rhythm(1)
        assert running.accesses(1) == {"latest_ns": 0}


@pytest.mark.parametrize("place", [(2**32 - 1, 0, PAGES), (0, PAGES, PAGES), (0, 2**32 - 1, 0), (2 * 4096, 0, 1)])
def test_places_that_cannot_be_are_ignored(place: tuple[int, int, int]) -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        client = described(running)
        for _ in range(4):
            one_pass(client, place)
            client.put(TOUCHES, 2**32 - 1, 2**64 - 1, -1)
            client.put(TOUCH, 0, PAGES << 32, 2**63 - 1)
        accesses = learnt(running)
        assert accesses["iterations"][0]["touches"] == []
        rhythm = running.export_rhythm(1)
    assert checked(rhythm) == rhythm


def test_a_profile_that_lies_is_refused_or_harmless() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        client = described(running)
        for _ in range(3):
            one_pass(client, (0, 0, PAGES))
        packed = pack_profile([], running.export_rhythm(1), 2**20)
    for cut in range(4, len(packed), 7):
        with pytest.raises(ValueError, match="no packed profile"):
            unpack_profile(packed[:cut])
    for place in range(0, len(packed), 3):
        broken = packed[:place] + bytes([packed[place] ^ 0xFF]) + packed[place + 1 :]
        try:
            _, rhythm = unpack_profile(broken)
        except ValueError:
            continue
        for iteration in rhythm.get("accesses", {}).get("iterations", []):
            assert len(iteration["steps"]) <= 16384
            assert all(touch[1] < 4096 for touch in iteration["touches"])
