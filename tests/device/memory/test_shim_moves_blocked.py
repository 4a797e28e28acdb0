"""A driver that blocks in a move of memory stops the thread that made it, and no other one for longer than a lease, or than the driver itself does."""

from __future__ import annotations

from collections.abc import Callable

from plan_program import BUFFER_BYTES, CHUNKS, ROUNDS, begin_rounds, planned, ready, right, rounds
from shim_daemon import IN, OUT, Daemon, Page, PlanMove, wait_for
from shim_program import Program

pytest_plugins = ["plan_fixtures"]

Start = Callable[..., Program]

BLOCKS = "call=cuMemPrefetchAsync* nth=1 delay=8s"
LEASE_S = 1
# From the round FROM on another thread does all kinds of things for four seconds, and says how long the longest of them took and how often it came round.
OTHER = """
import time
from memory_child import free_async, stream_ordered
own = stream()
kept, given = [], [made(alloc(2 * MIB)) for _ in range(3)]
def late(): check(cu.cuMemFreeAsync(ctypes.c_uint64(made(alloc(2 * MIB))), own))
def runs(): launch(5, own); check(cu.cuStreamSynchronize(own))
WORK = {
    "plain": lambda: check(free(made(alloc(4096)))),
    "converted": lambda: check(free(made(alloc(2 * MIB)))),
    "in order": lambda: check(free_async(made(stream_ordered(2 * MIB)))),
    "late": late,
    "launched": runs,
    "kept": lambda: kept.append(made(alloc(2 * MIB))) if len(kept) < 3 else None,
    "given": lambda: check(free(given.pop())) if given else None,
}
begun = threading.Event()
def others():
    check(cu.cuCtxSetCurrent(buffers.context))
    begun.wait()
    time.sleep(.5)
    longest, count, until = (0, ""), 0, time.monotonic() + 4
    while time.monotonic() < until:
        for name, what in WORK.items():
            began = time.monotonic()
            what()
            longest = max(longest, (time.monotonic() - began, name))
        count += 1
    say(longest[0], count, longest[1])
def round():
    if buffers.rounds == FROM: begun.set()
    for i in range(6): launch(i)
    sync()
    buffers.rounds += 1
buffers.go_round = round
other = threading.Thread(target=others)
other.start()
"""


def goes_on(answer: str) -> None:
    longest, count, _ = answer.split(maxsplit=2)
    assert float(longest) < LEASE_S + 1.5, answer  # a busy machine adds to it
    assert int(count) > 10, "who has waited once does not wait again"


def all_moves(run: Program, page: Page) -> None:
    """Of what went in the meantime nothing is left: to move it would be an error, as it may be of the piece that the driver had just then."""
    before = page.moves()["failures"]
    page.close_gate(60)
    begin_rounds(run, 1)
    goal = page.want(0)
    wait_for(lambda: page.u32("moves.reached") == goal, "the goal")
    said = page.moves()
    assert (said["resident_bytes"], said["failures"]) == (0, before)
    assert before <= 1
    page.open_gate()
    assert run.line() == "round"


def test_beside_a_thread_at_the_gate(start: Start, roomy: Daemon) -> None:
    code = "FROM = 0\n" + OTHER.replace('    "launched": runs,\n', "")  # which would stand at the gate, too
    run, page = ready(start, roomy, code, EMUCUDA_FAULTS=BLOCKS)
    page.close_gate(60)
    goal = page.want(2 * BUFFER_BYTES)
    begin_rounds(run, 1)
    wait_for(lambda: page.u32("waiting"), "the launch")
    goes_on(run.line())
    assert page.u32("moves.reached") != goal, "the first thread is in the driver still"
    wait_for(lambda: page.u32("moves.reached") == goal, "the goal", timeout_s=30)
    page.open_gate()
    assert run.line() == "round"
    all_moves(run, page)
    assert right(run)


def test_beside_a_thread_that_carries_out_a_plan(start: Start, roomy: Daemon) -> None:
    run, page = ready(start, roomy, "FROM = 1\n" + OTHER, EMUCUDA_FAULTS=BLOCKS)
    planned(page, [PlanMove(0, 0, 0, i, CHUNKS, OUT) for i in range(2)])
    rounds(run, 1)
    begin_rounds(run, 1)
    goes_on(run.line())
    assert page.moves()["out_bytes"] == 0, "the first thread is in the driver still"
    assert run.line() == "round"
    assert page.planned()["refused"] == 0
    page.set_u32("plan.number", 0)
    all_moves(run, page)
    assert right(run)


# As an H200's driver: a move away from the GPU on a stream without work is made within the call, .17 s for a buffer, and launches of other threads wait.
WITHIN_THE_CALL = """
[managed]
out_gbps = 0.1
out_blocks = true
[[kernel]]
match = "emu_increment"
base_us = 0
"""
# All is over before the next launch: nothing that the moves behind it could wait for.
ONE_BY_ONE = """
took = []
def round():
    if buffers.rounds == FROM: begun.set()
    for i in range(6):
        began = time.monotonic()
        launch(i % 3)
        took.append(time.monotonic() - began)
        time.sleep(.02)
    sync()
    buffers.rounds += 1
buffers.go_round = round
"""


def test_beside_a_thread_whose_moves_are_made_within_its_calls(start: Start, roomy: Daemon) -> None:
    say_launches = ROUNDS.replace('say("round")', "say(*sorted(took)[-4:])")
    run, page = ready(start, roomy, "FROM = 1\n" + OTHER + ONE_BY_ONE, rounds=say_launches, gpu=WITHIN_THE_CALL)
    there_and_back = [(0, 2, IN), (1, 0, OUT), (3, 5, IN), (4, 0, OUT)]
    planned(page, [PlanMove(after, before, 0, 3, CHUNKS, copy) for after, before, copy in there_and_back])
    begin_rounds(run, 1)  # the plan is noticed at its end
    run.line()
    begin_rounds(run, 12)
    longest = float(run.line().split()[0])
    assert longest < LEASE_S + 1.5, "what a thread waits for in the driver is one move at a time"
    assert min(map(float, run.line().split())) >= BUFFER_BYTES / 0.1e9, "launches behind which moves were made"
    assert page.planned()["refused"] == 0
    assert right(run)
