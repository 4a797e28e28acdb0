"""Budgets and plans of jobs whose memory has less room than it needs, in manual time: who is asked for what, what is sent, and when it is taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from budgeted_gpu import GIB, GOOD, LAUNCHES, LENGTH_NS, Gpu, S, asks, outline, sends
from fikitd.gpus.memory_budgets import LAST_AGAIN_NS, Drop, InPass, Renew
from fikitd.gpus.memory_outline import Planned, Point
from fikitd.gpus.residency import Link


def test_while_all_memory_fits_nobody_is_asked_and_nothing_sent() -> None:
    gpu = Gpu(room=16 * GIB)
    gpu.add(1)
    gpu.add(2)
    assert gpu.pass_(5) == []
    assert gpu.needs == {}


def test_one_job_with_less_room_than_it_needs_has_a_plan_for_the_room_whatever_it_costs() -> None:
    gpu = Gpu(room=int(5.5 * GIB))
    gpu.add(1)
    actions = gpu.pass_(10)
    assert [ask.budget_bytes for ask in asks(actions)] == [None, 5 * GIB]
    assert gpu.budget(1) == 5 * GIB
    assert len(sends(actions)) == 1
    assert sends(actions)[0].moves == b"moves"


def test_jobs_that_lose_little_run_together_with_budgets_that_fit() -> None:
    gpu = Gpu(room=15 * GIB)
    gpu.add(1)
    gpu.add(2, path="b" * 16)
    gpu.pass_(3)
    budgets = [gpu.budget(1) or 8 * GIB, gpu.budget(2) or 8 * GIB]
    assert sum(budgets) <= 15 * GIB
    assert gpu.needs == {1: 6 * GIB, 2: 6 * GIB}


def test_where_their_budgets_do_not_fit_each_has_a_plan_in_its_turn() -> None:
    gpu = Gpu(room=7 * GIB + GIB // 2, away={2})
    gpu.add(1)
    gpu.add(2, path="b" * 16)
    actions = gpu.pass_(3)
    assert gpu.budget(1) == 7 * GIB
    assert {ask.client for ask in asks(actions)} == {1}
    gpu.away = {1}
    gpu.pass_(3)
    assert gpu.budget(2) == 7 * GIB
    assert gpu.plans[1][2] < gpu.now_ns, "its plan ends by itself"
    assert gpu.needs == {1: 6 * GIB, 2: 6 * GIB}
    gpu.away = {2}
    assert asks(gpu.pass_(3)) == [], "never twice for the same iteration and room"
    assert gpu.plans[1][2] > gpu.now_ns


def test_what_others_have_is_no_room() -> None:
    gpu = Gpu(room=12 * GIB, others=5 * GIB)
    gpu.add(1)
    gpu.pass_(2)
    assert gpu.budget(1) == 6 * GIB
    gpu.others = 6 * GIB + GIB // 2
    gpu.pass_(2)
    assert gpu.budget(1) is None, "beside others no job runs by a plan that costs it more than .10"


def test_a_plan_is_renewed_while_the_program_keeps_to_it_and_taken_back_when_it_leaves() -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.pass_(2)
    renewed = [each for each in gpu.pass_(10) if isinstance(each, Renew)]
    assert 8 <= len(renewed) <= 11
    assert {each.first_launch for each in renewed} == {None}
    before = gpu.programs[1].inside
    gpu.change(1, inside=None)
    assert gpu.look() == [Drop(1)]
    assert gpu.look() == []
    gpu.change(1, inside=before)
    assert sends(gpu.look())
    assert asks(gpu.actions[2:]) == [], "its plan is known still"


def test_a_plan_is_anchored_anew_when_the_phase_is_another() -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.pass_(2)
    inside = gpu.programs[1].inside
    assert inside is not None
    gpu.change(1, inside=inside._replace(first_launch=inside.first_launch + 7))
    assert gpu.look() == [Renew(1, inside.first_launch + 7)]
    assert gpu.look() == []


def test_another_iteration_has_another_plan() -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.pass_(2)
    other = "b" * 16
    gpu.answers[other] = outline(other, [Point(4 * GIB, 0.0, GIB), Point(8 * GIB, 0.0, 0)])
    gpu.change(1, inside=InPass(other, LAUNCHES, 5001, LENGTH_NS))
    gpu.deaf = True
    assert Drop(1) in gpu.pass_(1)
    gpu.deaf = False
    gpu.answer(asks(gpu.actions)[-1])
    gpu.pass_(1)
    assert (gpu.budget(1), gpu.plans[1][0].path) == (4 * GIB, other)


@pytest.mark.parametrize(("slower", "again"), [(1.0, False), (1.25, False), (1.4, True), (0.6, True)])
def test_a_pass_that_takes_another_time_is_planned_again_ever_more_rarely(slower: float, again: bool) -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.pass_(1)
    gpu.stretch[1] = slower - 1
    asked = asks(gpu.pass_(60))
    assert len(asked) == (2 if again else 0), "once, and then it is as usual"
    assert gpu.budget(1) is not None


def test_a_plan_holds_until_there_is_another_one() -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.pass_(1)
    gpu.deaf, gpu.stretch[1] = True, 0.5
    gpu.pass_(20)
    assert gpu.plans[1][2] > gpu.now_ns
    assert not any(isinstance(each, Drop) for each in gpu.actions)


def test_bytes_that_were_missing_are_a_reason_too() -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.pass_(1)
    missed = 0
    asked = 0
    for _ in range(600):
        missed += int(0.06 * 8 * GIB) // 2  # ten passes a second, twenty looks
        gpu.change(1, missed_bytes=missed)
        asked += len(asks(gpu.pass_(0.05)))
    assert 4 <= asked <= 10, "twice as long is waited each time"


def test_what_the_driver_refuses_is_taken_back_and_tried_again_ever_more_rarely() -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    refused = sent = 0
    for _ in range(1200):
        actions = gpu.pass_(0.05)
        sent += len(sends(actions))
        if sends(actions):
            refused += 1
            gpu.change(1, refused=refused)
    assert 3 <= sent <= 6
    assert len([each for each in gpu.actions if isinstance(each, Drop)]) == sent


def test_a_worker_that_fails_is_asked_ever_more_rarely_and_the_job_goes_on_without() -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.answers["a" * 16] = None
    asked = asks(gpu.pass_(120))
    assert 4 <= len(asked) <= 7
    assert gpu.plans == {}
    assert LAST_AGAIN_NS >= 120 * S


def test_a_worker_that_does_not_answer_is_not_asked_twice() -> None:
    gpu = Gpu(room=7 * GIB, deaf=True)
    gpu.add(1)
    assert len(asks(gpu.pass_(60))) == 1


def test_an_iteration_of_which_little_is_known_has_no_plan_yet() -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.answers["a" * 16] = outline("a" * 16, looked_at=0.5)
    assert len(asks(gpu.pass_(60))) >= 7, "it is asked for again every few seconds"
    assert gpu.plans == {}
    gpu.answers["a" * 16] = outline("a" * 16, looked_at=0.96)
    gpu.pass_(10)
    assert gpu.budget(1) == 6 * GIB
    gpu.answers["a" * 16] = outline("a" * 16, [Point(5 * GIB, 0.01, GIB), Point(8 * GIB, 0.0, 0)])
    gpu.pass_(10)
    assert gpu.budget(1) == 5 * GIB, "what is learnt meanwhile counts, too"


def test_budgets_stay_while_others_allocate_and_free_a_little() -> None:
    gpu = Gpu(room=7 * GIB + GIB // 2)
    gpu.add(1)
    gpu.pass_(2)
    begin = len(gpu.actions)
    for room in (7.7, 7.4, 7.8, 7.45, 7.7):
        gpu.room = int(room * GIB)
        gpu.pass_(3)
    assert asks(gpu.actions[begin:]) == []
    gpu.room = 12 * GIB
    gpu.pass_(1)
    assert gpu.plans == {}, "all of it fits now"


def test_another_job_that_takes_and_gives_back_memory_all_the_time_has_plans_made_anew_ever_more_rarely() -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.pass_(5)
    begin = len(gpu.actions)
    for _ in range(200):
        gpu.room = 13 * GIB - gpu.room  # 6 or 7
        gpu.pass_(1)
    anew = [each for each in asks(gpu.actions[begin:]) if each.budget_bytes is None]
    assert 4 <= len(anew) <= 8
    assert gpu.budget(1) is not None
    gpu.pass_(1)
    gpu.now_ns += 800 * S
    gpu.pass_(1)
    begin = len(gpu.actions)
    gpu.room = 13 * GIB - gpu.room
    gpu.pass_(3)
    assert len(asks(gpu.actions[begin:])) >= 1, "after a while without a change it is as at first"


def test_memory_that_is_given_back_for_a_moment_does_not_end_a_plan() -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.pass_(2)
    begin = len(gpu.actions)
    for _ in range(20):
        for size in (8, 6):
            gpu.change(1, bytes=size * GIB)
            gpu.pass_(0.2)
    assert all(isinstance(each, Renew) for each in gpu.actions[begin:])
    gpu.pass_(11)
    assert gpu.plans == {}


def test_a_job_that_leaves_is_forgotten_and_what_comes_of_it_is_nothing() -> None:
    gpu = Gpu(room=7 * GIB, deaf=True)
    gpu.add(1)
    (ask,) = asks(gpu.pass_(1))
    del gpu.programs[1]
    gpu.look()
    assert not gpu.budgets.outlined(0, ask, outline("a" * 16))
    assert not gpu.budgets.made(0, ask, None, b"")


def test_an_answer_to_another_question_is_not_taken() -> None:
    gpu = Gpu(room=7 * GIB, deaf=True)
    gpu.add(1)
    (ask,) = asks(gpu.pass_(1))
    assert not gpu.budgets.outlined(0, ask._replace(room_bytes=1), outline("a" * 16))
    assert not gpu.budgets.outlined(0, ask, outline("b" * 16)), "its worker's word: another path"
    gpu.now_ns += 10 * S
    (ask,) = asks(gpu.pass_(1))
    assert gpu.budgets.outlined(0, ask, outline("a" * 16))
    (ask,) = asks(gpu.pass_(1))
    wrong = Planned("a" * 16, LAUNCHES, 1, 8 * GIB, 0, 0.0, LENGTH_NS, 1)
    assert not gpu.budgets.made(0, ask, wrong, b"")
    assert gpu.plans == {}


def test_a_plan_with_another_number_of_launches_than_the_program_has_is_not_sent() -> None:
    gpu = Gpu(room=7 * GIB, deaf=True)
    gpu.add(1)
    gpu.answer(asks(gpu.pass_(0.1))[0])
    (ask,) = asks(gpu.pass_(0.1))
    assert ask.budget_bytes is not None
    wrong = Planned(ask.path, LAUNCHES + 1, ask.budget_bytes, 8 * GIB, 0, 0.0, LENGTH_NS, 1)
    assert gpu.budgets.made(gpu.now_ns, ask, wrong, b"")
    assert sends(gpu.pass_(1)) == []


def test_what_could_not_be_written_is_tried_again_later() -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.pass_(1)
    gpu.plans.clear()
    gpu.budgets.refused(gpu.now_ns, 1)
    assert gpu.pass_(1) == []
    gpu.pass_(3)
    assert gpu.budget(1) == 6 * GIB


def test_passes_under_plans_are_counted() -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.pass_(10)
    _, passes = gpu.budgets.sent(1) or (None, 0)
    assert 85 <= passes <= 100
    before = gpu.programs[1].inside
    gpu.change(1, inside=None)
    gpu.look()
    assert gpu.budgets.sent(1) is None
    gpu.change(1, inside=before)
    gpu.pass_(1)
    _, more = gpu.budgets.sent(1) or (None, 0)
    assert passes < more <= passes + 10


def test_a_job_counts_with_less_than_its_memory_only_once_it_has_a_plan() -> None:
    gpu = Gpu(room=15 * GIB, deaf=True)
    gpu.add(1)
    gpu.add(2, path="b" * 16)
    for ask in asks(gpu.pass_(0.1)):
        gpu.answer(ask)
    asked = asks(gpu.pass_(0.1))
    assert gpu.needs == {}, "what budgets cost is known, and no plan is made"
    assert all(ask.budget_bytes for ask in asked)
    gpu.deaf = False
    for ask in asked:
        gpu.answer(ask)
    gpu.pass_(2)
    assert gpu.needs == {1: 6 * GIB, 2: 6 * GIB}
    inside = gpu.programs[1].inside
    gpu.change(1, inside=InPass("c" * 16, LAUNCHES, 5001, LENGTH_NS))
    gpu.look()
    assert gpu.needs == {2: 6 * GIB}, "what it does now was not planned"
    gpu.change(1, inside=inside)
    gpu.look()
    assert gpu.needs == {1: 6 * GIB, 2: 6 * GIB}


def test_memory_that_launches_were_not_seen_to_touch_and_that_no_plan_sends_away_counts() -> None:
    """Live: passes of 8 launches went through 13 buffers in turn, and of 10 of them fikitd knew."""
    gpu = Gpu(room=9 * GIB, away={2})
    gpu.add(1, 10 * GIB)
    gpu.add(2, path="b" * 16)
    gpu.answers["a" * 16] = outline("a" * 16, [Point(7 * GIB, 0.0, GIB), Point(8 * GIB, 0.0, 0)])
    gpu.pass_(3)
    assert gpu.needs == {1: 9 * GIB}
    for idle in (0, 2):
        gpu = Gpu(room=9 * GIB, away={2})
        gpu.add(1, 10 * GIB)
        gpu.add(2, path="b" * 16)
        gpu.answers["a" * 16] = replace(outline("a" * 16, [Point(8 * GIB, 0.0, 0)]), idle_bytes=idle * GIB)
        gpu.pass_(3)
        assert gpu.needs == ({1: 8 * GIB} if idle else {})
        assert bool(gpu.plans) == bool(idle), "a plan that moves nothing keeps no budget"


def test_when_jobs_begin_to_run_together_each_has_a_plan_from_its_first_launch_on() -> None:
    gpu = Gpu(room=int(7.5 * GIB), away={2})
    between = Point(6 * GIB + GIB // 2, 0.02, 3 * GIB)
    gpu.add(1, points=sorted([*GOOD, between]))
    gpu.add(2, path="b" * 16, points=sorted([*GOOD, between]))
    gpu.pass_(3)
    gpu.away = {1}
    gpu.pass_(3)
    assert (gpu.budget(1), gpu.budget(2)) == (7 * GIB, 7 * GIB)
    gpu.room, gpu.away, gpu.deaf = int(13.4 * GIB), set(), True
    gpu.look()
    plans = [planned.budget_bytes for planned, _, until_ns in gpu.plans.values() if until_ns > gpu.now_ns]
    assert plans == [6 * GIB, 6 * GIB], "the rest of the room waits for plans that are not made yet"
    gpu.deaf = False
    for ask in asks(gpu.actions)[-2:]:
        gpu.answer(ask)
    gpu.pass_(1)
    assert (gpu.budget(1), gpu.budget(2)) == (between.budget_bytes, between.budget_bytes)


@pytest.mark.parametrize(
    ("link", "again"),
    [
        (Link(17e9), False), (Link(35e9), False), (Link(2e9), True), (Link(50e9), True), (Link(24e9, 14e9), True), (Link(48e9, 24e9), True),
        (Link(35e9, 17e9), False),
    ],
)  # fmt: skip
def test_a_plan_for_a_link_that_is_another_is_made_anew_and_holds_until_then(link: Link, again: bool) -> None:
    gpu = Gpu(room=7 * GIB)
    gpu.add(1)
    gpu.pass_(2)
    begin = len(gpu.actions)
    gpu.change(1, link=link)
    gpu.pass_(5)
    actions = gpu.actions[begin:]
    assert [(ask.budget_bytes, ask.link) for ask in asks(actions)] == ([(None, link), (6 * GIB, link)] if again else [])
    assert [each.link for each in sends(actions)] == ([link] if again else [])
    assert not any(isinstance(each, Drop) for each in actions)
    assert gpu.budget(1) == 6 * GIB
