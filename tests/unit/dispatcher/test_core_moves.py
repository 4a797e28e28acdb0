"""The words of a page by which a client's memory is moved, as the dispatcher writes and reads them."""

from __future__ import annotations

import pytest
from core_fake_client import LONG_LEASE, FakeClient, dispatcher

ALL = 2**64 - 1
MOST = 2**53


def test_a_goal_has_a_number_and_wakes_the_client() -> None:
    with dispatcher("budget") as running:
        client = FakeClient(running, 1, 5)
        woken = client.page.wake
        first = running.set_goal(1, 3 * 2**20)
        assert (client.page.moves.goal, client.page.moves.goal_bytes) == (first, 3 * 2**20)
        assert first != 0
        assert client.page.wake != woken
        assert running.set_goal(1, ALL) != first
        assert client.page.moves.goal_bytes == ALL


def test_what_a_client_says_of_its_moves_is_in_its_figures() -> None:
    with dispatcher("budget") as running:
        client = FakeClient(running, 1, 5)
        goal = running.set_goal(1, ALL)
        said = client.page.moves
        said.movable_bytes, said.resident_bytes, said.in_bytes, said.out_bytes = 10, 7, 5, 4
        said.missed_bytes, said.moving_ns, said.turns, said.failures, said.reached = 3, 2, 9, 8, goal
        client.page.most_movable_bytes, client.page.most_movable_ns = 12, 11
        client.page.moves_per_s[:] = 14, 13
        told = {
            "goal": goal, "reached": goal, "movable_bytes": 10, "resident_bytes": 7, "in_bytes": 5, "out_bytes": 4, "missed_bytes": 3,
            "moving_ns": 2, "turns": 9, "failures": 8, "most_bytes": 12, "most_at_ns": 11, "in_per_s": 14, "out_per_s": 13,
        }  # fmt: skip
        assert running.moves(1) == told
        assert running.stats(1)["moves"] == told
        assert running.remove_client(1)["moves"] == told


def test_a_liars_figures_are_cut_and_never_more_resident_than_there_is() -> None:
    with dispatcher("budget") as running:
        client = FakeClient(running, 1, 5)
        said = client.page.moves
        for name in (
            "movable_bytes",
            "in_bytes",
            "out_bytes",
            "missed_bytes",
            "moving_ns",
            "resident_bytes",
        ):
            setattr(said, name, ALL)
        client.page.most_movable_bytes = ALL
        client.page.moves_per_s[:] = ALL, ALL
        found = running.moves(1)
        counts = (
            "movable_bytes",
            "in_bytes",
            "out_bytes",
            "missed_bytes",
            "moving_ns",
            "most_bytes",
            "in_per_s",
            "out_per_s",
        )
        assert {found[name] for name in counts} == {MOST}
        said.movable_bytes = 5
        assert running.moves(1)["resident_bytes"] == 5


def test_numbers_of_goals_go_on_whatever_the_client_writes_there() -> None:
    with dispatcher("budget") as running:
        client = FakeClient(running, 1, 5)
        first = running.set_goal(1, 1)
        client.page.moves.goal = first - 1
        assert running.set_goal(1, 2) == first + 1
        assert running.moves(1)["goal"] == first + 1


def test_the_next_daemon_gives_another_number_than_the_one_before() -> None:
    with dispatcher("budget", LONG_LEASE) as before:
        client = FakeClient(before, 1, 5)
        client.page.moves.reached = before.set_goal(1, 1)
    with dispatcher("budget", LONG_LEASE) as after:
        client.go_on_with(after, 5)
        assert after.moves(1)["goal"] == client.page.moves.goal
        assert after.set_goal(1, 2) != client.page.moves.reached
        client.page.moves.goal = 2**32 - 1
    with dispatcher("budget", LONG_LEASE) as last:
        client.go_on_with(last, 5)
        assert last.set_goal(1, 3) == 1  # 0 would say that nobody has a wish


@pytest.mark.parametrize("version", [2, 5])
def test_a_page_of_a_shim_that_moves_nothing_is_left_alone(version: int) -> None:
    with dispatcher("budget") as running:
        client = FakeClient(running, 1, 5, version=version)
        client.page.moves.movable_bytes = 2**30  # padding, to it
        assert running.set_goal(1, ALL) == 0
        assert client.page.moves.goal_bytes == 0
        assert running.moves(1)["movable_bytes"] == 0
