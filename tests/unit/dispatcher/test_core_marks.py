"""Marks that the GPU writes: the dispatcher sees progress without the client, and believes no more of it than can be."""

from __future__ import annotations

import core_fake_client as fake
import pytest
from core_fake_client import LEASE, LONG_LEASE, MS, FakeClient, eventually, profile_entry


@pytest.mark.parametrize("policy", ["prio", "paper"])
def test_an_unknown_kernel_holds_others_until_its_mark_is_reached(policy: str) -> None:
    with fake.dispatcher(policy, lease_ns=LONG_LEASE) as running:
        high, low, other = (FakeClient(running, number, priority) for number, priority in ((1, 1), (2, 8), (3, 8)))
        high.drained()
        request = low.ask()
        assert eventually(lambda: low.granted(request))
        low.take(request)
        low.mark(1, request, fake.MARK_GRANT)
        other_request = other.ask()
        assert not eventually(lambda: other.granted(other_request), seconds=0.05)
        low.reach(1)  # and the client says nothing
        assert eventually(lambda: other.granted(other_request))


def test_an_unknown_kernel_of_the_holder_is_over_when_its_mark_is_reached() -> None:
    with fake.dispatcher("prio", lease_ns=LONG_LEASE) as running:
        high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
        high.launch()
        high.mark(1, 1)
        request = low.ask()
        assert not eventually(lambda: low.granted(request), seconds=0.05)
        high.reach(1)
        assert eventually(lambda: low.granted(request))


def test_a_kernel_that_overruns_its_prediction_still_holds_others_until_its_mark() -> None:
    with fake.dispatcher("prio", lease_ns=LONG_LEASE) as running:
        high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
        high.describe(1, "k")
        running.set_profile(1, [profile_entry("k", 1 * MS, 0)])
        high.launch(1)
        high.mark(1, 1)
        request = low.ask()
        assert not eventually(lambda: low.granted(request), seconds=0.05)
        high.reach(1)
        assert eventually(lambda: low.granted(request))


def test_a_mark_that_is_never_reached_is_lost_after_a_lease() -> None:
    with fake.dispatcher("prio") as running:
        high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
        high.describe(1, "k")
        running.set_profile(1, [profile_entry("k", 1 * MS, 0)])
        high.launch(1)
        high.mark(1, 1)
        request = low.ask()
        assert eventually(lambda: low.granted(request), seconds=20 * LEASE / 1e9)


def test_marks_are_asked_of_those_that_others_wait_for() -> None:
    with fake.dispatcher("paper") as running:
        high = FakeClient(running, 1, 1)
        assert high.page.marker_interval == 0
        low = FakeClient(running, 2, 8)
        assert (high.page.marker_interval, low.page.marker_interval) == (32, 0)
        measured = FakeClient(running, 3, 0, measure=True)
        assert measured.page.marker_interval == 0
        running.remove_client(2)
        assert high.page.marker_interval == 0


def test_no_marks_are_asked_where_nobody_is_held() -> None:
    with fake.dispatcher("fifo") as running:
        clients = [FakeClient(running, 1, 1), FakeClient(running, 2, 8)]
        assert [client.page.marker_interval for client in clients] == [0, 0]


def test_known_slots_are_told_to_the_client() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 1)
        client.describe(1, "profiled")
        client.describe(40, "sampled")
        client.describe(2, "never seen")
        assert not client.knows(1)
        running.set_profile(1, [profile_entry("profiled", 1000, 0)])
        assert (client.knows(1), client.knows(40), client.knows(2)) == (True, False, False)
        client.sample(40, 1000)
        running.export_profile(1)
        assert client.knows(40)
        assert not client.knows(2)


def test_slots_that_a_gap_follows_are_told_to_the_client() -> None:
    with fake.dispatcher("paper") as running:
        client = FakeClient(running, 1, 1)
        for slot, name in ((1, "last"), (2, "inner"), (3, "sampled")):
            client.describe(slot, name)
        running.set_profile(1, [profile_entry("last", 1000, MS), profile_entry("inner", 1000, 1000)])
        client.sample(3, 1000)
        running.export_profile(1)
        assert [client.expects_gap(slot) for slot in (1, 2, 3)] == [True, False, False]
        client.sample(3, MS, kind=fake.GAP)
        running.export_profile(1)
        assert client.expects_gap(3)


def test_a_drain_outdates_the_marks_before_it() -> None:
    with fake.dispatcher("prio", lease_ns=5000 * MS) as running:
        high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
        high.describe(1, "k")
        running.set_profile(1, [profile_entry("k", 1 * MS, 0)])
        high.launch(1)
        high.mark(1, 1)
        request = low.ask()
        assert not eventually(lambda: low.granted(request), seconds=0.05)
        high.drained()  # the mark is never reached
        assert eventually(lambda: low.granted(request), seconds=1)


def test_more_marks_than_the_page_has_words_and_numbers_from_the_past_are_ignored() -> None:
    with fake.dispatcher("prio", lease_ns=LONG_LEASE) as running:
        high, low = FakeClient(running, 1, 1), FakeClient(running, 2, 8)
        high.mark(1, 2**64 - 1)
        high.mark(2, 1)
        for number in (*range(3, 200), 0, 2**32 - 1, 7, 2**31):
            high.launch()
            high.mark(number, high.page.launch_seq)
        high.mark(301, 5)
        high.drained()
        request = low.ask()
        assert eventually(lambda: low.granted(request), seconds=LONG_LEASE / 1e9 / 2)
