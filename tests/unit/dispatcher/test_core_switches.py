"""What a dispatcher measures of its GPU's switch, from reports of clients whose work follows one another, and whom it tells. The device is made up here."""

from __future__ import annotations

import itertools
from typing import Any

import core_fake_client as fake
import pytest
from core_fake_client import DRAINED, FakeClient, eventually, now, profile_entry
from fikitd._core import Dispatcher

US = 1000
WAY_NS, KERNEL_NS, HOST_NS = 10 * US, 100 * US, 30 * US


def clients(running: Dispatcher, **terms: Any) -> list[FakeClient]:
    """A high one and a low one, whose only kernel's time is known."""
    made = [FakeClient(running, number, priority, **terms) for number, priority in ((1, 1), (2, 8))]
    for client in made:
        running.set_profile(client.number, [profile_entry("step", KERNEL_NS, 0)])
        client.describe(1, "step")
    return made


def take_turns(clients: list[FakeClient], switch_ns: int, turns: int = 24) -> None:
    """Each launches twice and waits, then it is the other's turn. The dispatcher has read what was before another report comes."""
    t_ns, had_it = now(), clients[0]
    for client in itertools.islice(itertools.cycle([*clients[:1] * 2, *clients[1:] * 2]), 4 * turns):
        end_ns = t_ns + WAY_NS + KERNEL_NS + (switch_ns if client is not had_it else 0)
        assert eventually(lambda end_ns=end_ns: now() > end_ns)
        client.launch(1, t_ns=t_ns)
        client.ring()
        assert eventually(lambda client=client: client.read)
        client.put(DRAINED, slot=end_ns - t_ns, value=client.page.launch_seq, t_ns=end_ns)
        client.ring()
        assert eventually(lambda client=client: client.read)
        t_ns, had_it = end_ns + HOST_NS, client


@pytest.mark.parametrize("switch_us", [0, 50, 200])
def test_the_switch_is_found_from_reports_of_clients_that_take_turns(switch_us: int) -> None:
    with fake.dispatcher("fifo") as running:
        take_turns(clients(running), switch_us * US)
        known = running.device(8)
        assert abs(known["switch_ns"] - switch_us * US) <= 3 * US
        assert known["spread_ns"] <= 3 * US
        assert known["samples"] >= 8
        assert {word[4] for word in running.switches()} == {8}, "when the low one's work was over is the low one's word"


def test_clients_under_mps_tell_nothing_of_a_switch() -> None:
    with fake.dispatcher("fifo") as running:
        take_turns(clients(running, overlaps=True), 50 * US)
        assert running.switches() == []
        assert running.device()["switch_ns"] is None


def test_what_rests_on_reports_of_lower_clients_is_told_to_their_level_only() -> None:
    with fake.dispatcher("budget") as running:
        for number, priority in enumerate((1, 5, 8)):
            FakeClient(running, number, priority)
        for known_to in (8, 5):
            running.remember_switch(50 * US, 2 * US, 40, known_to)
            told = {priority: running.device(priority)["switch_ns"] for priority in (5, 8)}
            assert told == {5: 50 * US if known_to == 5 else None, 8: 50 * US}


@pytest.mark.parametrize("said", [(-1, 0, 1, 8), (6_000_000, 0, 1, 8), (5, -1, 1, 8), (5, 0, 1, 10)])
def test_what_no_gpu_takes_is_not_remembered(said: tuple[int, int, int, int]) -> None:
    with fake.dispatcher("fifo") as running, pytest.raises(ValueError, match=r"no GPU's switch|priority must be"):
        running.remember_switch(*said)


@pytest.mark.parametrize("mps", [(), (1,), (2,), (1, 2)], ids=str)
def test_a_switch_is_charged_unless_one_mps_server_has_both_whoever_came_last(mps: tuple[int, ...]) -> None:
    """Two switches of the longest kind are more than the budget of a high client that has just come."""
    for order in ((1, 2), (2, 1)):
        with fake.dispatcher("budget", fake.LONG_LEASE) as running:
            running.remember_switch(5_000_000, 0, 40, 1)
            came = {
                number: FakeClient(running, number, {1: 1, 2: 8}[number], overlaps=number in mps) for number in order
            }
            for client in came.values():
                client.describe(1, "step")
                running.set_profile(client.number, [profile_entry("step", KERNEL_NS, 0)])
            high, low = came[1], came[2]
            high.launch(1, t_ns=now() - KERNEL_NS)
            high.drained()
            high.ring()
            assert eventually(lambda high=high: high.read)
            request = low.ask(1)
            assert eventually(lambda low=low, request=request: low.granted(request), 0.1) == (mps == (1, 2))
