"""Plans of programs of several streams and threads: a wait that the shim puts somewhere never closes a circle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from plan_program import AHEAD, BUFFERS, CHUNKS, FLAG, ROUNDS, cycle, planned, ready, right, rounds, taken
from shim_daemon import IN, OUT, Daemon, PlanMove
from shim_program import Program

pytest_plugins = ["plan_fixtures"]

Start = Callable[..., Program]
Account = Callable[[], dict[str, Any]]

# Behind the first launch memory leaves and comes that the second one needs: of a program whose first stream stands until the second has run.
STANDS = [PlanMove(0, 0, 0, 0, CHUNKS, OUT), PlanMove(0, 1, 0, 1, CHUNKS, IN), PlanMove(0, 2, 0, 2, CHUNKS, IN)]
STANDS += [PlanMove(1, 0, 0, 3, CHUNKS, OUT), PlanMove(1, 2, 0, 3, CHUNKS, IN)]
REST = """
def rest():
    sync()
    for i in range(2, 6): launch(i)
    sync()
    lower()
    buffers.rounds += 1
"""
CIRCLES = {
    "streams": """
a, b = stream(), stream()
def round():
    stand(a); launch(0, a)
    launch(1, b); go(b)
    rest()
""",
    "blocking streams": """
a, b = stream(0), stream(0)
def round():
    stand(a); launch(0, a)
    launch(1, b); go(b)
    rest()
""",
    "default stream": """
b = stream()
def round():
    stand(None); launch(0)
    launch(1, b); go(b)
    rest()
""",
    "default stream second": """
a = stream()
def round():
    stand(a); launch(0, a)
    launch(1); go(None)
    rest()
""",
    "a stream that is destroyed": """
def round():
    a = stream()
    stand(a); launch(0, a)
    check(cu.cuStreamDestroy_v2(a))
    b = stream()
    launch(1, b); go(b)
    rest()
    check(cu.cuStreamDestroy_v2(b))
""",
    "threads' own streams": """
def first():
    check(cu.cuCtxSetCurrent(buffers.context))
    stand(None, "cuStreamWaitValue32_v2_ptsz"); launch(0, None, "cuLaunchKernel_ptsz")
def second():
    check(cu.cuCtxSetCurrent(buffers.context))
    launch(1, None, "cuLaunchKernel_ptsz"); go(None, "cuStreamWriteValue32_v2_ptsz")
def round():
    for part in (first, second):
        thread = threading.Thread(target=part)
        thread.start()
        thread.join()
    rest()
""",
    "the first stream stops the second": """
a, b = stream(), stream()
def round():
    launch(0, a)
    stand(b); launch(1, b)
    launch(2, a); go(a)
    sync()
    for i in range(3, 6): launch(i)
    sync()
    lower()
    buffers.rounds += 1
""",
    "the first stream again behind the other": """
a, b = stream(), stream()
def round():
    stand(a); launch(0, a)
    launch(1, b); go(b)
    launch(2, a)
    sync()
    for i in range(3, 6): launch(i)
    sync()
    lower()
    buffers.rounds += 1
""",
}


@pytest.mark.parametrize("code", CIRCLES.values(), ids=CIRCLES.keys())
def test_work_that_stands_until_later_work_has_run_goes_on(code: str, start: Start, roomy: Daemon) -> None:
    run, page = ready(start, roomy, FLAG + REST + code + "buffers.go_round = round\n")
    planned(page, STANDS)
    rounds(run, 4)
    taken(page)
    assert right(run)


def test_two_streams_in_turn_have_their_memory_moved(start: Start, allowed: Daemon) -> None:
    """No launch waits; what is late comes by faults."""
    code = """
two = [stream(), stream()]
def round():
    for i in range(6): launch(i, two[i % 2])
    sync()
    buffers.rounds += 1
buffers.go_round = round
"""
    run, page = ready(start, allowed, code)
    planned(page, cycle())
    rounds(run, 6)
    assert page.planned() == {"taken": 1, "refused": 0, "carried_out": 5 * 2 * BUFFERS, "skipped": 0}
    assert right(run)


def test_the_default_stream_is_followed_only_while_others_are_known_to_be_complete(
    start: Start, allowed: Daemon
) -> None:
    code = """
b = stream(0)
def round():
    for i in range(6):
        launch(i)
        if i == 2 and buffers.rounds % 2: launch(2, b)
    check(cu.cuStreamSynchronize(None))
    buffers.rounds += 1
buffers.go_round = round
"""
    run, page = ready(start, allowed, code, rounds=ROUNDS.replace("say(buffers.right())", "say(True)"))
    planned(page, cycle(), launches=6)
    rounds(run, 1)
    said = page.planned()
    rounds(run, 1)
    assert page.planned()["carried_out"] - said["carried_out"] == 4 * 2, (
        "behind three launches and that of the other stream"
    )
    assert right(run)


@pytest.mark.parametrize("own", ["", "_ptsz"], ids=["legacy", "per-thread"])
def test_threads_that_launch_at_the_same_time(own: str, start: Start, allowed: Daemon) -> None:
    code = f"""
def part(which):
    check(cu.cuCtxSetCurrent(buffers.context))
    for _ in range(20):
        for i in range(which, 6, 2): launch(i, None, "cuLaunchKernel{own}")
        check(cu.cuStreamSynchronize{own}(None))
def round():
    threads = [threading.Thread(target=part, args=(n,)) for n in range(2)]
    [t.start() for t in threads]; [t.join() for t in threads]
    buffers.rounds += 20
buffers.go_round = round
"""
    run, page = ready(start, allowed, code)
    planned(page, cycle())
    rounds(run, 3)
    taken(page)
    assert right(run)


def test_a_device_that_is_far_behind_gets_no_more_moves(start: Start, roomy: Daemon) -> None:
    """A driver makes a thread wait whose stream is full, and other threads may be what the stream waits for."""
    code = """
a = stream()
stand(a)
for _ in range(10):
    for i in range(6): launch(i, a)
say("launched")
pause()
b = stream()
go(b)
sync()
buffers.rounds = 10
"""
    moves = [PlanMove(i, 0, chunk, i, 1, OUT) for i in range(BUFFERS) for chunk in range(CHUNKS)]
    moves += [PlanMove(i, (i + AHEAD) % BUFFERS, 0, (i + AHEAD) % BUFFERS, CHUNKS, IN) for i in range(BUFFERS)]
    run = start(FLAG + "say('before'); pause(); sync()\n" + code + ROUNDS, roomy)
    page = roomy.page()
    assert run.line() == "before"
    planned(page, sorted(moves, key=lambda move: move.after))
    run.go()
    assert run.line() == "launched"
    assert page.planned()["carried_out"] == 256, "of 540"
    run.go()
    assert run.line() == "ready"
    rounds(run, 3)
    assert page.planned()["carried_out"] > 256
    assert page.planned()["refused"] == 0
    assert right(run)
