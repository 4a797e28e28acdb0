"""What a launch is the first to touch of memory that is in no stream's order: it is brought in the launch's own stream where a plan says so, once, and nowhere
else; every byte stays right, and nobody waits who did not wait before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from anew_program import ANEW, FIRST, LAUNCHES, TAKES, Account, brought, faults, moves
from plan_program import (
    AHEAD,
    BUFFERS,
    CHUNKS,
    FLAG,
    ROUNDS_AND_OTHERS,
    begin_rounds,
    beside,
    planned,
    ready,
    right,
    rounds,
    used_first,
)
from shim_daemon import NONE, Daemon, Page, PlanMove, granting, wait_for
from shim_program import Program

pytest_plugins = ["plan_fixtures"]

Start = Callable[..., Program]

OWN = "s = stream()\nbuffers.go_round = lambda: pass_(s, in_no_order)\n"
STREAMS = {
    "its own stream": OWN,
    "default stream": "buffers.go_round = lambda: pass_(None, in_no_order)\n",
    "per-thread default stream": """
buffers.go_round = lambda: pass_(None, ("cuMemAlloc_v2", "cuLaunchKernel_ptsz", "cuMemFree_v2"))
""",
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
def test_a_launch_finds_what_it_is_the_first_to_touch(
    stream: str, start: Start, roomy: Daemon, account: Account
) -> None:
    run, page = ready(start, roomy, TAKES + stream)
    planned(page, moves(), launches=LAUNCHES)
    rounds(run, 2)
    assert faults(run, account) == BUFFERS * CHUNKS, "each of what comes anew"
    planned(page, moves(), number=2, launches=LAUNCHES, uses=used_first(FIRST))
    rounds(run, 2)
    assert faults(run, account) == BUFFERS, "what the copy before the launch writes to"
    assert brought(run, page) == BUFFERS
    assert page.moves()["resident_bytes"] == AHEAD * CHUNKS * 2 * 2**20, "of what the program has between two rounds"
    assert right(run)


AHEAD_OF_USE = """
s = stream()
def round():
    taken = [take(None, "cuMemAlloc_v2") for _ in range(6)]
    for i in range(6):
        add(taken[i], s, "cuLaunchKernel")
        launch(i, s)
    sync()
    for at in taken: check(free(at))
    buffers.rounds += 1
buffers.go_round = round
"""


def test_what_is_taken_launches_ahead_of_its_use_is_brought_for_it(
    start: Start, roomy: Daemon, account: Account
) -> None:
    """Each launch brings its own: all of it together with the buffers would be more than the GPU has, were it 8 chunks each."""
    small = TAKES.replace(str(CHUNKS * 2 * 2**20), str(2 * 2**20))
    run, page = ready(start, roomy, small + AHEAD_OF_USE)
    first = {2 * i: [ANEW + i] for i in range(BUFFERS)}
    planned(page, moves(), launches=LAUNCHES, uses=used_first(first, chunks=1))
    rounds(run, 2)
    assert faults(run, account) == 0
    assert brought(run, page) == BUFFERS
    assert right(run)


ELSEWHERE = {
    "by the launch behind": {2 * i + 1: [ANEW] for i in range(BUFFERS)},
    "of other memory": {2 * i: [0, ANEW + 1, 4095] for i in range(BUFFERS)},
}


@pytest.mark.parametrize("first", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_what_is_not_new_is_not_brought(first: dict[int, list[int]], start: Start, roomy: Daemon) -> None:
    """Memory that was freed by then, and memory that moves have been made of."""
    run, page = ready(start, roomy, TAKES + OWN)
    planned(page, moves(), launches=LAUNCHES, uses=used_first(first))
    rounds(run, 2)
    assert brought(run, page) == 0
    assert right(run)


def test_what_is_beyond_the_memory_is_not_brought(start: Start, roomy: Daemon) -> None:
    run, page = ready(start, roomy, TAKES + OWN)
    beyond = [PlanMove(0, 2 * i, chunk, ANEW, CHUNKS, NONE) for i in range(BUFFERS) for chunk in (1, 2**32 - 1)]
    planned(page, moves(), launches=LAUNCHES, uses=beyond)
    rounds(run, 2)
    assert brought(run, page) == 0
    assert right(run)


def test_a_plan_that_names_everything_brings_what_was_taken_once(start: Start, roomy: Daemon, account: Account) -> None:
    """Of a fikitd that means ill: all memory by all launches, again and again, as a whole and by the chunk."""
    run, page = ready(start, roomy, TAKES + OWN)
    whole = [PlanMove(0, launch, 0, number, CHUNKS, NONE) for launch in range(LAUNCHES) for number in range(ANEW + 2)]
    chunks = [PlanMove(0, launch, i, ANEW, 1, NONE) for launch in range(LAUNCHES) for i in (3, 6, 3)]
    planned(page, moves(), launches=LAUNCHES, uses=sorted(chunks + whole * 40, key=lambda use: use.before))
    rounds(run, 2)
    assert faults(run, account) == BUFFERS
    assert brought(run, page) == BUFFERS * 5, "chunk 3, chunk 6, and what is before, between and behind them"
    assert right(run)


def rounds_brought(run: Program, page: Page, count: int = 3) -> int:
    """First uses that were brought in so many rounds of a plan without moves."""
    before = page.planned()
    rounds(run, count)
    after = page.planned()
    assert (after["taken"], after["refused"], after["skipped"]) == (before["taken"], 0, before["skipped"])
    return after["carried_out"] - before["carried_out"]


STANDS = {
    "streams": "a, b = stream(), stream()\n",
    "blocking streams": "a, b = stream(0), stream(0)\n",
    "default stream second": "a, b = stream(), None\n",
}


@pytest.mark.parametrize("streams", STANDS.values(), ids=STANDS.keys())
def test_work_that_stands_until_a_launch_with_first_uses_has_run_goes_on(
    streams: str, start: Start, roomy: Daemon
) -> None:
    code = """
