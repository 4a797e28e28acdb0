"""The thread that launches carries out fikitd's plan of its process's memory: what moves when, what is counted, and what fikitd is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from host_memory import MIB
from plan_program import (
    AHEAD,
    BUFFER_BYTES,
    BUFFERS,
    CHUNKS,
    HELD,
    IN_ITS_STREAM,
    ROUNDS,
    begin_rounds,
    cycle,
    planned,
    ready,
    right,
    rounds,
)
from shim_daemon import GAP, IN, OUT, SAMPLE, Daemon, PlanMove, wait_for
from shim_program import Program

pytest_plugins = ["plan_fixtures"]

Start = Callable[..., Program]
Account = Callable[[], dict[str, Any]]


def no_fault(run: Program, account: Account, count: int = 3) -> None:
    """So many rounds from now on."""
    before = account()
    rounds(run, count)
    after = account()
    assert after["missed_chunks"] == before["missed_chunks"]
    assert after["evicted_chunks"] == before["evicted_chunks"], "nothing had to leave for what came"


def test_a_cycle_through_more_memory_than_there_is_meets_no_fault(
    start: Start, allowed: Daemon, account: Account
) -> None:
    run, page = ready(start, allowed)
    rounds(run, 2)
    assert account()["missed_chunks"] >= 2 * BUFFERS * CHUNKS, "without a plan everything misses"
    planned(page, cycle())
    rounds(run, 1)  # the plan is noticed at its end
    assert page.planned()["taken"] == 1
    rounds(run, 2)
    before, moved = account(), page.moves()
    no_fault(run, account, 4)
    after, said = account(), page.moves()
    for ours, device in (("in_bytes", "moved_in_bytes"), ("out_bytes", "moved_out_bytes")):
        assert said[ours] - moved[ours] == after[device] - before[device] == 4 * HELD
    assert page.planned() == {"taken": 1, "refused": 0, "carried_out": 6 * 12, "skipped": 0}
    assert said["resident_bytes"] == after["resident_bytes"] == AHEAD * BUFFER_BYTES
    assert said["missed_bytes"] == 0
    assert right(run)


@pytest.mark.parametrize(("inward", "out"), [(2, 6), (20, 4)])
def test_what_moves_take_is_timed_by_the_device_in_each_direction(
    start: Start, allowed: Daemon, inward: int, out: int
) -> None:
    run, page = ready(start, allowed, gpu=f"[copy]\nh2d_gbps = {inward}\nd2h_gbps = {out}\n")
    planned(page, cycle())
    rounds(run, 1)
    assert (page.u64("moves_per_s", 0), page.u64("moves_per_s", 1), page.u64("plan.bytes_per_s")) == (0, 0, 0)
    rounds(run, 40)  # the first moves meet page faults
    assert page.u64("moves_per_s", 0) == pytest.approx(inward * 1e9, rel=0.3)
    assert page.u64("moves_per_s", 1) == pytest.approx(out * 1e9, rel=0.3)
    assert page.u64("plan.bytes_per_s") == pytest.approx(2e9 / (1 / inward + 1 / out), rel=0.3)


SLOW_AT_FIRST = "[managed]\nin_gbps = 20\nout_gbps = 8\nfirst_out_gbps = 1\n"
ALL_ANEW = f"""
def round():
    for i in range({BUFFERS}): launch(i)
    sync()
    for i in range({BUFFERS}):
        check(free(buffers.at[i]))
        buffers.at[i] = made(call("cuMemAlloc_v2", ctypes.c_size_t({BUFFER_BYTES})))
