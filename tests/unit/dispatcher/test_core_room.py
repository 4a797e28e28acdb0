"""What a user's programs make the core keep has one bound: whatever they teach it, and however many they are."""

from __future__ import annotations

import gc

import daemon_fakes as fakes
from core_fake_client import FakeClient, dispatcher, profile_entry
from fikitd._core import Room, pack_profile, unpack_profile

MIB = 2**20


def test_a_client_that_teaches_without_end_fills_its_users_room_and_no_more() -> None:
    everybodys = Room(8 * MIB)
    room = Room(2 * MIB, everybodys)
    with dispatcher("prio", trace_events=1024) as running:
        for number in (1, 2):
            client = FakeClient(running, number, priority=1, measure=True, room=room)
            for slot in range(1, 4000):
                client.describe(slot, f"{slot:01000}")
        assert 0 <= room.left < 2 * MIB // 100
        assert everybodys.left == 6 * MIB + room.left
        client = FakeClient(running, 3, priority=1, measure=True, room=Room(MIB, everybodys))
        client.describe(1, "known")
        client.sample(1, 5000)
        (kernel,), _ = unpack_profile(running.take_client(3).profile(MIB))
        assert kernel["name"] == "known", "another user's is taught as ever"
        for number in (1, 2):
            running.remove_client(number)
        gc.collect()
        assert (room.left, everybodys.left) == (2 * MIB, 8 * MIB)


def test_a_profile_takes_what_room_there_is() -> None:
    large = pack_profile(
        [fakes.kernel(f"k{n}", grid=[n + 1, 1, 1], gap=profile_entry("k", 5, 5)["gap"]) for n in range(5000)], {}, 2**30
    )
    room = Room(MIB)
    with dispatcher("prio") as running:
        FakeClient(running, 1, priority=1, room=room)
        running.use_profile(1, large)
        assert 0 <= room.left < MIB // 10
        running.use_profile(1, b"")
        running.remove_client(1)
        assert room.left == MIB


def test_a_journal_that_has_no_room_is_not_kept() -> None:
    with dispatcher("prio", trace_events=1024) as running:
        client = FakeClient(running, 1, priority=1, room=Room(1000))
        client.launch()
        departed = running.take_client(1)
        assert (departed.stats["kernels"], departed.journal()["events"]) == (1, b"")
