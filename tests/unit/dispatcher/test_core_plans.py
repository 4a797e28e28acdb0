"""The plan behind a client's page as the dispatcher writes and reads it, and the iteration by which it is anchored: the client is a liar where it likes."""

from __future__ import annotations

import struct
import time

import pytest
from core_fake_client import (
    IN,
    LONG_LEASE,
    OUT,
    TOUCH,
    TOUCHES,
    FakeClient,
    dispatcher,
    eventually,
)
from fikitd._core import Dispatcher, unpack_profile

MOST = 2**53
FIRST, SECOND = 1, 2
MOVE = struct.Struct("<IIIHBB")


def packed(*moves: tuple[int, int, int, int, int, int]) -> bytes:
    return b"".join(MOVE.pack(*move) for move in moves)


NONE = 0  # no copy: a first use
TWO = packed((0, 0, 3, 7, 32, OUT), (1, 0, 3, 7, 32, IN))


def test_a_plan_is_written_whole_with_a_number_of_its_own() -> None:
    with dispatcher("budget") as running:
        client = FakeClient(running, 1, 5)
        first = running.set_plan(1, 11, 2, TWO, 99)
        plan = client.plan
        assert plan is not None
        assert (plan.number, plan.launches, plan.first_launch, plan.until_ns, plan.count) == (first, 2, 11, 99, 2)
        assert bytes(plan.moves)[: len(TWO)] == TWO
        assert first != 0
        second = running.set_plan(1, 12, 2, TWO[:16], 99)
        assert second not in {0, first}
        assert (plan.number, plan.first_launch, plan.count) == (second, 12, 1)


def test_first_uses_stand_behind_the_moves() -> None:
    uses = packed((0, 0, 3, 7, 32, NONE), (0, 0, 35, 7, 1, NONE), (0, 1, 0, 9, 2, NONE))
    with dispatcher("budget") as running:
        client = FakeClient(running, 1, 5)
        plan = client.plan
        assert plan is not None
        for moves, count in ((TWO, 2), (b"", 0)):
            assert running.set_plan(1, 11, 2, moves + uses, 99) == plan.number != 0
            assert (plan.count, plan.first_uses) == (count, 3)
            assert bytes(plan.moves)[: len(moves + uses)] == moves + uses
        running.set_plan(1, 11, 2, TWO, 99)
        assert (plan.count, plan.first_uses) == (2, 0)


def test_a_plan_is_renewed_anchored_anew_and_taken_back() -> None:
    with dispatcher("budget") as running:
        client = FakeClient(running, 1, 5)
        plan = client.plan
        assert plan is not None
        assert running.renew_plan(1, None, 5) == 0, "there is none"
        number = running.set_plan(1, 11, 2, TWO, 0)
        assert running.renew_plan(1, None, 77) == number
        assert (plan.number, plan.until_ns, plan.first_launch) == (number, 77, 11)
        again = running.renew_plan(1, 14, 78)
        assert again not in {0, number}
        assert (plan.number, plan.until_ns, plan.first_launch, plan.count) == (again, 78, 14, 2)
        assert bytes(plan.moves)[: len(TWO)] == TWO
        running.drop_plan(1)
        assert plan.number == 0
        assert running.renew_plan(1, 14, 79) == 0
        assert plan.number == 0


@pytest.mark.parametrize(
    ("first", "launches", "moves"),
    [
        (0, 2, TWO),
        (1, 0, b""),
        (1, 16385, b""),
        (1, 2, TWO[:-1]),
        (1, 2, packed((0, 0, 0, 0, 1, OUT)) * 8193),
        (1, 2, packed((2, 0, 0, 0, 1, OUT))),
        (1, 2, packed((0, 2, 0, 0, 1, IN))),
        (1, 2, packed((0, 1, 0, 0, 1, OUT))),
        (1, 2, packed((1, 0, 0, 0, 1, OUT), (0, 0, 0, 0, 1, OUT))),
        (1, 2, packed((0, 0, 2**20, 0, 1, OUT))),
        (1, 2, packed((0, 0, 0, 4096, 1, OUT))),
        (1, 2, packed((0, 0, 0, 0, 0, OUT))),
        (1, 2, packed((0, 0, 0, 0, 33, OUT))),
        (1, 2, packed((0, 0, 0, 0, 1, 3))),
        (1, 2, packed((0, 0, 0, 0, 1, NONE)) + TWO),
        (1, 2, packed((0, 1, 0, 0, 1, NONE), (0, 0, 0, 0, 1, NONE))),
        (1, 2, packed((1, 1, 0, 0, 1, NONE))),
        (1, 2, packed((0, 2, 0, 0, 1, NONE))),
        (1, 2, packed((0, 0, 2**20, 0, 1, NONE))),
        (1, 2, packed((0, 0, 0, 4096, 1, NONE))),
        (1, 2, packed((0, 0, 0, 0, 0, NONE))),
        (1, 2, packed((0, 0, 0, 0, 33, NONE))),
        (1, 2, TWO + packed((0, 0, 0, 0, 1, NONE)) * 8191),
    ],
)
def test_what_does_not_fit_the_wire_is_refused_and_the_plan_stays(first: int, launches: int, moves: bytes) -> None:
    with dispatcher("budget") as running:
        client = FakeClient(running, 1, 5)
        assert client.plan is not None
        number = running.set_plan(1, 11, 2, TWO, 0)
        with pytest.raises(ValueError, match="plan"):
            running.set_plan(1, first, launches, moves, 0)
        assert (client.plan.number, client.plan.count) == (number, 2)
        with pytest.raises(ValueError, match="plan"):
            running.renew_plan(1, 0, 0)


