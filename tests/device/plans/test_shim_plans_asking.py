"""What a plan's moves ask at the gate, and what becomes of a move whose answer comes late: the plan may be withdrawn by then, or a goal stand in its way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from host_memory import MIB
from plan_program import BUFFER_BYTES, BUFFERS, CHUNKS, begin_rounds, cycle, planned, ready, right, rounds
from shim_daemon import COPY, DONE, IN, MARK_GRANT, OUT, Daemon, Page, PlanMove, wait_for
from shim_program import Program

pytest_plugins = ["plan_fixtures"]

Start = Callable[..., Program]
MARKS = 64  # FIKIT_MARKS: the word of mark n is number n % MARKS


def test_pieces_ask_as_copies_where_copies_ask(start: Start, allowed: Daemon) -> None:
    """At a closed gate, after the launch behind which they are; fikitd hears when they are over."""
    run, page = ready(start, allowed)
    planned(page, [PlanMove(2, 0, 0, 0, CHUNKS, OUT), PlanMove(2, 5, 0, 0, CHUNKS, IN)])
    rounds(run, 1)
    page.knows_all()
    page.set_u64("copies_ask_from", MIB, 0)
    page.set_u64("copies_ask_from", MIB, 1)
    page.close_gate(60)
    begin_rounds(run, 1)
    asked = []
    for _ in range(BUFFERS + 2):
        seq = wait_for(lambda: page.u32("waiting") and page.u32("request_seq"), "a request")
        asked.append((page.u32("request_copy"), page.u64("request_bytes")))
        page.grant()
        wait_for(lambda seq=seq: not page.u32("waiting") or page.u32("request_seq") != seq, "the next one")
    assert asked == [(0, 0)] * 3 + [(OUT, BUFFER_BYTES), (IN, BUFFER_BYTES)] + [(0, 0)] * 3
    assert run.line() == "round"
    assert [(each.slot, each.value) for each in page.of_kind(COPY)][-2:] == [(OUT, BUFFER_BYTES), (IN, BUFFER_BYTES)]
    assert len(page.of_kind(MARK_GRANT)) == BUFFERS + 2, "behind each launch and each move"
    page.open_gate()
    assert right(run)


BETWEEN = """
def round():
    launch(0)
    say("launched")
    sys.stdin.readline()
    launch(1)
    sync()
    buffers.rounds += 1
