"""Plans, carried out: what is asked of a worker with the user's rights and told to the dispatcher; a worker that fails, a shim that takes none."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest
from fikitd.clients.memory_plans import BURST_NS, SHARE
from fikitd.gpus.memory_budgets import VALID_NS
from fikitd.gpus.residency import Link
from fikitd.workers.pool import Rights, WorkFailed
from planned_node import GIB, OUTLINE, PATH, PLANNED, FakeDispatcher, Node, S, in_a_loop, with_client


@pytest.fixture
def node() -> Node:
    return with_client()


@in_a_loop
async def test_a_plan_is_made_with_the_users_rights_and_sent(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fikitd")
    told = await node.looks(5)
    link = {"link_bytes_per_s": [24e9, 24e9], "room_bytes": 6 * GIB + 3 * GIB // 4}
    assert node.asked == [
        (Rights(1000, 100), "plan_memory", {**link, "budget_bytes": None}, [b"accesses"]),
        (Rights(1000, 100), "plan_memory", {**link, "budget_bytes": 6 * GIB}, [b"accesses"]),
    ]
    ((kind, first, launches, moves, until_ns),) = told
    assert (kind, launches, moves) == ("set", 50, b"moves")
    assert first % 50 == 1
    assert until_ns <= node.now_ns + VALID_NS
    assert node.plans.busy
    assert node.enough == [6 * GIB]
    assert caplog.messages == [
        "job 12: its memory has a plan: 6.00 of 8.00 GiB on the GPU, 3 moves of 4.00 GiB in each pass of 50 launches over a link of 24.0 GB/s in and 24.0 out, expected to lose 5.0 %"
    ]


@in_a_loop
async def test_memory_that_a_pass_takes_and_gives_back_between_two_looks_counts(node: Node) -> None:
    """In stream order, by a host that is ahead of the device."""
    node.has_bytes = GIB
    assert await node.looks(5) == []
    assert node.asked == [], "it fits"
    node.dispatcher.most_bytes, node.dispatcher.most_at_ns = 8 * GIB, node.now_ns
    assert [each[0] for each in await node.looks(5)] == ["set"]
    assert {each[0] for each in await node.looks(150)} == {"renew"}, "for 10 s"
    assert [each[0] for each in await node.looks(60)][-1] == "drop", "it has had so much no more"


@in_a_loop
async def test_it_is_renewed_and_taken_back_and_its_job_says_how_it_goes(node: Node) -> None:
    await node.looks(5)
    node.dispatcher.skipped = 9
    renewed = await node.looks(40)
    assert {each[0] for each in renewed} == {"renew"}
    assert len(renewed) == 2, "each second"
    plan = node.story.plan_fields()
    assert plan is not None
    assert (plan["budget_bytes"], plan["peak_bytes"], plan["moved_bytes_per_pass"], plan["expected_loss"]) == (
        6 * GIB, 8 * GIB, 4 * GIB, 0.05,
    )  # fmt: skip
    assert 35 <= plan["passes"] <= 45
    assert plan["skipped"] == 4, "since it came here"
    assert node.story.plan_now() == {"budget_bytes": 6 * GIB, "peak_bytes": 8 * GIB, "expected_loss": 0.05}
    node.dispatcher.inside = False
    assert await node.looks(3) == [("drop",)]
    assert node.story.plan_now() is None
    assert node.story.plan_fields() == plan, "its report says what was"
    assert await node.looks(3, room=9 * GIB) == []
    assert not node.plans.busy


@in_a_loop
async def test_what_its_shim_says_of_the_link_is_what_its_plan_is_made_for(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fikitd")
    await node.looks(5)
    node.dispatcher.bytes_per_s = 2 * S
    await node.looks(5)
    node.dispatcher.in_per_s, node.dispatcher.out_per_s = 48 * S, 14 * S
    await node.looks(300)
    rates = [[24e9, 24e9], [2e9, 2e9], [48e9, 14e9]]
    assert [arguments["link_bytes_per_s"] for _, _, arguments, _ in node.asked] == [
        each for each in rates for _ in range(2)
    ]
    said = [line for line in caplog.messages if "over a link of" in line]
    assert [
        "24.0 GB/s in and 24.0 out" in said[0],
        "2.0 GB/s in and 2.0 out" in said[1],
        "48.0 GB/s in and 14.0 out" in said[2],
    ] == [True] * 3
    assert node.link.link == Link(), "turns and other jobs do not go by it"


@in_a_loop
async def test_a_look_at_once_behind_another_one_does_nothing(node: Node) -> None:
    await node.looks(5)
    node.dispatcher.inside = False
    node.now_ns -= S // 20 - 1000
    assert await node.looks(1) == []
    assert node.enough == [6 * GIB]
    assert await node.looks(1) == [("drop",)]


@pytest.mark.parametrize(
    "failure",
    [WorkFailed(5, "it took more memory than a user's may"), TimeoutError(), ValueError("nonsense"), (None, b""), ([], b""), ({"points": 5}, b"")],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("asked_for", [False, True], ids=["outline", "plan"])
@in_a_loop
async def test_a_worker_that_fails_costs_the_plan_and_one_line(
    node: Node, caplog: pytest.LogCaptureFixture, failure: Any, asked_for: bool
) -> None:
    caplog.set_level(logging.INFO, "fikitd")
    node.answers[asked_for] = failure
    assert await node.looks(400) == []
    assert 3 <= len(node.asked) <= 8
    assert len(caplog.messages) <= 1
    assert all("has no plan" in each for each in caplog.messages)


@pytest.mark.parametrize("how", ["no shim", "moves"])
@in_a_loop
async def test_what_cannot_be_written_is_tried_ever_more_rarely(
    node: Node, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    caplog.set_level(logging.INFO, "fikitd")
    node.dispatcher.takes = how != "no shim"
    if how == "moves":
        node.answers[True] = asdict(PLANNED), b"wrong"
    await node.looks(400)
    assert len([each for each in node.dispatcher.told if each[0] == "set"]) == (4 if how == "no shim" else 0)
    assert [each for each in caplog.messages if "has a plan" in each] == []
    assert len(caplog.messages) == 1


@in_a_loop
async def test_one_that_is_gone_while_it_is_planned_is_forgotten(node: Node) -> None:
    node.hangs.clear()
    await node.looks(3)
    assert node.at_work == 1
    node.plans.went(3)
    await asyncio.sleep(0)
    assert node.at_work == 0, "its worker is let go"
    node.hangs.set()
    assert await node.looks(5) == []
    assert len(node.asked) == 1


@in_a_loop
async def test_one_that_has_left_its_dispatcher_meanwhile_is_no_error(node: Node) -> None:
    node.dispatcher.gone = True
    assert await node.looks(10) == []
    assert node.asked == []


@in_a_loop
async def test_an_older_shim_has_no_plan(node: Node) -> None:
    older = Node()
    older.client.version = 6
    older.plans.came(older.client, older.dispatcher)  # type: ignore[arg-type]
    assert await older.looks(10) == []
    assert older.enough == [None]
    assert older.asked == []


@in_a_loop
async def test_what_leaves_with_a_plan_has_none_and_the_next_one_is_another(node: Node) -> None:
    await node.looks(6)
    assert node.story.plan_now() is not None
    node.story.without_plan(4)
    assert node.story.plan_now() is not None, "of another client"
    node.plans.went(3)
    assert node.story.plan_now() is None


@in_a_loop
async def test_gpus_that_nobody_uses_are_forgotten(node: Node) -> None:
    await node.looks(5)
    node.plans.forget([])
    assert not node.plans.busy


@in_a_loop
async def test_a_program_that_makes_fikitd_plan_all_the_time_has_a_share_of_a_worker(node: Node) -> None:
    """It goes from one iteration to the other, and each time it is in the one that is not planned."""
    node.takes_ns = 4 * S
    while node.now_ns < 1500 * S:
        path = "b" * 16 if node.dispatcher.path == PATH else PATH
        node.dispatcher.path = path
        node.answers = {
            False: (asdict(replace(OUTLINE, path=path)), b""),
            True: (asdict(replace(PLANNED, path=path)), b"moves"),
        }
        await node.look()
        node.now_ns += S
    assert len(node.asked) >= 2
    assert BURST_NS <= node.worked_ns <= BURST_NS + SHARE * node.now_ns + node.takes_ns


@in_a_loop
async def test_a_user_who_has_had_the_share_is_planned_for_later_and_another_one_at_once(node: Node) -> None:
    node.takes_ns = BURST_NS + 10 * S
    await node.looks(2)
    assert len(node.asked) == 1
    node.takes_ns = 0
    await node.looks(20)
    assert len(node.asked) == 1
    other: Any = SimpleNamespace(
        number=4, version=7, place="gpu", record=SimpleNamespace(job="13", uid=2000, gid=100),
        job=SimpleNamespace(number=13, memory_story=None),
    )  # fmt: skip
    node.uids.add(2000)
    node.plans.came(other, FakeDispatcher())  # type: ignore[arg-type]
    await node.look(job=13, first=4)
    assert [rights.uid for rights, *_ in node.asked] == [1000, 2000]
    node.now_ns += int(10 * S / SHARE)
    assert [each[0] for each in await node.looks(3)] == ["set"], "and the job has its plan"


@in_a_loop
async def test_what_was_to_be_planned_of_one_that_left_is_not(node: Node) -> None:
    node.takes_ns = BURST_NS + 10 * S
    await node.looks(3)
    node.takes_ns = 0
    node.plans.went(3)
    node.now_ns += 1000 * S
    await node.looks(3)
    assert len(node.asked) == 1