def round():
    at = take(None, "cuMemAlloc_v2")
    stand(a); launch(0, a)
    add(at, b, "cuLaunchKernel"); go(b)
    sync()
    lower()
    check(free(at))
    for i in range(1, 6): launch(i)
    sync()
    buffers.rounds += 1
buffers.go_round = round
"""
    run, page = ready(start, roomy, FLAG + TAKES + streams + code)
    planned(page, [], launches=BUFFERS + 1, uses=used_first({1: [ANEW]}))
    rounds(run, 2)
    assert rounds_brought(run, page) == 3
    assert right(run)


def test_nothing_is_brought_while_a_stream_captures(start: Start, roomy: Daemon) -> None:
    """In any stream. For a graph that is launched its first uses are brought."""
    code = """
s, t = stream(), stream()
graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
def round():
    at = take(None, "cuMemAlloc_v2")
    check(cu.cuStreamBeginCapture_v2(t, 0))
    launch(0, t)
    add(at, s, "cuLaunchKernel")
    check(cu.cuStreamEndCapture(t, ctypes.byref(graph)))
    check(cu.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0)))
    sync()
    check(free(at))
    at = take(None, "cuMemAlloc_v2")
    check(cu.cuGraphLaunch(executable, s))
    sync()
    check(free(at))
    check(cu.cuGraphExecDestroy(executable))
    check(cu.cuGraphDestroy(graph))
    buffers.rounds += 1
buffers.go_round = round
"""
    run, page = ready(start, roomy, TAKES + code)
    planned(page, [], launches=2, uses=used_first({0: [ANEW], 1: [ANEW]}))
    rounds(run, 2)
    assert rounds_brought(run, page) == 3, "for the graph"
    assert right(run)


def test_nothing_is_brought_while_a_move_to_a_goal_stands(start: Start, roomy: Daemon) -> None:
    """Nor does the launch bring anything before it has passed the gate."""
    run, page = ready(start, roomy, TAKES + OWN)
    planned(page, [], launches=LAUNCHES, uses=used_first(FIRST))
    rounds(run, 2)
    before = page.planned()["carried_out"]
    page.close_gate(60)
    begin_rounds(run, 1)
    wait_for(lambda: page.u32("waiting"), "launch at the gate")
    assert page.planned()["carried_out"] == before
    page.set_u32("moves.goal", page.u32("moves.reached") + 1)  # which nobody has come to
    page.grant_run(LAUNCHES)
    assert run.line() == "round"
    assert page.planned()["carried_out"] == before
    page.open_gate()
    page.run(0)
    assert rounds_brought(run, page, 1) == BUFFERS, "it stands no longer where the gate is open"
    assert right(run)


def test_a_granted_launch_finds_what_it_is_the_first_to_touch(start: Start, roomy: Daemon) -> None:
    run, page = ready(start, roomy, TAKES + OWN)
    planned(page, [], launches=LAUNCHES, uses=used_first(FIRST))
    rounds(run, 2)
    page.close_gate(60)
    with granting(roomy):
        assert rounds_brought(run, page) == 3 * BUFFERS
    page.open_gate()
    assert right(run)


def test_what_the_driver_refuses_is_counted_and_not_tried_again(start: Start, roomy: Daemon, account: Account) -> None:
    rule = "call=cuMemPrefetchAsync_v2 nth=2 times=1 error=1"
    run, page = ready(start, roomy, TAKES + OWN, EMUCUDA_FAULTS=rule)
    planned(page, [], launches=LAUNCHES, uses=used_first(FIRST))
    rounds(run, 2)
    said = page.planned()
    assert (said["taken"], said["refused"], said["carried_out"], said["skipped"]) == (1, 0, 1, 1)
    assert rounds_brought(run, page) == 0
    planned(page, [], number=2, launches=LAUNCHES, uses=used_first(FIRST))
    rounds(run, 1)
    assert rounds_brought(run, page) == 3 * BUFFERS, "the next plan is another try"
    assert right(run)


@pytest.mark.parametrize(("of_its_own", "count"), [(True, 3), (False, 0)], ids=["its own", "the first one's"])
def test_first_uses_in_another_context_are_of_its_own_memory(
    of_its_own: bool, count: int, start: Start, roomy: Daemon
) -> None:
    """No move of the plan is made in that context. cuMemFree of the other's memory waits for the other's work."""
    code = f"""