def test_the_longest_plan_fits() -> None:
    with dispatcher("budget") as running:
        client = FakeClient(running, 1, 5)
        assert client.plan is not None
        running.set_plan(1, 1, 16384, packed((16383, 0, 2**20 - 1, 4095, 32, OUT)) * 8192, 0)
        assert client.plan.moves[8191].after == 16383


@pytest.mark.parametrize("version", [2, 6])
def test_a_shim_before_version_7_has_no_plan(version: int) -> None:
    with dispatcher("budget") as running:
        client = FakeClient(running, 1, 5, version=version)
        client.page.version = 7  # a lie: its file has no room for one
        assert running.set_plan(1, 1, 2, TWO, 0) == 0
        assert running.renew_plan(1, 1, 1) == 0
        running.drop_plan(1)
        assert set(running.plan_state(1).values()) == {0}


def test_what_a_client_says_of_its_plans_is_bounded() -> None:
    with dispatcher("budget") as running:
        client = FakeClient(running, 1, 5)
        plan = client.plan
        assert plan is not None
        number = running.set_plan(1, 1, 2, TWO, 0)
        plan.taken, plan.refused, plan.carried_out, plan.skipped, plan.bytes_per_s = number, 3, 20, 4, 5
        said = {"number": number, "taken": number, "refused": 3, "carried_out": 20, "skipped": 4, "bytes_per_s": 5}
        assert running.plan_state(1) == said
        plan.taken = plan.refused = 2**32 - 1
        plan.carried_out = plan.skipped = plan.bytes_per_s = 2**64 - 1
        plan.number = 5
        assert running.plan_state(1) == {
            "number": number, "taken": 2**32 - 1, "refused": 2**32 - 1, "carried_out": MOST, "skipped": MOST, "bytes_per_s": MOST,
        }  # fmt: skip
        assert running.set_plan(1, 1, 2, TWO, 0) == number + 1, "whatever the client has written there"


def test_the_next_daemon_gives_another_number_than_the_one_before() -> None:
    with dispatcher("budget", LONG_LEASE) as before:
        client = FakeClient(before, 1, 5)
        number = before.set_plan(1, 1, 2, TWO, 0)
    with dispatcher("budget", LONG_LEASE) as after:
        client.go_on_with(after, 5)
        assert client.plan is not None
        assert client.plan.number == number, "it ends by itself"
        assert after.plan_state(1)["number"] == 0
        assert after.set_plan(1, 1, 2, TWO, 0) not in {0, number}


def test_the_next_daemon_gives_another_number_also_where_the_last_plan_was_taken_back() -> None:
    """A shim that has not come by since would take the new plan for the one that it has, or has refused."""
    given = set()
    with dispatcher("budget", LONG_LEASE) as before:
        client = FakeClient(before, 1, 5)
        given.add(before.set_plan(1, 1, 2, TWO, 0))
        before.drop_plan(1)
    for _ in range(3):
        time.sleep(0.002)  # a fikitd takes longer to begin
        with dispatcher("budget", LONG_LEASE) as after:
            client.go_on_with(after, 5)
            number = after.set_plan(1, 1, 2, TWO, 0)
            assert number not in {0, *given}
            given.add(number)
            after.drop_plan(1)


def one_pass(client: FakeClient, slots: tuple[int, ...] = (FIRST, SECOND)) -> None:
    for slot in slots:
        client.launch(slot)
    client.put(TOUCHES, slots[-1], 1, client.page.launch_seq)
    client.put(TOUCH, 0, 512 << 32, client.page.launch_seq)
    client.drained()
    client.ring()
    assert eventually(lambda: client.read)


def learning(running: Dispatcher) -> FakeClient:
    client = FakeClient(running, 1, 5, measure=True)
    for slot in (FIRST, SECOND, 3):
        client.describe(slot, f"kernel{slot}")
    return client


def test_the_pass_that_runs_has_a_first_launch() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        client = learning(running)
        assert running.iteration(1) is None
        for _ in range(4):
            one_pass(client)
        found = running.iteration(1)
        assert found is not None
        path, launches, first, latest_ns = found
        assert len(path) == 16
        assert launches == 2
        assert first == 9, "eight launches have been, and the next pass begins"
        assert latest_ns > 0
        client.launch(FIRST)
        client.ring()
        assert eventually(lambda: client.read)
        assert running.iteration(1) == found, "the same pass still"
        _, rhythm = unpack_profile(running.packed_accesses(1, 2**20))
        assert [each["path"] for each in rhythm["accesses"]["iterations"]] == [path]


def test_a_pass_of_several_waits_has_the_same_first_launch_at_each_of_them() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        client = learning(running)
        firsts = []
        for _ in range(5):
            for slots in ((FIRST,), (SECOND, 3)):
                one_pass(client, slots)
                found = running.iteration(1)
                firsts.append(None if found is None else (found[2] - 1) % 3)
        known = [first for first in firsts if first is not None]
        assert len(known) >= 5
        assert len(set(known)) == 1


def test_a_client_that_does_something_else_is_in_no_iteration() -> None:
    with dispatcher("budget", LONG_LEASE) as running:
        client = learning(running)
        for _ in range(4):
            one_pass(client)
        assert running.iteration(1) is not None
        one_pass(client, (FIRST, FIRST, SECOND))
        assert running.iteration(1) is None
        assert running.packed_accesses(1, 2**20) == b""


def test_a_client_that_is_not_there_has_no_plan() -> None:
    with dispatcher("budget") as running:
        for ask in (
            lambda: running.set_plan(1, 1, 1, b"", 0), lambda: running.renew_plan(1, None, 0), lambda: running.drop_plan(1),
            lambda: running.plan_state(1), lambda: running.iteration(1), lambda: running.packed_accesses(1, 1),
        ):  # fmt: skip
            with pytest.raises(IndexError):
                ask()
