"""Measured processes of one job take turns on a GPU, so that each is timed alone on the device, and nobody waits for a silent one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from core_fake_client import LEASE, MS, FakeClient, dispatcher, eventually, now
from fikitd._core import Dispatcher

JOB, OTHER_JOB = 7, 8


@pytest.fixture
def running() -> Iterator[Dispatcher]:
    with dispatcher("budget") as made:
        yield made


def pair(running: Dispatcher) -> tuple[FakeClient, FakeClient]:
    """Whose turn it is, and who waits for his."""
    first = FakeClient(running, 1, 5, measure=True, gang=JOB)
    second = FakeClient(running, 2, 5, measure=True, gang=JOB)
    assert eventually(lambda: second.closed)
    assert not first.closed
    return first, second


def test_the_turn_goes_to_who_waits_when_its_holder_has_nothing_to_do(running: Dispatcher) -> None:
    first, second = pair(running)
    first.launch(1)
    first.drained()
    second.ask(1)
    assert eventually(lambda: first.closed and not second.closed)
    second.page.waiting = 0
    second.launch(1)
    second.drained()
    first.ask(1)
    assert eventually(lambda: second.closed and not first.closed)


def test_nobody_begins_before_what_the_holder_launched_is_over(running: Dispatcher) -> None:
    first, second = pair(running)
    second.ask(1)
    assert eventually(lambda: not second.closed)
    second.page.waiting = 0
    second.launch(1)
    second.ring()
    asked = now()
    first.ask(1)
    assert eventually(lambda: second.closed)
    assert first.closed
    second.drained()
    second.ring()
    assert eventually(lambda: not first.closed)
    assert now() - asked >= 19 * MS, "it had its time"


def test_a_silent_holder_is_waited_for_no_longer_than_its_turn_and_a_lease(running: Dispatcher) -> None:
    first, second = pair(running)
    first.launch(1)
    asked = now()
    second.ask(1)
    assert eventually(lambda: not second.closed)
    assert now() - asked < 5 * LEASE


def test_a_holder_that_dies_leaves_the_turn_to_the_others(running: Dispatcher) -> None:
    first, second = pair(running)
    third = FakeClient(running, 3, 5, measure=True, gang=JOB)
    first.launch(1)
    running.remove_client(1)
    assert eventually(lambda: second.closed != third.closed)
    running.remove_client(2)
    assert eventually(lambda: not third.closed)


def test_others_are_not_held(running: Dispatcher) -> None:
    """The turns are those of one job's measured processes: not another job's, not of one alone, not of those that are not measured."""
    clients = [
        FakeClient(running, 1, 5, measure=True, gang=JOB),
        FakeClient(running, 2, 5, measure=True, gang=OTHER_JOB),
        FakeClient(running, 3, 5, measure=False, gang=JOB),
        FakeClient(running, 4, 5, measure=False, gang=JOB),
        FakeClient(running, 5, 5, measure=True),
        FakeClient(running, 6, 5, measure=True),
    ]
    assert not eventually(lambda: any(client.closed for client in clients), 0.05)