buffers.go_round = round
"""


def test_first_moves_of_memory_out_tell_no_rate_before_all_memory_is_seen_to_be_taken_anew(
    start: Start, allowed: Daemon
) -> None:
    run, page = ready(start, allowed, ALL_ANEW, gpu=SLOW_AT_FIRST.replace("first_out_gbps = 1", "first_out_gbps = 3"))
    planned(page, cycle())
    rounds(run, 30)
    assert page.u64("moves_per_s", 1) == 0, "it may still come to move memory again"
    rounds(run, 90)
    assert page.u64("moves_per_s", 1) == pytest.approx(3e9, rel=0.4)


def test_a_plan_is_noticed_where_a_launch_is_timed_too(start: Start, daemon: Callable[..., Daemon]) -> None:
    """A program that never waits."""
    timing = daemon(limit_bytes=48 * MIB, host_bytes=48 * MIB, sample_every=1)
    run = start(
        "say('ready')\npause()\nfor _ in range(40):\n  for i in range(6): launch(i)\nsay('launched')\npause()", timing
    )
    page = timing.page()
    assert run.line() == "ready"
    planned(page, cycle())
    run.go()
    assert run.line() == "launched"
    assert page.planned()["taken"] == 1
    assert page.planned()["carried_out"] > 0
    run.go()
    run.finish()


def test_launches_of_a_stream_wait_for_their_memory_on_the_device(
    start: Start, allowed: Daemon, account: Account
) -> None:
    """Moves that take longer than the kernels: without the wait each kernel would find its memory half there."""
    run, page = ready(start, allowed, IN_ITS_STREAM)
    one_ahead = [PlanMove(i, 0, 0, i, CHUNKS, OUT) for i in range(BUFFERS)]
    one_ahead += [PlanMove(i, (i + 1) % BUFFERS, 0, (i + 1) % BUFFERS, CHUNKS, IN) for i in range(BUFFERS)]
    planned(page, sorted(one_ahead, key=lambda move: (move.after, -move.copy)))
    rounds(run, 2)
    no_fault(run, account)
    assert page.planned()["skipped"] == 0
    assert right(run)


def test_a_host_that_is_a_whole_pass_ahead_leaves_no_move_out(start: Start, allowed: Daemon) -> None:
    """A training step is handed over at once, with all of its moves; several of them are timed at a time."""
    run, page = ready(start, allowed, gpu="[copy]\nh2d_gbps = 20\nd2h_gbps = 20\n")
    moves = []
    for i in range(BUFFERS):
        moves += [PlanMove(i, 0, chunk, i, 1, OUT) for chunk in range(CHUNKS)]
        moves += 3 * [PlanMove(i, (i + 1) % BUFFERS, chunk, (i + 1) % BUFFERS, 1, IN) for chunk in range(CHUNKS)]
    assert len(moves) > 150
    planned(page, moves)
    rounds(run, 3)
    assert page.planned()["taken"] == 1
    assert page.planned()["skipped"] == 0
    rounds(run, 12)
    assert page.u64("plan.bytes_per_s") == pytest.approx(20e9, rel=0.3), "four moves of a pass, once it is over"
    assert right(run)


def test_pieces_of_an_allocation_move_by_themselves(start: Start, roomy: Daemon) -> None:
    """The last chunk of an allocation is shorter than others."""
    code = "odd = made(alloc(5 * MIB + 4096))\nsay('odd')\npause()\n" + ROUNDS
    run = start(code, roomy)
    page = roomy.page()
    assert run.line() == "odd"
    resident = page.moves()["resident_bytes"]
    run.go()
    assert run.line() == "ready"
    odd = BUFFERS  # its number
    moves = [PlanMove(0, 0, 1, odd, 2, OUT), PlanMove(1, 0, 0, odd, 1, OUT), PlanMove(2, 4, 2, odd, 1, IN)]
    planned(page, moves)
    rounds(run, 1)
    rounds(run, 1)
    assert page.planned() == {"taken": 1, "refused": 0, "carried_out": 3, "skipped": 0}
    said = page.moves()
    assert (said["out_bytes"], said["in_bytes"]) == (5 * MIB + 4096, MIB + 4096)
    assert said["resident_bytes"] == resident - 4 * MIB
    page.plan(0, [], 1)
    page.close_gate(60)
    begin_rounds(run, 1)
    goal = page.want(2**64 - 1)
    wait_for(lambda: page.u32("moves.reached") == goal, "the goal")
    assert page.moves()["in_bytes"] == 5 * MIB + 4096, "what a plan has left out comes back for a goal"
    page.open_gate()
    assert run.line() == "round"
    assert right(run)


def test_what_is_out_does_not_leave_again_and_what_is_in_counts_as_nothing(start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed)
    moves = [
        PlanMove(0, 0, 0, 0, 4, OUT),
        PlanMove(0, 0, 0, 0, 4, OUT),
        PlanMove(1, 3, 0, 0, 8, IN),
        PlanMove(2, 4, 0, 0, 8, IN),
    ]
    planned(page, moves)
    rounds(run, 1)
    rounds(run, 2)
    said = page.moves()
    assert (said["out_bytes"], said["in_bytes"]) == (2 * BUFFER_BYTES // 2, 2 * BUFFER_BYTES // 2)
    assert page.planned()["carried_out"] == 2 * 3, "the second OUT is nothing, the second IN is handed over"
    assert right(run)


def test_moves_that_nobody_came_by_for_are_skipped_and_counted(start: Start, allowed: Daemon, account: Account) -> None:
    """A capture goes on for a whole round: nothing moves, and the plan goes on behind it."""
    code = """
s, graph = stream(), ctypes.c_void_p()
whole = buffers.go_round
def round():
    if buffers.rounds != 4: return whole()
    check(cu.cuStreamBeginCapture_v2(s, 2))
    for i in range(6): launch(i)
    check(cu.cuStreamEndCapture(s, ctypes.byref(graph)))
    sync()
    buffers.rounds += 1
buffers.go_round = round
"""
    run, page = ready(start, allowed, code)
    planned(page, cycle())
    rounds(run, 4)
    before, moved = page.planned(), page.moves()
    rounds(run, 1)
    assert page.planned() == before, "nothing moved while a stream captured"
    rounds(run, 1)
    after, said = page.planned(), page.moves()
    assert 6 <= after["skipped"] - before["skipped"] <= 18
    assert 0 < said["missed_bytes"] - moved["missed_bytes"] <= 2 * HELD
    rounds(run, 1)
    no_fault(run, account)
    assert page.planned()["skipped"] == after["skipped"]
    assert right(run)


def test_memory_whose_move_was_skipped_counts_as_there_and_leaves_again(start: Start, allowed: Daemon) -> None:
    """Its launch has found it by faults."""
    code = """
