"""A page that was in use with a dispatcher that is no more goes on with the next one."""

from __future__ import annotations

from core_fake_client import CLOSED, LONG_LEASE, FakeClient, dispatcher, eventually, profile_entry


def test_counters_go_on_and_the_gate_is_as_the_next_dispatcher_wants_it() -> None:
    with dispatcher("paper") as before:
        client = FakeClient(before, 1, 8)
        for _ in range(5):
            client.launch(1)
    client.page.gate = CLOSED  # as a killed one leaves it
    with dispatcher("paper") as after:
        client.go_on_with(after, 8)
        assert not client.closed
        assert after.stats(1)["kernels"] == 5
        client.launch(1)
        client.drained()
        assert eventually(lambda: client.page.ring_tail == client.page.ring_head)
        assert after.remove_client(1)["kernels"] == 6


def test_what_was_reported_before_is_not_taken_for_new_work() -> None:
    with dispatcher("paper", LONG_LEASE) as before:
        high = FakeClient(before, 1, 1)
    for _ in range(100):
        high.launch(1)  # while nobody read it; unknown work would hold others for a lease
    with dispatcher("paper", LONG_LEASE) as after:
        high.go_on_with(after, 1)
        low = FakeClient(after, 2, 8)
        low.pass_gate()


def test_a_partial_drain_after_the_restart_is_told_from_a_whole_one() -> None:
    """Launches are numbered from the program's start, not from the restart."""
    with dispatcher("paper", LONG_LEASE) as before:
        high = FakeClient(before, 1, 1)
        for _ in range(50):
            high.launch(1)
    with dispatcher("paper", LONG_LEASE) as after:
        high.go_on_with(after, 1)
        low = FakeClient(after, 2, 8)
        high.describe(1, "k")
        after.set_profile(1, [profile_entry("k", 9_000_000_000, 0)])
        high.launch(1)
        high.mark(1, 50)
        high.reach(1)
        request = low.ask()
        assert not eventually(lambda: low.granted(request), 0.1)
        high.drained()
        assert eventually(lambda: low.granted(request))
