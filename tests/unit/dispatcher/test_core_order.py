"""What several clients report is applied in the order in which it happened on their GPU, whoever's page is read first."""

from __future__ import annotations

import time
from functools import partial

import pytest
from core_fake_client import DRAINED, EXPIRED, LONG_LEASE, MS, FakeClient, dispatcher, eventually, now, profile_entry
from fikitd._core import Dispatcher

LENGTH = 400 * MS


def pair(running: Dispatcher, first: int, second: int) -> dict[int, FakeClient]:
    """Clients of these priorities, read in this order; a kernel of theirs takes LENGTH."""
    clients = {priority: FakeClient(running, number, priority) for number, priority in enumerate((first, second), 1)}
    for client in clients.values():
        client.describe(1, "k")
        running.set_profile(client.number, [profile_entry("k", LENGTH, 0)])
    return clients


def stood_behind_ns(running: Dispatcher, client: FakeClient) -> int:
    return sum(held["total_ns"] for held in running.stats(client.number)["held"] if held["reason"] == "lower_work")


def both_read(high: FakeClient, low: FakeClient) -> bool:
    return high.read and low.read


def heard_at_once(running: Dispatcher, high: FakeClient, low: FakeClient) -> bool:
    """One round found what both reported: the dispatcher looks before the bell, at one page or at both, now and then."""
    return running.stats(high.number)["heard_ns"] == running.stats(low.number)["heard_ns"]


def asleep(running: Dispatcher, *clients: FakeClient) -> None:
    """Until the dispatcher waits for doorbells, and reads nothing until one rings."""
    for client in clients:
        running.stats(client.number)
    assert eventually(lambda: not any(client.page.awake for client in clients))


@pytest.mark.parametrize("order", [(1, 8), (8, 1)], ids=["high is read first", "low is read first"])
@pytest.mark.parametrize("low_first", [True, False])
def test_a_launch_stands_behind_what_was_launched_before_it(order: tuple[int, int], low_first: bool) -> None:
    attempts = 20
    for _ in range(attempts):
        with dispatcher("paper", LONG_LEASE) as running:
            clients = pair(running, *order)
            high, low = clients[1], clients[8]
            time.sleep(0.01)
            asleep(running, high, low)
            began = now()
            if low_first:
                low.launch(1, EXPIRED, t_ns=began - 2 * MS)
                high.launch(1, t_ns=began - MS)
            else:
                high.launch(1, t_ns=began - 2 * MS)
                low.launch(1, EXPIRED, t_ns=began - MS)
            low.ring()  # the other's gate is open: its page is read whenever any is
            assert eventually(partial(both_read, high, low))
            if not heard_at_once(running, high, low):
                continue
            assert (stood_behind_ns(running, high) > LENGTH - 2 * MS) == low_first
            return
    pytest.fail(f"the dispatcher looked before the bell in each of {attempts} attempts")


def test_who_reports_much_keeps_nobody_from_being_read() -> None:
    with dispatcher("paper", LONG_LEASE) as running:
        clients = pair(running, 1, 8)
        asleep(running, *clients.values())
        began = now()
        for _ in range(3000):  # more than one round reads, all of it before what the other reports
            clients[1].put(DRAINED, t_ns=began)
        clients[8].launch(1, EXPIRED)
        clients[8].ring()
        assert eventually(lambda: clients[1].read and clients[8].read)
        assert running.stats(2)["kernels"] == 1
