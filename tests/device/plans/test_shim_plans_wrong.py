"""Plans that are wrong in every way, and programs that do what no plan expects: moves are wrong or are not made, every byte stays right."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from plan_program import (
    BUFFERS,
    CHUNKS,
    HELD,
    ROUNDS,
    ROUNDS_AND_OTHERS,
    begin_rounds,
    beside,
    cycle,
    planned,
    ready,
    right,
    rounds,
    taken,
)
from shim_daemon import IN, NONE, OUT, Daemon, PlanMove
from shim_program import Program

pytest_plugins = ["plan_fixtures"]

Start = Callable[..., Program]

MOST_MOVES, MOST_LAUNCHES, NUMBERS = 8192, 16384, 4096  # FIKIT_PLAN_MOVES, FIKIT_PLAN_LAUNCHES, FIKIT_TOUCH_ALLOCATIONS
GOOD = PlanMove(0, 1, 0, 0, CHUNKS, IN)
USE = PlanMove(0, 0, 0, 0, CHUNKS, NONE)


def random_plan(seed: int) -> list[PlanMove]:
    """What no rule has made, of moves that are each in order."""
    dice = random.Random(seed)
    moves = []
    for after in sorted(dice.randrange(BUFFERS) for _ in range(200)):
        chunk = dice.randrange(CHUNKS)
        piece = chunk, dice.randrange(BUFFERS + 2), dice.randint(1, CHUNKS), dice.choice((IN, OUT))
        moves.append(PlanMove(after, dice.randrange(BUFFERS), *piece))
    return moves


@pytest.mark.parametrize(
    "moves",
    [
        cycle([3, 4, 5, 0, 1, 2]),
        cycle([5, 4, 3, 2, 1, 0]),
        cycle([7, 100, NUMBERS - 1, 0, 1, 2]),
        [PlanMove(i, i, 0, i, CHUNKS, IN) for i in range(BUFFERS)],
        [PlanMove(0, 0, 0, i % BUFFERS, CHUNKS, OUT if i % 2 else IN) for i in range(400)],
        [PlanMove(5, 0, chunk, 0, 1, OUT) for chunk in (0, CHUNKS, 2**32 - 1)],
        [PlanMove(0, 1, 1, 0, CHUNKS, IN), PlanMove(0, 1, 0, 0, 32, IN)],
        [],
        *(random_plan(seed) for seed in range(3)),
    ],
    ids=["phase", "order", "allocations", "before = after", "many", "beyond", "too long", "none", "any 0", "any 1", "any 2"],
)  # fmt: skip
def test_a_plan_of_another_program_costs_time_alone(moves: list[PlanMove], start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed)
    planned(page, moves)
    rounds(run, 5)
    assert page.planned()["taken"] == 1
    assert page.planned()["refused"] == 0
    assert page.moves()["resident_bytes"] <= HELD
    assert right(run)


@pytest.mark.parametrize(
    "how",
    [
        {"moves": [GOOD._replace(after=1), GOOD]},
        {"moves": [GOOD._replace(after=BUFFERS)]},
        {"moves": [GOOD._replace(before=BUFFERS)]},
        {"moves": [GOOD._replace(chunks=0)]},
        {"moves": [GOOD._replace(chunks=33)]},
        {"moves": [GOOD._replace(copy=0)]},
        {"moves": [GOOD._replace(copy=3)]},
        {"moves": [GOOD._replace(allocation=NUMBERS)]},
        {"count": MOST_MOVES + 1},
        {"count": 2**32 - 1},
        {"first_uses": MOST_MOVES},
        {"first_uses": 2**32 - 1},
        {"uses": [GOOD]},
        {"uses": [USE._replace(before=1), USE]},
        {"uses": [USE._replace(before=BUFFERS)]},
        {"uses": [USE._replace(chunks=0)]},
        {"uses": [USE._replace(chunks=33)]},
        {"uses": [USE._replace(allocation=NUMBERS)]},
        {"launches": 0},
        {"launches": MOST_LAUNCHES + 1},
        {"first": 0},
        {"first": 2**64 - 1},
    ],
    ids=str,
)
def test_a_plan_that_makes_no_sense_is_not_taken(how: dict[str, Any], start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed)
    planned(page, cycle())
    rounds(run, 2)
    page.set_u32("plan.number", 0)
    rounds(run, 1)
    said = page.planned()
    page.plan(2, how.get("moves", cycle()), how.get("launches", BUFFERS), how.get("first", 1), uses=how.get("uses", ()))
    for word in {"count", "first_uses"} & how.keys():
        page.set_u32(f"plan.{word}", how[word])
    rounds(run, 2)
    assert page.planned() == said | {"taken": 0}
    planned(page, cycle(), number=3)
    rounds(run, 2)
    assert page.planned()["taken"] == 3, "a later one is"
    assert right(run)


def test_a_move_of_what_is_no_memory_is_skipped(start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed)
    moves = [PlanMove(0, 1, 1, 0, CHUNKS, IN), PlanMove(1, 0, CHUNKS, 0, 1, OUT), PlanMove(2, 0, 0, 100, 1, OUT)]
    planned(page, [*moves, PlanMove(3, 5, CHUNKS - 1, 0, 32, IN), PlanMove(4, 0, 2**32 - 1, 0, 32, OUT)])
    rounds(run, 1)
    rounds(run, 2)
    assert page.planned() == {"taken": 1, "refused": 0, "carried_out": 0, "skipped": 2 * 5}
    assert right(run)


FREES = """
whole = buffers.go_round
other = []
def round():
    whole()
    if buffers.rounds == 3:
        check(free(buffers.at[2]))
        buffers.at[2] = buffers.at[1]
        other.append(made(alloc(12 * MIB)))  # of another size: the number stays free
    if buffers.rounds == 6: buffers.at[2] = made(alloc(16 * MIB))
