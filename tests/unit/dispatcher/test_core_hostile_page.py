"""A client that writes whatever it likes into its page harms nobody but itself."""

from __future__ import annotations

import os
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import core_fake_client as fake
import pytest
from core_fake_client import LEASE, LONG_LEASE, MS, FakeClient, eventually, now

LONGEST = 2**64 - 1


@contextmanager
def meanwhile(action: Callable[[], None]) -> Iterator[None]:
    """Runs the action again and again in another thread."""
    stop = threading.Event()

    def again() -> None:
        while not stop.is_set():
            action()
            time.sleep(0.0001)

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("policy", ["prio", "paper", "budget"])
@pytest.mark.parametrize("priority", [9, 8], ids=["below", "equal"])
def test_random_bytes_neither_crash_the_dispatcher_nor_reach_another_client(policy: str, priority: int) -> None:
    rng = random.Random(f"{policy} {priority}")
    with fake.dispatcher(policy) as running:
        honest, _ = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        hostile = FakeClient(running, 3, priority)
        header = fake.Page.slot_launches.offset

        def scribble() -> None:
            offset = rng.choice([rng.randrange(header), rng.randrange(len(hostile.memory) - 256)])
            hostile.memory[offset : offset + 200] = rng.randbytes(200)
            hostile.page.ring_head = rng.choice([rng.getrandbits(64), hostile.page.ring_tail + rng.randrange(5000)])
            os.eventfd_write(hostile.doorbell, 1)

        with meanwhile(scribble):
            for _ in range(200):
                assert honest.closed
                honest.pass_gate()
                running.stats(3)
        assert running.remove_client(1)["kernels"] == 200
        running.remove_client(3)


def plausible(client: FakeClient, rng: random.Random) -> None:
    """A well-formed entry with wild contents, or a wild request."""
    wild = rng.choice([0, 1, 2**31, 2**32 - 1, 2**63, LONGEST, rng.getrandbits(64)])
    if rng.random() < 0.8:
        t_ns = rng.choice([-(2**63), -1, 0, now(), now() + 10**15, 2**63 - 1])
        client.put(rng.randrange(12), rng.choice([0, 1, 4095, 4096, 2**32 - 1]), wild, t_ns)
    else:
        client.page.request_slot = rng.choice([0, 4096, 2**32 - 1])
        client.page.request_copy = rng.choice([0, 1, 2, 3, 2**32 - 1])
        client.page.request_bytes = rng.choice([0, 1, 2**20, 2**63, 2**64 - 1])
        client.page.request_ns = rng.choice([-(2**63), 0, 2**63 - 1])
        client.page.request_seq = rng.getrandbits(32)
        client.page.waiting = rng.randrange(3)
    client.page.launch_seq = wild


@pytest.mark.parametrize("policy", ["prio", "paper", "budget"])
def test_wild_reports_of_a_lower_client_do_not_stop_grants_to_a_higher_one(policy: str) -> None:
    rng = random.Random(policy)
    with fake.dispatcher(policy, lease_ns=20 * MS) as running:
        honest, _ = FakeClient(running, 1, 5), FakeClient(running, 2, 1)
        hostile = FakeClient(running, 3, 9)
        with meanwhile(lambda: plausible(hostile, rng)):
            for _ in range(50):
                started = now()
                honest.pass_gate()
                assert now() - started < 2_000 * MS


def waits_ms(client: FakeClient, seconds: float) -> list[float]:
    """How long each of a client's launches stood at its closed gate; it asks again a little after each."""
    waits, until = [], now() + int(seconds * 1e9)
    while now() < until:
        request, asked = client.ask(1), now()
        assert eventually(lambda request=request: client.granted(request))
        waits.append((now() - asked) / MS)
        client.take(request, 1)
        client.put(fake.DONE, 1, request)
        time.sleep(0.002)
    return waits