s, graph = stream(), ctypes.c_void_p()
def round():
    for i, used in enumerate([1, 2, 3, 0, 4, 5]):
        if buffers.rounds == 2 and i == 2: check(cu.cuStreamBeginCapture_v2(s, 2))
        launch(used)
        if buffers.rounds == 2 and i == 3: check(cu.cuStreamEndCapture(s, ctypes.byref(graph)))
    sync()
    buffers.rounds += 1
buffers.go_round = round
"""
    run, page = ready(start, allowed, code)
    planned(page, [PlanMove(0, 0, 0, 0, CHUNKS, OUT), PlanMove(2, 3, 0, 0, CHUNKS, IN)])
    rounds(run, 2)
    rounds(run, 1)
    said = page.moves()
    assert (said["out_bytes"], said["in_bytes"], said["missed_bytes"]) == (2 * BUFFER_BYTES, BUFFER_BYTES, BUFFER_BYTES)
    assert said["resident_bytes"] == HELD
    assert page.planned()["skipped"] == 1
    rounds(run, 1)
    said = page.moves()
    assert (said["out_bytes"], said["in_bytes"]) == (3 * BUFFER_BYTES, 2 * BUFFER_BYTES)
    assert right(run)


def test_what_is_timed_is_the_kernel_and_what_is_idle_the_programs_own(
    start: Start, daemon: Callable[..., Daemon]
) -> None:
    """A launch waits for a move of 16 ms, which is neither."""
    measured = daemon(limit_bytes=48 * MIB, host_bytes=48 * MIB, measure=True)
    run, page = ready(start, measured, IN_ITS_STREAM, gpu="[copy]\nh2d_gbps = 1\n")
    planned(
        page,
        [
            move
            for i in range(BUFFERS)
            for move in (PlanMove(i, 0, 0, i, 8, OUT), PlanMove(i, (i + 1) % 6, 0, (i + 1) % 6, 8, IN))
        ],
    )
    rounds(run, 2)
    before = len(page.ring())
    rounds(run, 2)
    new = page.ring()[before:]
    samples = [each.value for each in new if each.kind == SAMPLE]
    assert len(samples) >= BUFFERS
    assert all(1_900_000 < each < 4_000_000 for each in samples), samples
    assert not [each for each in new if each.kind == GAP]
    assert right(run)


def test_a_plan_that_ends_is_no_longer_carried_out(start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed)
    planned(page, cycle())
    rounds(run, 3)
    page.plan_until(0)
    rounds(run, 1)
    after = page.planned()
    assert after["taken"] == 0
    rounds(run, 2)
    assert page.planned() == after
    page.plan_until(60)  # fikitd renews it
    rounds(run, 2)
    assert page.planned()["taken"] == 1
    assert page.planned()["carried_out"] > after["carried_out"]
    page.set_u32("plan.number", 0)
    rounds(run, 1)
    after = page.planned()
    assert after["taken"] == 0
    rounds(run, 2)
    assert page.planned() == after
    assert right(run)


def test_a_plan_that_is_replaced_goes_on_with_the_other_one(start: Start, allowed: Daemon, account: Account) -> None:
    run, page = ready(start, allowed)
    planned(page, cycle()[::2])  # all of it leaves, nothing comes
    rounds(run, 2)
    planned(page, cycle(), number=7)
    rounds(run, 2)
    assert page.planned()["taken"] == 7
    rounds(run, 1)
    no_fault(run, account)
    assert right(run)


@pytest.mark.parametrize("what", ["graph", "fill"])
def test_launches_that_are_no_kernels_count_as_the_others(
    what: str, start: Start, daemon: Callable[..., Daemon], account: Account
) -> None:
    code = {
        "graph": """
s, graph, exec = stream(), ctypes.c_void_p(), ctypes.c_void_p()
check(cu.cuStreamBeginCapture_v2(s, 2))
launch(3, s)
check(cu.cuStreamEndCapture(s, ctypes.byref(graph)))
check(cu.cuGraphInstantiateWithFlags(ctypes.byref(exec), graph, ctypes.c_ulonglong(0)))
def third(): check(cu.cuGraphLaunch(exec, None))
""",
        "fill": """
def third():
    check(cu.cuMemsetD8Async(ctypes.c_uint64(buffers.at[3]), buffers.rounds + 1, ctypes.c_size_t(1), None))
""",
    }[what]
    code += """
def round():
    for i in range(6): third() if i == 3 else launch(i)
    sync()
    buffers.rounds += 1
    buffers.touched[3] = buffers.rounds
buffers.go_round = round
"""
    fills = daemon(limit_bytes=48 * MIB, host_bytes=48 * MIB, fills_ask=True)
    run, page = ready(start, fills, code)
    planned(page, cycle())
    rounds(run, 3)
    no_fault(run, account)
    assert page.planned()["skipped"] == 0
    assert right(run)
