"""Plans of memory in stream order: moved behind its allocation and before its free, in whatever stream that is; every byte stays right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from host_memory import GPU
from plan_program import (
    AHEAD,
    BUFFER_BYTES,
    BUFFERS,
    CHUNKS,
    FLAG,
    HELD,
    ROUNDS,
    ROUNDS_AND_OTHERS,
    beside,
    cycle,
    planned,
    ready,
    right,
    rounds,
    taken,
    used_first,
)
from shim_daemon import IN, OUT, Daemon, PlanMove
from shim_program import Program

pytest_plugins = ["plan_fixtures"]

Start = Callable[..., Program]
Account = Callable[[], dict[str, Any]]

SLOW = "[copy]\nh2d_gbps = 1\nd2h_gbps = 1\n"  # 16 MiB take 17 ms, eight kernels' time
LATE = 3  # of these buffers: by then the lane has moved others
# Behind the first launch four buffers leave, one behind the other, of which the last one is freed meanwhile.
LEAVE = [PlanMove(0, 0, 0, i, CHUNKS, OUT) for i in range(LATE + 1)]


@pytest.fixture
def start(start_in_order: Start) -> Start:
    def begin(code: str, daemon: Daemon, gpu_mib: int = GPU, more: str = "", **env: str) -> Program:
        return start_in_order(FLAG + code, daemon, gpu_mib, more, **env)

    return begin


def test_a_cycle_through_more_memory_than_there_is_meets_no_fault(
    start: Start, roomy: Daemon, account: Account
) -> None:
    run, page = ready(start, roomy)
    planned(page, cycle())
    rounds(run, 3)
    before, moved = account(), page.moves()
    rounds(run, 4)
    after, said = account(), page.moves()
    assert (after["missed_chunks"], after["evicted_chunks"]) == (before["missed_chunks"], before["evicted_chunks"])
    for ours, device in (("in_bytes", "moved_in_bytes"), ("out_bytes", "moved_out_bytes")):
        assert said[ours] - moved[ours] == after[device] - before[device] == 4 * HELD
    assert page.planned() == {"taken": 1, "refused": 0, "carried_out": 6 * 12, "skipped": 0}
    assert said["resident_bytes"] == after["resident_bytes"] == AHEAD * BUFFER_BYTES
    assert right(run)


FREES = {
    "stream of the launches": "s = stream()\ndef after(): launch(0, s); give(3, s)\n",
    "default stream": "def after(): launch(0); give(3)\n",
    "per-thread default stream": """
def after():
    launch(0, None, "cuLaunchKernel_ptsz")
    check(cu.cuMemFreeAsync_ptsz(ctypes.c_uint64(buffers.at[3]), None))
""",
    "another stream": "s, t = stream(), stream()\ndef after(): launch(0, s); give(3, t)\n",
    "another stream that stands": "s, t = stream(), stream()\ndef after(): launch(0, s); stand(t); give(3, t); go(s)\n",
    "at once": "s = stream()\ndef after(): launch(0, s); check(free(buffers.at[3]))\n",
    "behind launches of two streams": "s, t = stream(), stream()\ndef after(): launch(1, t); launch(0, s); give(3, t)\n",
}


@pytest.mark.parametrize("code", FREES.values(), ids=FREES.keys())
def test_a_free_comes_behind_the_moves_that_are_under_way(
    code: str, start: Start, roomy: Daemon, account: Account
) -> None:
    """What the shim has handed over the device finds: memory that was free by then would not have been moved."""
    ends = """
sync()
say("before")
pause()
sync()
after()
say("freed")
sync()
say("over")
pause()
refill(3)
sync()
"""
    run = start(code + ends + ROUNDS, roomy, 2 * GPU, SLOW)
    page = roomy.page()
    assert run.line() == "before"
    launches = 2 if "launch(1" in code else 1
    planned(page, [move._replace(after=launches - 1) for move in LEAVE], launches=launches)
    run.go()
    assert run.line() == "freed"
    assert run.line() == "over"
    assert page.planned() == {"taken": 1, "refused": 0, "carried_out": len(LEAVE), "skipped": 0}
    assert page.moves()["out_bytes"] == account()["moved_out_bytes"] == len(LEAVE) * BUFFER_BYTES
    page.set_u32("plan.number", 0)
    run.go()
    assert run.line() == "ready"
    assert right(run)


@pytest.mark.parametrize("times", [1, 2], ids=["there alone", "everywhere"])
def test_a_free_that_the_driver_refuses_behind_moves_is_made_as_the_program_said(
    times: int, start: Start, roomy: Daemon
) -> None:
    code = """
