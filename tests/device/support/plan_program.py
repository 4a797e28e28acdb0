"""A program that goes through half as much memory again as its GPU has, round after round, and plans for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from host_memory import MIB
from shim_daemon import IN, NONE, OUT, Daemon, Page, PlanMove
from shim_program import Program

BUFFERS, CHUNKS = 6, 8  # of 16 MiB each, on a GPU of 64 MiB
BUFFER_BYTES = CHUNKS * 2 * MIB
HELD = BUFFERS * BUFFER_BYTES
AHEAD = 3  # launches between the move to the GPU and the use

PROGRAM = f"""
import os, sys, threading
from rotating_child import *
from memory_child import call, free, pause
buffers = Buffers({BUFFERS}, 16)
def launch(i, stream=None, name="cuLaunchKernel"):
    buffers.touched[i] += 1
    argument = ctypes.c_uint64(buffers.at[i])
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    check(getattr(cu, name)(buffers.kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None))
def stream(flags=1): return ctypes.c_void_p(made(call("cuStreamCreate", flags)))
def sync(): check(cu.cuCtxSynchronize())
"""
# The same with buffers in stream order. One that comes back is written anew: a free ends with what was there.
IN_ORDER = f"""
import memory_child, rotating_child
rotating_child.alloc = memory_child.stream_ordered
from memory_child import free_async, stream_ordered
{PROGRAM}
def refill(i, s=None):
    buffers.at[i] = made(call("cuMemAllocAsync", ctypes.c_size_t({BUFFER_BYTES}), s))
    content = bytes(4) + rotating_child.pattern(i, {BUFFER_BYTES} - 4)
    check(cu.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(buffers.at[i]), content, ctypes.c_size_t({BUFFER_BYTES}), s))
    buffers.touched[i] = 0
    kept.append(content)
kept = []
def give(i, s=None): check(cu.cuMemFreeAsync(ctypes.c_uint64(buffers.at[i]), s))
"""
# Rounds as the test says, each answered; then: is all of it right?
ROUNDS = """
say("ready")
for line in iter(sys.stdin.readline, "\\n"):
    for _ in range(int(line)): buffers.go_round()
    say("round")
say(buffers.right())
"""
# The same, where others go on beside them (`beside`), which end before.
ROUNDS_AND_OTHERS = ROUNDS.replace("say(buffers", "others.end()\nsay(buffers")
# A round that is launched into a stream of the program's own.
IN_ITS_STREAM = """
s = stream()
def round():
    for i in range(6): launch(i, s)
    sync()
    buffers.rounds += 1
buffers.go_round = round
"""

# Work may stand until other work has run: the one at stand(), the other one at go().
FLAG = """
flag = made(alloc(4096))
def stand(stream, name="cuStreamWaitValue32_v2"): check(getattr(cu, name)(stream, ctypes.c_uint64(flag), 1, 1))
def go(stream, name="cuStreamWriteValue32_v2"): check(getattr(cu, name)(stream, ctypes.c_uint64(flag), 1, 0))
def lower(): check(cu.cuMemsetD8_v2(ctypes.c_uint64(flag), 0, ctypes.c_size_t(4096)))
lower()
"""


def beside(*what: str) -> str:
    """Code: all the time these go on, each in a thread of its own: functions of churn_child.py, or others that the code before has."""
    return f"""
from churn_child import Others, allocations, contexts, forks, streams
others = Others(buffers.context, {", ".join(what)})
"""


def ready(
    start: Callable[..., Program], daemon: Daemon, code: str = "", *, rounds: str = ROUNDS, **how: str
) -> tuple[Program, Page]:
    """The program, with more code, that goes round as it is told, and its page. how: as the fixture `start` of plan_fixtures.py has it."""
    run = start(code + rounds, daemon, **how)
    page = daemon.page()
    assert run.line() == "ready"
    return run, page


def cycle(order: list[int] | None = None) -> list[PlanMove]:
    """Behind each launch its buffer leaves, and the one comes that is needed some launches later. `order`: which allocation each launch uses."""
    order = order or list(range(BUFFERS))
    moves = []
    for launch, used in enumerate(order):
        coming = (launch + AHEAD) % len(order)
        moves.append(PlanMove(launch, 0, 0, used, CHUNKS, OUT))
        moves.append(PlanMove(launch, coming, 0, order[coming], CHUNKS, IN))
    return moves


def used_first(by: Mapping[int, Iterable[int]], chunks: int = CHUNKS) -> list[PlanMove]:
    """First uses: of which allocations by which launch."""
    return [
        PlanMove(0, launch, 0, number, chunks, NONE) for launch, numbers in sorted(by.items()) for number in numbers
    ]


def planned(page: Page, moves: list[PlanMove], number: int = 1, launches: int = BUFFERS, **how: Any) -> None:
    """A plan whose pass begins with the next launch."""
    page.plan(number, moves, launches, page.u64("launch_seq") + 1, **how)


def begin_rounds(run: Program, count: int) -> None:
    assert run.process.stdin
    run.process.stdin.write(f"{count}\n")
    run.process.stdin.flush()


def rounds(run: Program, count: int) -> None:
    begin_rounds(run, count)
    assert run.line() == "round"


def taken(page: Page) -> None:
    """The plan is carried out, and the driver has refused nothing."""
    said = page.planned()
    assert (said["taken"], said["refused"]) == (1, 0)
    assert said["carried_out"] > 0


def right(run: Program) -> bool:
    """Let the program end; every byte of its memory is what it should be, and the shim has had nothing to say."""
    run.go()
    out, err = run.finish()
    assert "fikit:" not in err, err
    return out == "True\n"