def lies(client: FakeClient, seed: str) -> Callable[[], None]:
    """Says the words of a client that are due by now, of twenty thousand a second; a slow machine never gets through with them."""
    rng, began, words = random.Random(seed), now(), 0

    def lie() -> None:
        nonlocal words
        for _ in range(100):
            if words >= (now() - began) // 50_000:
                break
            plausible(client, rng)
            client.launch(rng.randrange(2))
            words += 2

    return lie


@pytest.mark.parametrize("policy", ["budget", "prio"])
def test_twenty_thousand_words_a_second_of_a_lower_client_do_not_hold_a_normal_one_beside_an_idle_high_one(
    policy: str,
) -> None:
    with fake.dispatcher(policy) as running:
        normal, _, hostile, unread = (
            FakeClient(running, number, level) for number, level in enumerate((5, 1, 9, 9), 1)
        )
        running.remove_client(unread.number)
        normal.describe(1, "step")
        running.set_profile(normal.number, [fake.profile_entry("step", 100_000, 0)])
        hostile.describe(1, "long")
        running.set_profile(hostile.number, [fake.profile_entry("long", 10_000 * MS, 0)])
        with meanwhile(lies(unread, policy)):  # the thread that lies takes the interpreter from the one that waits
            quiet = waits_ms(normal, 0.5)
        with meanwhile(lies(hostile, policy)):
            loud = waits_ms(normal, 1.0)
        assert statistics.median(loud) < 10 * statistics.median(quiet) + 5
        assert max(loud) < LEASE / MS + 10 * max(quiet)


def test_a_liar_above_can_hold_a_lower_client_only_while_it_keeps_talking() -> None:
    rng = random.Random(1)
    with fake.dispatcher("paper") as running:
        low, liar = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        for _ in range(2000):
            plausible(liar, rng)
        silent_since = now()
        low.pass_gate()
        assert now() - silent_since < 5 * LEASE


def test_counters_of_a_liar_are_cut_not_wrapped() -> None:
    with fake.dispatcher("paper") as running:
        liar = FakeClient(running, 1, 5)
        page = liar.page
        liar.describe(1, "step")
        running.set_profile(1, [fake.profile_entry("step", 1000, 500)])
        for name in ("launch_seq", "wait_count", "wait_total_ns", "expired_count"):
            setattr(page, name, LONGEST)
        page.first_launch_ns, page.last_drained_ns = -5, 2**63 - 1
        page.slot_launches[1] = LONGEST
        for i in range(40):
            page.wait_histogram[i] = 2**32 - 1
        stats = running.stats(1)
        assert stats["kernels"] == stats["wait_count"] == stats["expired"] == 2**53
        assert stats["span_ns"] == 0
        assert stats["gpu_time_ns"] == pytest.approx(2.0**53 * 1000)
        page.first_launch_ns = 1
        assert 0 < running.stats(1)["span_ns"] <= now()


def test_an_entry_whose_writer_was_killed_is_skipped() -> None:
    with fake.dispatcher("prio", lease_ns=LONG_LEASE) as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        high.launch()
        high.page.ring_head += 1  # claimed, never filled
        high.drained()
        request = low.ask()
        assert eventually(lambda: low.granted(request), seconds=LONG_LEASE / 1e9 / 2)


def test_a_flooded_ring_is_read_from_where_it_is_still_whole() -> None:
    with fake.dispatcher("paper") as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        for _ in range(3 * fake.RING_ENTRIES):
            high.launch()
        high.drained()
        low.pass_gate()
        assert running.stats(2)["kernels"] == 3 * fake.RING_ENTRIES
        assert eventually(lambda: high.page.ring_tail == high.page.ring_head)


def test_a_doorbell_rung_without_end_costs_little_and_blocks_nobody() -> None:
    with fake.dispatcher("paper") as running:
        low, _ = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        os.set_blocking(low.doorbell, True)
        with meanwhile(lambda: os.eventfd_write(low.doorbell, 1)):
            for _ in range(20):
                low.pass_gate()