buffers.go_round = round
def right(): return all(cu.cuMemcpyDtoH_v2(ctypes.create_string_buffer(4), ctypes.c_uint64(p), ctypes.c_size_t(4)) == 0 for p in buffers.at)
buffers.right = right
"""


def test_memory_that_was_freed_has_no_moves_until_it_is_back(start: Start, roomy: Daemon) -> None:
    run, page = ready(start, roomy, FREES)
    planned(page, cycle())
    rounds(run, 3)
    assert page.planned()["skipped"] == 0
    rounds(run, 3)
    gone = page.planned()["skipped"]
    assert gone == 3 * 2, "two moves in each pass"
    rounds(run, 3)
    assert page.planned()["refused"] == 0
    assert page.planned()["skipped"] == gone, "whoever has the number now has the moves"
    assert right(run)


def test_frees_streams_contexts_that_end_and_forks_in_the_middle(start: Start, roomy: Daemon) -> None:
    run, page = ready(start, roomy, beside("allocations", "streams", "contexts", "forks"), rounds=ROUNDS_AND_OTHERS)
    planned(page, cycle())
    rounds(run, 40)
    assert page.planned()["taken"] == 1
    assert page.planned()["refused"] == 0, "what is freed is not moved"
    assert page.planned()["carried_out"] > 0
    assert right(run)


# In the middle of a round, with moves under way, the context ends and another one takes its place.
NEW_CONTEXT = """
go_round = Buffers.go_round
def anew(own):
    global buffers
    if own.rounds == 3:
        launch(0)
        check(cu.cuCtxDestroy_v2(own.context))
        buffers = Buffers(6, 16)
    go_round(buffers)
Buffers.go_round = anew
"""


def test_a_context_that_ends_takes_its_stream_of_moves_along(start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed, NEW_CONTEXT)
    planned(page, cycle())
    rounds(run, 3)
    assert page.planned()["taken"] == 1
    rounds(run, 1)
    assert page.planned()["taken"] == 1, "noticed again, in the new context"
    before = page.planned()
    rounds(run, 3)
    assert page.planned()["refused"] == 0
    assert page.planned()["carried_out"] > before["carried_out"]
    assert right(run)


def test_a_child_of_a_fork_moves_nothing_and_leaves_its_parents_page(start: Start, allowed: Daemon) -> None:
    code = """
launch(0)  # moves are due behind it
child = os.fork()
if child == 0:
    os._exit(0 if cu.cuCtxSynchronize() != 0 else 1)
