"""A dispatcher to whom nothing happens: it looks rarely, and misses nothing."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from ctypes import sizeof
from pathlib import Path

import core_fake_client as fake
import pytest
from core_fake_client import MS, FakeClient, Page, eventually, now

LEASE_NS = 100 * MS
IDLE_S = 1.1  # where nothing has happened for a second, leases are longer


def test_leases_are_longer_where_nothing_has_happened_and_short_again_once_something_does() -> None:
    with fake.dispatcher("paper", lease_ns=LEASE_NS) as running:
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
    with fake.dispatcher("paper", lease_ns=LEASE_NS) as running:
        first, _ = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        time.sleep(IDLE_S)
        assert eventually(lambda: first.page.gate_until_ns - now() > 5 * LEASE_NS)
        second = FakeClient(running, 3, 8)
        for _ in range(40):
            assert second.page.gate_until_ns > now(), "its lease ended, and nobody had renewed it"
            time.sleep(0.005)


def test_what_comes_without_a_doorbell_is_read_also_after_a_long_silence() -> None:
    with fake.dispatcher("paper") as running:
        high = FakeClient(running, 2, 1)
        time.sleep(IDLE_S)
        high.launch()
        assert eventually(lambda: high.read)


def test_a_page_of_which_nothing_can_come_is_read_once_it_rings() -> None:
    with fake.dispatcher("paper") as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)

        def skipped() -> bool:
            low.put(fake.SAMPLE)
            high.launch()
            high.ring()
            assert eventually(lambda: high.read)
            time.sleep(0.02)
            return not low.read

        assert eventually(skipped)
        low.ring()
        assert eventually(lambda: low.read)


def test_who_has_asked_or_may_go_is_read_without_a_bell() -> None:
    with fake.dispatcher("prio", fake.LONG_LEASE) as running:
        low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
        high.launch()
        request = low.ask()
        time.sleep(0.05)
        assert not low.granted(request)
        high.drained()
        assert eventually(lambda: low.granted(request))
        time.sleep(0.05)  # a program that takes its grant late
        low.take(request)
        assert eventually(lambda: low.read)


CHILD = """
import sys
from core_fake_client import FakeClient, dispatcher
with dispatcher("prio", lease_ns=5_000_000) as running:
    low, high = FakeClient(running, 1, 8), FakeClient(running, 2, 1)
    print(low.memfd, flush=True)
    sys.stdin.read()
"""


@pytest.mark.starts_processes
def test_what_went_through_while_nobody_renewed_the_leases_is_read_without_a_bell() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        cwd=Path(fake.__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        descriptor = os.open(f"/proc/{child.pid}/fd/{int(child.stdout.readline())}", os.O_RDWR)
        page = Page.from_buffer(mmap.mmap(descriptor, sizeof(Page)))
        os.close(descriptor)
        time.sleep(0.1)  # nothing is read of it any more
        child.send_signal(signal.SIGSTOP)
        assert eventually(lambda: page.gate_until_ns <= now())
        page.ring[0].stamp, page.ring[0].kind = 1, fake.EXPIRED
        page.ring_head = 1
        child.send_signal(signal.SIGCONT)
        assert eventually(lambda: page.ring_tail == 1)
    finally:
        child.stdin.close()
        child.send_signal(signal.SIGCONT)
        assert child.wait(10) == 0
        child.stdout.close()
