"""A dispatcher to whom nothing happens: it looks rarely, and misses nothing."""

from __future__ import annotations

import time

import core_fake_client as fake
from core_fake_client import MS, FakeClient, eventually, now

LEASE_NS = 20 * MS
IDLE_S = 1.1  # where nothing has happened for a second, leases are longer


def test_leases_are_longer_where_nothing_has_happened_and_short_again_once_something_does() -> None:
    with fake.dispatcher("fikit", lease_ns=LEASE_NS) as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        assert low.page.gate_until_ns - now() <= LEASE_NS
        time.sleep(IDLE_S)
        assert eventually(lambda: low.page.gate_until_ns - now() > 5 * LEASE_NS)
        assert low.page.gate_until_ns - now() <= 10 * LEASE_NS
        high.launch()
        high.ring()
        assert eventually(lambda: low.page.gate_until_ns - now() <= LEASE_NS)
        assert low.page.gate_until_ns > now()


def test_a_gate_that_is_closed_while_leases_are_long_stays_closed() -> None:
    with fake.dispatcher("fikit", lease_ns=LEASE_NS) as running:
        first, _ = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        time.sleep(IDLE_S)
        assert eventually(lambda: first.page.gate_until_ns - now() > 5 * LEASE_NS)
        second = FakeClient(running, 3, 8)
        for _ in range(40):
            assert second.page.gate_until_ns > now(), "its lease ended, and nobody had renewed it"
            time.sleep(0.005)


def test_what_comes_without_a_doorbell_is_read_also_after_a_long_silence() -> None:
    with fake.dispatcher("fikit") as running:
        high = FakeClient(running, 2, 1)
        time.sleep(IDLE_S)
        high.launch()
        assert eventually(lambda: high.read)