s, t = stream(), stream()
sync()
say("before")
pause()
sync()
launch(0, s)
freed, managed = cu.cuMemFreeAsync(ctypes.c_uint64(buffers.at[3]), t), ctypes.c_uint()
sync()
if freed: check(cu.cuPointerGetAttribute(ctypes.byref(managed), 8, ctypes.c_uint64(buffers.at[3])))
say(freed, managed.value)
pause()
if freed == 0: refill(3)
sync()
"""
    rule = f"call=cuMemFreeAsync nth=1 times={times} error=2"
    run = start(code + ROUNDS, roomy, 2 * GPU, SLOW, EMUCUDA_FAULTS=rule)
    page = roomy.page()
    assert run.line() == "before"
    planned(page, LEAVE, launches=1)
    run.go()
    assert run.line() == ("0 0" if times == 1 else "2 0"), "what is not freed is not shown as managed memory either"
    assert page.planned() == {"taken": 1, "refused": 0, "carried_out": len(LEAVE), "skipped": 0}
    page.set_u32("plan.number", 0)
    run.go()
    assert run.line() == "ready"
    assert right(run), "the program has it still where nobody freed it"


TAKES_ANEW = """
s = stream()
def round():
    for i in range(6):
        launch(i, s)
        give(i, s)
        refill(i, s)
    sync()
    kept.clear()
    buffers.rounds += 1
buffers.go_round = round
"""


def test_memory_that_was_freed_has_no_moves_and_the_next_one_of_its_number_has(
    start: Start, roomy: Daemon, account: Account
) -> None:
    """A move that is due behind the free is of what came in its place."""
    run, page = ready(start, roomy, TAKES_ANEW)
    planned(page, cycle())
    rounds(run, 1)
    before, moved = account(), page.moves()
    rounds(run, 4)
    after, said = account(), page.moves()
    planned_moves = page.planned()
    assert (planned_moves["taken"], planned_moves["refused"], planned_moves["skipped"]) == (1, 0, 0)
    assert planned_moves["carried_out"] > 0
    assert after["moved_out_bytes"] - before["moved_out_bytes"] >= said["out_bytes"] - moved["out_bytes"] > 0, (
        "each before its free"
    )
    assert right(run)


CIRCLES = {
    "freed in a stream that the first one stands for": """
def round():
    stand(a); launch(0, a)
    give(3, b); go(b)
    rest(b)
""",
    "freed at once": """
def round():
    stand(a); launch(0, a)
    check(free(buffers.at[3])); go(b)
    rest(b)
""",
    "freed and taken again by the second": """
def round():
    stand(a); launch(0, a)
    give(3, b); refill(3, b); launch(3, b); go(b)
    sync()
    lower()
    buffers.rounds += 1
""",
    "freed by the first, which stands again": """
def round():
    launch(0, a)
    stand(b); launch(1, b)
    give(3, a); go(a)
    rest(a)
""",
}
REST = """
a, b = stream(), stream()
def rest(s):
    sync()
    refill(3, s)
    sync()
    lower()
    kept.clear()
    buffers.rounds += 1
"""


@pytest.mark.parametrize("code", CIRCLES.values(), ids=CIRCLES.keys())
def test_work_that_stands_until_later_work_has_run_goes_on(code: str, start: Start, roomy: Daemon) -> None:
    run = start(REST + code + "buffers.go_round = round\n" + ROUNDS, roomy, 2 * GPU)
    page = roomy.page()
    assert run.line() == "ready"
    launches = code.count("launch(")
    back = [PlanMove(launches - 1, 0, 0, i, CHUNKS, IN) for i in range(LATE)]
    planned(page, [move._replace(after=0) for move in LEAVE] + back, launches=launches)
    rounds(run, 4)
    taken(page)
    assert right(run)


def test_a_launch_waits_for_no_move_behind_a_free_of_a_stream_that_stands_for_it(start: Start, roomy: Daemon) -> None:
    code = """
def round():
    launch(0, a)
    stand(b); give(3, b)
    launch(1, a); launch(2, a); go(a)
    rest(b)
