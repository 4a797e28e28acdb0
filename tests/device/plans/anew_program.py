"""A program of plan_program.py's that takes memory anew before each buffer that it uses, and the plan of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plan_program import BUFFERS, CHUNKS, cycle, rounds
from shim_daemon import IN, Page, PlanMove
from shim_program import Program

Account = Callable[[], dict[str, Any]]

ANEW = BUFFERS  # number of the memory that comes and goes
LAUNCHES = 2 * BUFFERS
FIRST = {2 * i: [ANEW] for i in range(BUFFERS)}
# Three buffers and what comes anew are as much as the GPU has.
TAKES = """
import itertools
in_no_order = ("cuMemAlloc_v2", "cuLaunchKernel", "cuMemFree_v2") # which take no stream, and look at none
names = {None: ("cuMemAllocAsync", "cuLaunchKernel", "cuMemFreeAsync")}
per_thread = tuple(f"{name}_ptsz" for name in names[None])
numbers, held = itertools.count(), []
def take(s, name): return made(call(name, ctypes.c_size_t(BYTES), s))
def add(at, s, name):
    argument = ctypes.c_uint64(at)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    check(getattr(cu, name)(buffers.kernel, 1, 1, 1, 1, 1, 1, 0, s, parameters, None))
def copied(call, at, host, s, own): check(getattr(cu, call + ("_ptsz" if own else ""))(*((host, at) if "DtoH" in call else (at, host)), ctypes.c_size_t(4), s))
def anew(s, names, by=None):
    # Taken, used once, given back. by: another stream, of the allocation
    number = next(numbers)
    out, own = ctypes.c_uint32(), names is per_thread
    at = take(by or s, names[0])
    if by: join(by, s)
    word = ctypes.c_uint32(number)
    copied("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(at), ctypes.byref(word), s, own)
    add(at, s, names[1])
    copied("cuMemcpyDtoHAsync_v2", ctypes.c_uint64(at), ctypes.byref(out), s, own)
    check(getattr(cu, names[2])(ctypes.c_uint64(at), s))
    held.append((number, word, out))
event = ctypes.c_void_p(made(call("cuEventCreate", 2)))
def join(a, b):
    check(cu.cuEventRecord(event, a))
    check(cu.cuStreamWaitEvent(b, event, 0))
def pass_(s, names, by=None):
    for i in range(6):
        anew(s, names, by)
        launch(i, s, names[1])
    sync()
    buffers.rounds += 1
    for number, word, out in held:
        if out.value != number + 1: say("wrong"); os._exit(1)
    held.clear()
""".replace("BYTES", str(CHUNKS * 2 * 2**20))


def moves() -> list[PlanMove]:
    """Of the buffers, of which each second launch uses one."""
    return [
        move._replace(after=2 * move.after + 1, before=2 * move.before + 1 if move.copy == IN else 0)
        for move in cycle()
    ]


def faults(run: Program, account: Account, count: int = 3) -> float:
    """Chunks that came by page faults in a round, of so many from now on. Nothing had to leave for any that came."""
    before = account()
    rounds(run, count)
    after = account()
    assert after["evicted_chunks"] == before["evicted_chunks"]
    return (int(after["missed_chunks"]) - int(before["missed_chunks"])) / count


def brought(run: Program, page: Page, count: int = 3) -> float:
    """First uses that were brought in a round, of so many from now on."""
    before = page.planned()
    rounds(run, count)
    after = page.planned()
    assert (after["taken"], after["refused"], after["skipped"]) == (before["taken"], 0, before["skipped"])
    return (after["carried_out"] - before["carried_out"]) / count - len(moves())
