"""A client whose memory has to be elsewhere for a while is granted nothing, and again at the end of that time at the latest."""

from __future__ import annotations

import pytest
from core_fake_client import IN, LONG_LEASE, MS, FakeClient, dispatcher, eventually, now

LONG = 5000 * MS


def reasons(client: FakeClient) -> dict[str, int]:
    return {held["reason"]: held["total_ns"] for held in client.dispatcher.stats(client.number)["held"]}


def test_who_is_away_stands_at_a_closed_gate_though_nobody_is_above() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        client = FakeClient(running, 1, 5)
        assert not client.closed
        running.send_away(1, LONG)
        assert client.closed
        request = client.ask()
        assert not eventually(lambda: client.granted(request) or not client.closed, 0.1)
        running.send_away(1, 0)
        assert not client.closed
        assert reasons(client)["memory"] >= 90 * MS


def test_below_a_high_job_it_is_granted_when_it_is_back_and_waits_anew() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        low, _ = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        assert eventually(lambda: low.closed)
        running.send_away(1, LONG)
        asked, request = now(), low.ask()
        assert not eventually(lambda: low.granted(request), 0.1)
        assert eventually(lambda: "memory" in reasons(low))
        running.send_away(1, 0)
        assert eventually(lambda: low.granted(request))
        assert low.closed
        low.take(request)
        assert eventually(lambda: low.read)
        assert sum(reasons(low).values()) <= now() - asked, "no time counts twice"


def test_who_has_used_its_grant_when_it_goes_is_given_no_other_one() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        low, _ = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        assert eventually(lambda: low.closed)
        request = low.ask()
        assert eventually(lambda: low.granted(request))
        running.send_away(1, LONG)
        again = low.ask()
        assert not eventually(lambda: low.granted(again), 0.1)


def test_others_go_on_meanwhile() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        away, stays, _ = FakeClient(running, 1, 8), FakeClient(running, 2, 8), FakeClient(running, 3, 1)
        running.send_away(1, LONG)
        away.ask()
        for _ in range(20):
            stays.pass_gate()


@pytest.mark.parametrize("high", [False, True], ids=["alone", "below a high job"])
def test_time_away_ends_by_itself(high: bool) -> None:
    """Whoever sent it away may be dead."""
    with dispatcher("budget", LONG_LEASE) as running:
        low = FakeClient(running, 1, 8)
        above = [FakeClient(running, 2, 1)] if high else []
        running.send_away(1, 150 * MS)
        sent = now()
        request = low.ask()
        assert eventually(lambda: low.granted(request) or not low.closed)
        assert now() - sent >= 100 * MS
        assert low.closed == bool(above)


def test_a_copy_asks_as_ever_so_that_memory_can_be_moved() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        low, _ = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        assert eventually(lambda: low.closed)
        running.send_away(1, LONG)
        request = low.ask(copy=IN, size=2**20)
        assert eventually(lambda: low.granted(request))


def test_its_lease_is_renewed_while_it_is_away() -> None:
    with dispatcher("budget", 250 * MS) as running:
        client = FakeClient(running, 1, 5)
        running.send_away(1, LONG)
        client.ask()
        assert not eventually(lambda: client.page.gate_until_ns <= now(), 0.8)


def test_a_dispatcher_that_ends_and_a_client_that_leaves_leave_an_open_gate() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        first, second = FakeClient(running, 1, 5), FakeClient(running, 2, 5)
        running.send_away(1, LONG)
        running.send_away(2, LONG)
        running.remove_client(1)
        assert not first.closed
    assert not second.closed


def test_who_measures_is_not_sent_away_and_nobody_for_long() -> None:
    with dispatcher("budget") as running:
        FakeClient(running, 1, 5, measure=True)
        FakeClient(running, 2, 5)
        with pytest.raises(ValueError, match="measures"):
            running.send_away(1, MS)
        with pytest.raises(ValueError, match="10 s"):
            running.send_away(2, 11_000 * MS)
        with pytest.raises(IndexError):
            running.send_away(3, MS)