check(os.waitpid(child, 0)[1])
sync()
buffers.rounds = 0
for i in range(1, 6): launch(i)
sync()
buffers.rounds = 1
"""
    run = start("say('before'); pause(); sync()\n" + code + ROUNDS, allowed)
    page = allowed.page()
    assert run.line() == "before"
    planned(page, cycle())
    run.go()
    assert run.line() == "ready"
    assert page.planned() == {"taken": 1, "refused": 0, "carried_out": 12, "skipped": 0}
    assert right(run)


CALLS = {
    "stream": "call=cuStreamCreate nth=1 times=all error=2",
    "first events": "call=cuEventCreate nth=1 times=all error=2",
    "later events": "call=cuEventCreate nth=5 times=all error=2",
    "record behind a launch": "call=cuEventRecord nth=1 times=all error=2",
    "record behind a move": "call=cuEventRecord nth=2 times=all error=2",
    "another record": "call=cuEventRecord nth=6 times=all error=2",
    "lane waits": "call=cuStreamWaitEvent nth=1 times=all error=2",
    "launch waits": "call=cuStreamWaitEvent nth=4 times=all error=2",
    "prefetch": "call=cuMemPrefetchAsync* nth=3 times=all error=1",
    "one prefetch": "call=cuMemPrefetchAsync* nth=3 times=1 error=1",
}


@pytest.mark.parametrize("rule", CALLS.values(), ids=CALLS.keys())
def test_an_error_of_the_driver_drops_the_plan_and_nothing_else(rule: str, start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed, EMUCUDA_FAULTS=rule)
    planned(page, cycle())
    rounds(run, 5)
    said = page.planned()
    assert (said["taken"], said["refused"]) == (0, 1)
    rounds(run, 2)
    assert page.planned() == said, "it is not tried again"
    if "times=1" in rule:
        planned(page, cycle(), number=2)
        rounds(run, 3)
        assert page.planned()["taken"] == 2, "another one is"
        assert page.planned()["carried_out"] > said["carried_out"]
    assert right(run)


def test_what_was_made_before_the_driver_refused_is_not_used_in_the_next_context(start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed, NEW_CONTEXT, EMUCUDA_FAULTS="call=cuEventCreate nth=2 times=1 error=2")
    planned(page, cycle())
    rounds(run, 3)
    assert page.planned()["refused"] == 1
    rounds(run, 1)
    planned(page, cycle(), number=2)
    rounds(run, 3)
    said = page.planned()
    assert (said["taken"], said["refused"]) == (2, 1)
    assert said["carried_out"] > 0
    assert right(run)


@pytest.mark.parametrize("launches", [2**64 - 40, 2**64 - 8, 2**63, 2**62 + 1])
def test_who_counts_launches_for_the_program_has_no_plan(launches: int, start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed)
    planned(page, cycle())
    rounds(run, 2)
    page.set_u64("launch_seq", launches)
    said = page.planned()
    rounds(run, 1)
    assert page.planned() == said, "nothing is due, or ever was"
    rounds(run, 7)
    page.set_u64("launch_seq", launches)
    page.plan(2, cycle(), BUFFERS, 1)
    rounds(run, 2)
    assert page.planned()["refused"] == 0
    assert right(run)


def test_behind_a_stream_of_another_context_nothing_moves(start: Start, allowed: Daemon) -> None:
    code = """
other = ctypes.c_void_p()
check(cu.cuCtxCreate_v2(ctypes.byref(other), 0, 0))
elsewhere = stream()
check(cu.cuCtxSetCurrent(buffers.context))
def round():
    for i in range(6): launch(i, elsewhere if buffers.rounds % 2 else None)
    sync()
    check(cu.cuStreamSynchronize(elsewhere))
    buffers.rounds += 1
buffers.go_round = round
"""
    run, page = ready(start, allowed, code)
    planned(page, cycle())
    rounds(run, 6)
    taken(page)
    assert right(run)


def test_a_lane_that_says_no_more_drops_the_plan(start: Start, allowed: Daemon) -> None:
    """Two streams: each time the shim asks whether the moves before are over."""
    code = """
two = [stream(), stream()]
def round():
    for i in range(6): launch(i, two[i % 2]); check(cu.cuStreamSynchronize(two[i % 2]))
    buffers.rounds += 1
buffers.go_round = round
"""
    run, page = ready(start, allowed, code, EMUCUDA_FAULTS="call=cuStreamQuery nth=1 times=all error=2")
    planned(page, cycle())
    rounds(run, 3)
    assert page.planned()["refused"] == 1
    assert right(run)


def test_a_fikitd_that_is_killed_leaves_a_plan_that_ends(start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed)
    planned(page, cycle(), until_s=60)
    rounds(run, 2)
    begin_rounds(run, 3)
    allowed.stop()
    assert run.line() == "round"
    page.plan_until(0)
    rounds(run, 1)
    said = page.planned()
    rounds(run, 2)
    assert page.planned() == said
    run.go()
    out, err = run.finish()
    assert out == "True\n"
    assert err.count("\n") <= 1


UNTIMED = {
    "event": "call=cuEventCreate nth=4 times=1 error=2",
    "record before the move": "call=cuEventRecord nth=2 times=1 error=2",
    "record behind it": "call=cuEventRecord nth=3 times=1 error=2",
    "query": "call=cuEventQuery nth=1 times=all error=2",
    "elapsed": "call=cuEventElapsedTime nth=1 times=all error=2",
}


@pytest.mark.parametrize("rule", UNTIMED.values(), ids=UNTIMED.keys())
def test_a_move_that_the_driver_does_not_time_is_made_all_the_same(rule: str, start: Start, allowed: Daemon) -> None:
    run, page = ready(start, allowed, EMUCUDA_FAULTS=rule)
    planned(page, cycle())
    rounds(run, 6)
    assert page.planned() == {"taken": 1, "refused": 0, "carried_out": 5 * 12, "skipped": 0}
    if "times=1" in rule:
        rounds(run, 40)
    assert (page.u64("plan.bytes_per_s") == 0) == ("times=all" in rule), "others are timed, where they can be"
    assert right(run)