buffers.go_round = round
"""


def granted_move(start: Start, allowed: Daemon, **env: str) -> tuple[Program, Page, int]:
    """Of a program that stands behind its first launch, one of a run of several: the request by which what moves behind that asked. The move takes a third of a second."""
    run, page = ready(start, allowed, BETWEEN, gpu="[copy]\nd2h_gbps = 0.05\n", **env)
    planned(page, [PlanMove(0, 0, 0, 0, CHUNKS, OUT)], launches=2)
    begin_rounds(run, 1)  # at its end the plan is noticed
    assert run.line() == "launched"
    run.go()
    assert run.line() == "round"
    page.set_u64("copies_ask_from", MIB, 1)
    page.close_gate(60)
    begin_rounds(run, 1)
    wait_for(lambda: page.u32("waiting"), "the launch")
    page.grant_run(5)
    wait_for(lambda: page.u32("waiting") and page.u32("request_copy") == OUT, "the piece")
    asked = page.u32("request_seq")
    page.grant()
    assert run.line() == "launched"
    return run, page, asked


@pytest.mark.parametrize("rule", ["", "call=cuEventRecord nth=4 error=2"], ids=["", "what goes with it is refused"])
def test_a_grant_is_over_when_the_move_is_and_not_with_the_launch_before_it(
    rule: str, start: Start, allowed: Daemon
) -> None:
    run, page, asked = granted_move(start, allowed, EMUCUDA_FAULTS=rule)
    page.run(0)  # fikitd ends the run early
    run.go()
    wait_for(lambda: page.u32("waiting"), "the next launch, which has to ask")
    assert asked not in {each.value for each in page.of_kind(DONE)}
    (mark,) = (each.slot for each in page.of_kind(MARK_GRANT) if each.value == asked)
    assert mark < MARKS
    assert page.u32("marks", mark) != mark, "it is not over"
    wait_for(lambda: page.u32("marks", mark) == mark, "its end")
    assert page.planned()["refused"] == (1 if rule else 0)
    assert page.moves()["out_bytes"] == BUFFER_BYTES
    page.open_gate()
    assert run.line() == "round"
    assert right(run)


def test_a_plan_that_is_withdrawn_while_a_piece_asks_moves_nothing(start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed)
    planned(page, [PlanMove(2, 0, 0, 0, CHUNKS, OUT), PlanMove(2, 5, 0, 0, CHUNKS, IN)])
    rounds(run, 1)
    page.knows_all()
    page.set_u64("copies_ask_from", MIB, 1)
    page.close_gate(60)
    begin_rounds(run, 1)
    for _ in range(3):
        wait_for(lambda: page.u32("waiting"), "a launch")
        asked = page.u32("request_seq")
        page.grant()
        wait_for(lambda asked=asked: page.u32("request_seq") != asked, "the next request")
    wait_for(lambda: page.u32("waiting") and page.u32("request_copy") == OUT, "the piece")
    asked = page.u32("request_seq")
    page.set_u32("plan.number", 0)
    page.grant()
    wait_for(lambda: asked in {each.value for each in page.of_kind(DONE)}, "word that its grant is over")
    assert page.planned() == {"taken": 0, "refused": 0, "carried_out": 0, "skipped": 0}
    page.open_gate()
    assert run.line() == "round"
    assert right(run)


def test_a_piece_whose_launch_has_gone_while_it_asked_is_not_moved(
    start: Start, allowed: Daemon, tmp_path: Path
) -> None:
    """Another thread's launch has fetched the memory by page faults."""
    told = tmp_path / "told"
    code = """
def launches_when_told():
    check(cu.cuCtxSetCurrent(buffers.context))
    while not os.path.exists(os.environ["TOLD"]): time.sleep(.001)
    for i in range(3): launch(i, own)
def round():
    if buffers.rounds != 1: return whole()
    other = threading.Thread(target=launches_when_told)
    other.start()
    for i in range(3): launch(3 + i)
    other.join()
    sync()
    buffers.rounds += 1
import time
own, whole = stream(), buffers.go_round
buffers.go_round = round
"""
    run, page = ready(start, allowed, code, TOLD=str(told))
    planned(page, [PlanMove(2, 0, 0, 0, CHUNKS, OUT), PlanMove(2, 5, 0, 0, CHUNKS, IN)])
    rounds(run, 1)
    page.knows_all()
    page.set_u64("copies_ask_from", MIB, 0)
    page.close_gate(60)
    begin_rounds(run, 1)
    for _ in range(3):
        seq = wait_for(lambda: page.u32("waiting") and page.u32("request_seq"), "a launch")
        page.grant()
        wait_for(lambda seq=seq: page.u32("request_seq") != seq, "the next request")
    wait_for(lambda: page.u32("waiting") and page.u32("request_copy") == IN, "the piece")
    before = page.u64("launch_seq")
    page.run(3)
    told.touch()
    wait_for(lambda: page.u64("launch_seq") == before + 3, "launches of the other thread")
    page.grant()
    assert run.line() == "round"
    said = page.moves()
    assert (said["out_bytes"], said["in_bytes"], said["missed_bytes"]) == (BUFFER_BYTES, 0, BUFFER_BYTES)
    assert page.planned() == {"taken": 1, "refused": 0, "carried_out": 1, "skipped": 1}
    page.open_gate()
    assert right(run)


def test_a_goal_goes_before_the_plan(start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed)
    planned(page, cycle())
    rounds(run, 2)
    before = page.planned()
    page.close_gate(60)
    begin_rounds(run, 1)
    goal = page.want(0)
    wait_for(lambda: page.u32("moves.reached") == goal, "the goal")
    assert page.moves()["resident_bytes"] == 0
    assert page.planned() == before
    page.open_gate()
    assert run.line() == "round"
    rounds(run, 2)
    assert page.planned()["carried_out"] > before["carried_out"], "the plan goes on"
    assert right(run)