def round():
    launch(0)
    first = take(None, "cuMemAlloc_v2")
    sync()
    other = context()
    at = take(None, "cuMemAlloc_v2") if {of_its_own} else first
    module, kernel, word = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint32()
    check(cu.cuModuleLoadData(ctypes.byref(module), PTX))
    check(cu.cuModuleGetFunction(ctypes.byref(kernel), module, b"emu_increment"))
    argument = ctypes.c_uint64(at)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    check(cu.cuMemcpyHtoD_v2(argument, ctypes.byref(word), ctypes.c_size_t(4)))
    check(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, parameters, None))
    check(cu.cuMemcpyDtoH_v2(ctypes.byref(word), argument, ctypes.c_size_t(4)))
    if word.value != 1: say("wrong"); os._exit(1)
    check(cu.cuCtxDestroy_v2(other))
    check(cu.cuCtxSetCurrent(buffers.context))
    check(free(first))
    buffers.rounds += 1
buffers.go_round = round
"""
    run, page = ready(start, roomy, TAKES + code)
    planned(page, [], launches=2, uses=used_first({1: [ANEW + of_its_own]}))
    rounds(run, 2)
    assert rounds_brought(run, page) == count
    assert right(run)


def test_what_was_brought_is_not_freed_before_by_a_stream_that_need_not_come_behind_it(
    start: Start, roomy: Daemon, account: Account
) -> None:
    """A driver that frees such memory in stream order is not asked."""
    code = """
s, t, turns = stream(), stream(), itertools.count()
def freed_in_order(i):
    at = take(None, "cuMemAlloc_v2")
    launch(i, s) # for which it was brought, and which does not use it
    check(cu.cuMemFreeAsync(ctypes.c_uint64(at), t))
def round():
    for i in range(6 if next(turns) else 0): freed_in_order(i)
    sync()
    buffers.rounds += 1
buffers.go_round = round
"""
    run, page = ready(start, roomy, TAKES + code, EMUCUDA_FAULTS="call=cuMemFreeAsync times=all error=719")
    planned(page, [], launches=BUFFERS, uses=used_first({i: [ANEW] for i in range(BUFFERS)}))
    rounds(run, 2)
    assert rounds_brought(run, page) == 3 * BUFFERS
    assert right(run)


def test_memory_that_other_threads_take_and_free_meanwhile_harms_nobody(start: Start, roomy: Daemon) -> None:
    """A plan that names it by each launch: what is freed at that very moment the driver may refuse."""
    run, page = ready(start, roomy, TAKES + OWN + beside("allocations", "contexts", "forks"), rounds=ROUNDS_AND_OTHERS)
    every = used_first({launch: [ANEW, ANEW + 1, ANEW + 2] for launch in range(LAUNCHES)}, chunks=1)

    def taken(number: int) -> bool:
        """In no round in which another context ends all the time."""
        rounds(run, 1)
        return page.planned()["taken"] == number

    for number in range(1, 6):
        planned(page, moves(), number=number, launches=LAUNCHES, uses=every)
        wait_for(partial(taken, number), "plan that is taken")
        rounds(run, 2)
        assert page.planned()["refused"] == 0
    assert right(run)
