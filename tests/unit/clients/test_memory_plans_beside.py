"""Plans of jobs beside others on the GPU and elsewhere, and of a job's processes beside each other."""

from __future__ import annotations

import asyncio
import logging

import pytest
from fikitd.clients.memory_plans import BURST_NS
from fikitd.gpus.memory_turns import MovableJob, Process
from fikitd.gpus.residency import Link
from planned_node import GIB, Node, S, in_a_loop, with_client


@pytest.fixture
def node() -> Node:
    return with_client()


@in_a_loop
async def test_each_process_of_a_job_has_a_plan_and_the_job_says_their_sum(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fikitd")
    told = node.second()
    await node.looks(8, room=14 * GIB, processes=2)
    assert [each[0] for each in node.dispatcher.told] == [each[0] for each in told] == ["set"]
    assert node.enough == [6 * GIB, 6 * GIB]
    assert node.story.plan_now() == {"budget_bytes": 12 * GIB, "peak_bytes": 16 * GIB, "expected_loss": 0.05}
    plan = node.story.plan_fields()
    assert plan is not None
    assert (plan["processes"], plan["moved_bytes_per_pass"]) == (2, 4 * GIB)
    assert [each.split(" has a plan")[0] for each in caplog.messages] == [
        "job 12: the memory of its process 4003", "job 12: the memory of its process 4004",
    ]  # fmt: skip
    assert {arguments["room_bytes"] for _, _, arguments, _ in node.asked} == {55 * GIB // 8}
    node.plans.went(4)
    await node.looks(3, room=14 * GIB)
    assert node.dispatcher.told[-1] == ("drop",), "all of it fits"
    assert node.story.plan_fields() == {**plan, "passes": node.story.plan_fields()["passes"]}  # type: ignore[index]


@in_a_loop
async def test_a_process_whose_shim_carries_no_plan_out_keeps_all_of_its_memory(node: Node) -> None:
    told = await node.looks(10, room=15 * GIB, processes=2)
    assert [each[0] for each in told] == ["set"]
    assert node.enough == [6 * GIB, None]
    assert node.asked[0][2]["room_bytes"] == 6 * GIB + 3 * GIB // 4


@in_a_loop
async def test_a_job_of_very_many_processes_has_no_plan(node: Node) -> None:
    assert await node.looks(10, room=135 * GIB, processes=17) == []
    assert node.asked == []
    await node.looks(10, room=127 * GIB, processes=16)
    assert node.asked


@in_a_loop
async def test_processes_that_say_that_they_have_more_than_their_job_may_have_no_more(node: Node) -> None:
    node.second()
    node.approved = 12 * GIB
    await node.looks(3, room=10 * GIB, processes=2)
    asked = [arguments["room_bytes"] / GIB for _, _, arguments, _ in node.asked]
    assert asked[0] == pytest.approx(2 * asked[1], rel=0.1), "8 and 4 GiB"


@in_a_loop
async def test_a_second_process_that_leaves_no_room_for_a_plan_ends_it(node: Node) -> None:
    await node.looks(6)
    assert await node.looks(3, processes=2) == [("drop",)]
    assert node.story.plan_now() is None


@in_a_loop
async def test_where_nobody_may_have_a_plan_no_job_is_said_to_have_one_and_nothing_is_planned(node: Node) -> None:
    await node.looks(6)
    elsewhere = node.elsewhere()
    assert node.story.plan_now() is not None
    node.plans.nobody("gpu")
    assert node.story.plan_now() is None
    assert elsewhere.plan_now() is not None, "on another GPU"
    node.hangs.clear()
    await node.look()
    assert node.at_work == 1
    node.plans.nobody("gpu")
    await asyncio.sleep(0)
    assert (node.at_work, node.plans.busy) == (0, False)
    node.hangs.set()
    assert [each[0] for each in await node.looks(6)] == ["set"], "afterwards it is as at first"


@in_a_loop
async def test_what_waits_to_be_planned_where_nobody_may_have_a_plan_is_not(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """Its user may have something planned again once another GPU is looked at."""
    node.takes_ns = BURST_NS + 10 * S
    await node.looks(3)
    assert len(node.asked) == 1
    node.plans.nobody("gpu")
    node.now_ns += 1000 * S
    node.elsewhere()
    node.plans.look("other", 7 * GIB, 16 * GIB, [], node.link)
    node.plans.act("other", [], set(), changing=False)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(node.asked) == 1
    assert caplog.messages == [], "nothing was begun"


def other_job(bytes_: int) -> MovableJob:
    """Whose shim carries no plan out."""
    return MovableJob(77, [Process(99, bytes_, 0, 0, False, False, 0)], bytes_)


@in_a_loop
async def test_what_other_jobs_have_is_no_room(node: Node) -> None:
    told = await node.looks(6, room=12 * GIB, others=[other_job(5 * GIB)])
    assert [each[0] for each in told] == ["set"]
    assert {arguments["room_bytes"] for _, _, arguments, _ in node.asked} == {12 * GIB - GIB // 4}
    assert (await node.looks(3, room=12 * GIB, others=[other_job(4 * GIB)]))[-1] == ("drop",), "all of it fits"


@in_a_loop
async def test_a_job_out_of_turn_is_asked_for_and_sent_nothing(node: Node) -> None:
    others = [other_job(8 * GIB)]
    assert await node.looks(6, others=others, away={3}) == []
    assert node.asked == []
    assert [each[0] for each in await node.looks(6, others=others, away={99})] == ["set"], "in its turn"


@in_a_loop
async def test_while_turns_change_budgets_stay(node: Node) -> None:
    assert await node.looks(6, changing=True) == []
    assert len(node.asked) == 1, "what budgets would cost"
    assert [each[0] for each in await node.looks(3)] == ["set"]


@in_a_loop
async def test_a_job_that_comes_is_looked_at_at_once(node: Node) -> None:
    await node.looks(5)
    assert node.enough == [6 * GIB]
    node.now_ns -= S // 20 - 1000
    await node.look(others=[other_job(GIB)])
    assert node.now_ns < S
    assert node.plans._gpus["gpu"].jobs == {12, 77}


@in_a_loop
async def test_a_process_without_memory_that_may_leave_is_not_planned(node: Node) -> None:
    node.second()
    node.approved = 8 * GIB
    await node.looks(5, processes=2)
    assert {len(chunks) for *_, chunks in node.asked} == {1}
    assert len(node.asked) == 2, "the outline and the plan of the first one"


@in_a_loop
async def test_a_job_that_comes_to_have_very_many_processes_is_said_to_have_no_plan(node: Node) -> None:
    await node.looks(6)
    assert node.story.plan_now() is not None
    await node.look(processes=17)
    assert node.story.plan_now() is None


@in_a_loop
async def test_what_a_shim_has_said_of_the_link_is_forgotten_with_it(node: Node) -> None:
    node.dispatcher.bytes_per_s = 2 * S
    await node.looks(3)
    assert node.link.of(3) == Link(2e9)
    await node.look(first=4, job=13)
    assert node.link.of(3) == Link()


@pytest.mark.parametrize("what", ["refused", "missed_bytes"])
@in_a_loop
async def test_what_a_shim_says_of_its_plan_makes_a_new_one(what: str, node: Node) -> None:
    await node.looks(5)
    asked = len(node.asked)
    for _ in range(60):
        if what == "refused":
            node.dispatcher.refused = 1
        else:
            node.dispatcher.missed_bytes += GIB
        await node.look()
    told = [each[0] for each in node.dispatcher.told]
    assert len(node.asked) > asked
    assert ("drop" in told) == (what == "refused")
    assert told.count("set") >= 2