buffers.go_round = round
"""
    run = start(REST + code + ROUNDS, roomy, 2 * GPU, SLOW)
    page = roomy.page()
    assert run.line() == "ready"
    back = [PlanMove(1, 2, 0, 0, CHUNKS, IN), *(PlanMove(2, 0, 0, i, CHUNKS, IN) for i in (1, 2))]
    planned(page, LEAVE + back, launches=3)
    rounds(run, 4)
    taken(page)
    assert right(run)


def test_what_another_stream_has_not_come_to_is_not_moved(start: Start, roomy: Daemon, account: Account) -> None:
    code = """
a, b = stream(), stream()
sync()
say("before")
pause()
sync()
stand(b)
give(3)
sync_a = lambda: check(cu.cuStreamSynchronize(a))
late = made(call("cuMemAllocAsync", ctypes.c_size_t(16 * MIB), b))
launch(0, a)
sync_a()
say("launched")
pause()
go(a)
sync()
launch(0, a)
sync()
say("again")
pause()
check(free_async(late))
refill(3)
sync()
"""
    run = start(code + ROUNDS, roomy, 2 * GPU)
    page = roomy.page()
    assert run.line() == "before"
    planned(page, [PlanMove(0, 0, 0, 3, CHUNKS, OUT)], launches=1)
    run.go()
    assert run.line() == "launched"
    assert page.planned() == {"taken": 1, "refused": 0, "carried_out": 0, "skipped": 1}
    assert page.moves()["out_bytes"] == 0
    run.go()
    assert run.line() == "again"
    assert (page.planned()["carried_out"], page.planned()["skipped"]) == (1, 1)
    assert page.moves()["out_bytes"] == BUFFER_BYTES
    page.set_u32("plan.number", 0)
    run.go()
    assert run.line() == "ready"
    assert right(run)


CHURN = """
s, captured, graph = stream(), stream(), ctypes.c_void_p()
def round():
    for i in range(6):
        launch(i, s)
        if i == 5: check(cu.cuStreamBeginCapture_v2(captured, 2))
        if (i + buffers.rounds) % 2: give(i, s); refill(i, s)
        elif i == 4: sync(); check(free(buffers.at[i])); refill(i, s)
    check(cu.cuStreamEndCapture(captured, ctypes.byref(graph)))
    check(cu.cuGraphDestroy(graph))
    sync()
    kept.clear()
    buffers.rounds += 1
buffers.go_round = round
def ordered(goes_on):
    own = stream()
    while goes_on(): check(cu.cuMemFreeAsync(ctypes.c_uint64(made(call("cuMemAllocAsync", ctypes.c_size_t(2 * MIB), own))), own))
def contexts_with_memory(goes_on): contexts(goes_on, lambda: check(free_async(made(stream_ordered(2 * MIB)))))
"""


def test_frees_streams_contexts_captures_and_forks_in_the_middle(start: Start, roomy: Daemon) -> None:
    code = CHURN + beside("ordered", "streams", "contexts_with_memory", "forks")
    run, page = ready(start, roomy, code, rounds=ROUNDS_AND_OTHERS)
    planned(page, cycle(), uses=used_first({i: range(BUFFERS) for i in range(BUFFERS)}))
    rounds(run, 12)
    said = page.planned()
    assert (said["taken"], said["refused"]) == (1, 0), "what is freed is not moved"
    assert said["carried_out"] > 0
    assert right(run)


CALLS = {
    "stream waits": "call=cuStreamWaitEvent nth=2 times=all error=2",
    "query": "call=cuEventQuery nth=1 times=all error=2",
    "record": "call=cuEventRecord nth=8 times=all error=2",
    "event": "call=cuEventCreate nth=12 times=all error=2",
    "free": "call=cuMemFreeAsync nth=1 times=1 error=2",
}


@pytest.mark.parametrize("where", ["s", "t"], ids=["its own stream", "another stream"])
@pytest.mark.parametrize("rule", CALLS.values(), ids=CALLS.keys())
def test_an_error_of_the_driver_costs_moves_and_no_memory(rule: str, where: str, start: Start, roomy: Daemon) -> None:
    code = f"""
s, t = stream(), stream()
def round():
    for i in range(6): launch(i, s)
    check(cu.cuStreamSynchronize(s))
    freed = cu.cuMemFreeAsync(ctypes.c_uint64(buffers.at[3]), {where})
    sync()
    if freed == 0: refill(3, t)
    sync()
    kept.clear()
    buffers.rounds += 1
buffers.go_round = round
"""
    run, page = ready(start, roomy, code, EMUCUDA_FAULTS=rule)
    planned(page, cycle())
    rounds(run, 5)
    assert page.planned()["refused"] <= 1
    assert right(run)
