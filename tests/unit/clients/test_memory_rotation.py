"""Turns of memory, carried out: whom fikitd holds for it, and whom never; in manual time, with dispatchers that only write down what they are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from fikitd.clients.memory_plans import MemoryPlans
from fikitd.clients.memory_rotation import AWAY_NS, CHANGING_S, LOOK_S, MemoryRotation
from fikitd.store.records import JobRecord

GIB = 2**30
S = 1_000_000_000
NOBODY: Any = None  # makes plans: no shim here carries one out


@dataclass
class FakeDispatcher:
    movable: int = 8 * GIB
    reached: Callable[[int], int] = lambda count: count
    away: dict[int, int] = field(default_factory=dict)
    goals: dict[int, int] = field(default_factory=dict)
    count: int = 0
    asked: int = 0  # for all its figures

    def moves(self, client: int) -> dict[str, int]:
        return {"movable_bytes": self.movable, "resident_bytes": self.movable, "reached": self.reached(self.count)}

    def standing(self, client: int) -> tuple[bool, bool, int]:
        return True, False, 0

    def stats(self, client: int) -> dict[str, Any]:
        self.asked += 1
        return {"gpu_time_ns": None}

    def set_goal(self, client: int, bytes_: int) -> int:
        self.goals[client] = bytes_
        self.count += 1
        return self.count

    def send_away(self, client: int, for_ns: int) -> None:
        self.away[client] = for_ns


@dataclass
class Node:
    """A GPU of 16 GiB, of which NVML says so, or (total) something else."""

    total: int | None = 16 * GIB
    now_ns: int = 0
    dispatchers: dict[int, FakeDispatcher] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rotation = MemoryRotation(
            lambda record: record.mem_host_bytes,
            lambda uuid: self.total,
            30,
            MemoryPlans(NOBODY, NOBODY),
            lambda: self.now_ns,
        )

    def add(
        self, number: int, *, job: int | None = None, place: str = "gpu", version: int = 6, held: int = 0, **facts: Any
    ) -> FakeDispatcher:
        given = {"priority": 8, "mem_bytes": 8 * GIB, "mem_host_bytes": 8 * GIB, **facts}
        record = JobRecord(job=str(job or number), uid=1000, gid=100, **given)
        device = SimpleNamespace(uuid="GPU-1", memory_bytes=16 * GIB)
        client = SimpleNamespace(
            number=number, version=version, place=place, device=device, record=record,
            job=SimpleNamespace(number=job or number, record=record),
        )  # fmt: skip
        memory = SimpleNamespace(held_by=lambda share: held, plain_by=lambda share: 0)
        self.dispatchers[number] = FakeDispatcher()
        self.rotation.came(client, self.dispatchers[number], memory, 0)  # type: ignore[arg-type]
        return self.dispatchers[number]

    def pass_time(self, ns: int) -> None:
        self.now_ns += ns

    def away(self) -> set[int]:
        self.rotation.look()
        return {number for number, each in self.dispatchers.items() if each.away.get(number)}

    def pass_(self, seconds: float) -> None:
        for _ in range(round(seconds * 20)):
            self.rotation.look()
            self.now_ns += S // 20


def two_too_many(node: Node, **second: Any) -> None:
    node.add(1)
    node.add(2, **second)
    for each in node.dispatchers.values():
        each.movable = 12 * GIB


def test_one_of_two_is_held_for_a_bounded_time_again_and_again_and_has_its_turn() -> None:
    node = Node()
    two_too_many(node)
    (first,) = node.away()
    assert node.dispatchers[first].away[first] == AWAY_NS
    node.pass_(40)
    assert node.away() == {1, 2} - {first}
    assert node.dispatchers[first].away[first] == 0


@pytest.mark.parametrize(
    "other",
    [
        {"priority": 1},
        {"measure": True},
        {"mem_host_bytes": 0},
        {"version": 5},
    ],
    ids=["high", "measured", "without the option", "old shim"],
)
def test_who_is_never_held(other: dict[str, Any]) -> None:
    node = Node()
    two_too_many(node, **other)
    node.pass_(100)
    assert node.away() == set()
    assert all(not each.goals for each in node.dispatchers.values())


def test_a_job_on_several_gpus_is_not_held_for_its_processes_may_wait_for_each_other() -> None:
    node = Node()
    two_too_many(node)
    node.add(3, job=2, place="another gpu")
    node.pass_(5)
    assert node.away() == set()


def test_processes_of_one_job_have_one_turn() -> None:
    node = Node()
    node.add(1)
    node.add(2, job=1)
    node.add(3)
    node.pass_(1)
    assert node.away() in ({1, 2}, {3})


def test_what_a_job_without_the_option_holds_is_no_room() -> None:
    node = Node()
    for number in (1, 2):
        node.add(number).movable = 7 * GIB
    assert node.away() == set()
    node.add(3, priority=1, mem_bytes=0, mem_host_bytes=0, held=4 * GIB)
    assert len(node.away()) == 1


def test_a_liar_who_holds_more_than_there_is_stops_nobody() -> None:
    node = Node()
    two_too_many(node)
    node.add(3, mem_host_bytes=0, held=2**53)
    node.pass_(10)
    assert node.away() == set()


def test_who_is_left_alone_is_called_back() -> None:
    node = Node()
    two_too_many(node)
    (held,) = node.away()
    node.rotation.went(3 - held)
    node.dispatchers.pop(3 - held)
    assert node.away() == set()


def test_of_one_that_leaves_while_it_is_away_nothing_is_said_any_more() -> None:
    node = Node()
    two_too_many(node)
    (held,) = node.away()
    node.rotation.went(held)
    node.pass_(100)
    assert node.away() == {held}, "its dispatcher was told nothing since"


def changing(node: Node) -> None:
    two_too_many(node)
    for each in node.dispatchers.values():
        each.reached = lambda count: 0
    node.pass_(1)
    assert node.rotation._pause_s() == LOOK_S
    for _ in range(1000):
        if node.rotation._pause_s() != LOOK_S:
            return
        node.pass_(0.05)
    raise AssertionError("no turn ended")


def test_while_turns_change_it_looks_every_millisecond() -> None:
    node = Node()
    changing(node)
    assert node.rotation._pause_s() == CHANGING_S == 0.001


def test_where_a_look_takes_long_it_takes_a_fifth_of_the_time_at_most() -> None:
    node = Node()
    changing(node)
    for each in node.dispatchers.values():
        each.reached = lambda count: node.pass_time(2_000_000) or 0
    node.rotation.look()
    assert node.rotation._pause_s() == pytest.approx(4 * 0.004)


def test_what_jobs_used_of_the_device_is_asked_when_turns_begin_and_end_not_at_each_look() -> None:
    node = Node()
    two_too_many(node)
    node.pass_(100)
    assert 0 < sum(each.asked for each in node.dispatchers.values()) <= 20


def test_a_job_that_comes_to_a_second_gpu_goes_without_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    node, told = Node(), []
    monkeypatch.setattr(MemoryPlans, "nobody", lambda self, place: told.append(place))
    node.add(1, version=6)
    node.rotation.look()
    assert told == []
    node.add(2, job=1, place="other")
    node.rotation.look()
    assert sorted(told) == ["gpu", "other"]
