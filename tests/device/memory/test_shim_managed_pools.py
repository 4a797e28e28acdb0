"""A job with --fikit-mem-host whose program allocates in stream order: from a managed pool, where the driver has one, and it notices nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from call_recorder import Recorder
from host_memory import GPU, MIB
from shim_daemon import Daemon, Page, touches, wait_for
from shim_program import Program

pytest_plugins = ["memory_fixtures", "host_memory_fixtures"]

StartDaemon = Callable[..., Daemon]
Start = Callable[..., Program]

TOOLS = """
import os
def pattern(i): return bytes((i * 37 + j) % 251 for j in range(251)) * (8 * MIB // 251 + 1)
def fill(p, i): check(cu.cuMemcpyHtoD_v2(ctypes.c_uint64(p), pattern(i)[:8 * MIB], ctypes.c_size_t(8 * MIB)))
def right(p, i):
    out = ctypes.create_string_buffer(8 * MIB)
    check(cu.cuMemcpyDtoH_v2(out, ctypes.c_uint64(p), ctypes.c_size_t(8 * MIB)))
    return out.raw == pattern(i)[:8 * MIB]
def attribute(p, number):
    out = ctypes.c_uint64(0)
    return cu.cuPointerGetAttribute(ctypes.byref(out), number, ctypes.c_uint64(p)), out.value
context()
default = made(call("cuDeviceGetDefaultMemPool", 0))
def number(pool, attribute):
    out = ctypes.c_uint64()
    check(cu.cuMemPoolGetAttribute(ctypes.c_void_p(pool), attribute, ctypes.byref(out)))
    return out.value
def set_number(pool, attribute, value): check(cu.cuMemPoolSetAttribute(ctypes.c_void_p(pool), attribute, ctypes.byref(ctypes.c_uint64(value))))
THRESHOLD, RESERVED, USED, USED_HIGH = 4, 5, 7, 8
"""
TWELVE = "buffers = [made(stream_ordered(8 * MIB)) for _ in range(12)]\nfor i, p in enumerate(buffers): fill(p, i)\n"
ALL_RIGHT = "say(all(right(p, i) for i, p in enumerate(buffers)))\n"


@pytest.fixture
def start(on_gpu: Start, small_gpu: Path) -> Start:
    """A program on that GPU."""
    return lambda code, daemon, **env: on_gpu(TOOLS + code, daemon, **{"EMUCUDA_CONFIG": str(small_gpu), **env})


@pytest.mark.parametrize("how", ["cuMemAllocAsync", "cuMemAllocAsync_ptsz", "from the default pool"])
def test_half_as_much_again_as_the_gpu_has_keeps_every_byte(
    how: str, start: Start, allowed: Daemon, account: Callable[[], dict[str, Any]]
) -> None:
    allocate = f"stream_ordered(8 * MIB, {how!r})"
    if how not in ("cuMemAllocAsync", "cuMemAllocAsync_ptsz"):
        allocate = 'call("cuMemAllocFromPoolAsync", ctypes.c_size_t(8 * MIB), ctypes.c_void_p(default), None)'
    code = TWELVE.replace("stream_ordered(8 * MIB)", allocate)
    run = start(f"{code}{ALL_RIGHT}say(*(n // MIB for n in info()), stream_ordered(MIB)[0])\npause()", allowed)
    assert [run.line(), run.line()] == ["True", "0 96 2"]
    seen = account()
    assert (allowed.memory.held(), allowed.memory.plain()) == (96 * MIB, 0)
    assert (seen["managed_bytes"], seen["resident_bytes"]) == (96 * MIB, GPU * MIB)
    assert seen["evicted_chunks"] > 0
    run.go()
    out, err = run.finish()
    assert (out, err.count("\n")) == ("", 1), err
    assert "out of GPU memory: this job's limit is 48 MiB on the GPU" in err


def test_the_pool_and_its_memory_look_as_the_default_one_and_plain(
    start: Start, daemon: StartDaemon, allowed: Daemon
) -> None:
    code = """
p, q = made(stream_ordered(2 * MIB)), made(alloc(2 * MIB))
say([attribute(p + 4096, a) for a in (2, 4, 8, 9, 12)], attribute(p, 17) == (0, default), attribute(q, 17))
say(number(default, USED) // MIB, number(default, USED_HIGH) // MIB, number(default, RESERVED) // MIB)
set_number(default, THRESHOLD, 2**40)
check(free_async(p))
check(cu.cuCtxSynchronize())
say(number(default, USED), number(default, RESERVED) // MIB)
check(cu.cuMemPoolTrimTo(ctypes.c_void_p(default), ctypes.c_size_t(0)))
say(number(default, RESERVED))
"""
    converted = start(code, allowed).finish()
    plain = start(code, daemon(limit_bytes=GPU * MIB)).finish()
    assert converted == plain
    assert converted[0].splitlines()[1:] == ["2 2 2", "0 2", "0"]


def test_what_the_program_set_before_its_first_allocation_holds(start: Start, allowed: Daemon) -> None:
    code = "set_number(default, THRESHOLD, 2**40)\np = made(stream_ordered(2 * MIB))\ncheck(free_async(p))\ncheck(cu.cuCtxSynchronize())\nsay(number(default, RESERVED) // MIB)"
    assert start(code, allowed).finish() == ("2\n", "")


def test_frees_of_every_kind_give_it_back(start: Start, allowed: Daemon) -> None:
    code = """
a, b = made(stream_ordered(8 * MIB)), made(stream_ordered(8 * MIB))
say(free(a), free(a) != 0, free_async(b), free_async(b) != 0)
pause()
c = made(managed(8 * MIB))
say(attribute(c, 8)[1])
"""
    run = start(code, allowed)
    assert run.line() == "0 True 0 True"
    assert (allowed.memory.held(), allowed.memory.plain()) == (0, 0)
    run.go()
    assert run.finish() == ("1\n", ""), "where the freed memory was is other memory now"


def test_pools_of_the_programs_own_stay_as_they_are(start: Start, allowed: Daemon) -> None:
    code = """
own = made(call("cuMemPoolCreate", ctypes.byref(PoolProperties(type=1, location_type=1))))
check(cu.cuDeviceSetMemPool(0, ctypes.c_void_p(own)))
p = made(stream_ordered(8 * MIB))
say(attribute(p, 17) == (0, own))
pause()
check(cu.cuDeviceSetMemPool(0, ctypes.c_void_p(default)))
q = made(stream_ordered(8 * MIB))
small = made(stream_ordered(4096))
say()
pause()
"""
    run = start(code, allowed)
    assert run.line() == "True"
    assert (allowed.memory.held(), allowed.memory.plain()) == (8 * MIB, 8 * MIB)
    run.go()
    run.line()
    assert (allowed.memory.held(), allowed.memory.plain()) == (16 * MIB + 4096, 8 * MIB + 4096)
    run.go()
    assert run.finish() == ("", "")


def test_a_driver_without_managed_pools_is_said_once_and_its_memory_is_plain(start: Start, allowed: Daemon) -> None:
    code = "p, q = made(stream_ordered(8 * MIB)), made(stream_ordered(8 * MIB))\nfill(p, 1)\nsay(right(p, 1))\npause()"
    run = start(code, allowed, EMUCUDA_FAULTS="call=cuMemPoolCreate error=801")
    assert run.line() == "True"
    assert (allowed.memory.held(), allowed.memory.plain()) == (16 * MIB, 16 * MIB)
    run.go()
    out, err = run.finish()
    said = [line for line in err.splitlines() if line.startswith("fikit: ")]
    assert said == [
        "fikit: what this program allocates in stream order (cuMemAllocAsync) stays on the GPU, and --fikit-mem alone is what it may have of it: "
        "the driver has no pools of managed memory (CUDA 13 has)."
    ]
    assert out == ""


def test_a_limit_of_the_drivers_own_is_its_answer_and_costs_nothing(start: Start, allowed: Daemon) -> None:
    """As MPS's memory limit, or the kernel's for a control group (dmem.max), would make it."""
    code = """
say(alloc(8 * MIB)[0], stream_ordered(8 * MIB)[0])
pause()
say(alloc(8 * MIB)[0], stream_ordered(8 * MIB)[0])
"""
    faults = "call=cuMemAllocManaged nth=1 error=2;call=cuMemAllocFromPoolAsync nth=1 error=2"
    run = start(code, allowed, EMUCUDA_FAULTS=faults)
    assert run.line() == "2 2"
    assert (allowed.memory.held(), allowed.memory.plain(), allowed.memory.peak()) == (0, 0, 0)
    run.go()
    out, err = run.finish()
    assert out == "0 0\n"
    assert "fikit: out of GPU memory" not in err


def test_captures_and_forks_are_as_without(start: Start, allowed: Daemon) -> None:
    code = f"""{TWELVE}
stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
check(cu.cuStreamCreate(ctypes.byref(stream), 1))
check(cu.cuStreamBeginCapture_v2(stream, 0))
say(call("cuMemAllocAsync", ctypes.c_size_t(2 * MIB), stream)[0])
check(cu.cuStreamEndCapture(stream, ctypes.byref(graph)))
child = os.fork()
if child == 0:
    os._exit(0 if stream_ordered(8 * MIB)[0] != 0 and attribute(buffers[0], 8)[0] != 0 else 1)
say(os.waitpid(child, 0)[1])
{ALL_RIGHT}check(free_async(buffers[0]))
say(stream_ordered(8 * MIB)[0])
"""
    assert start(code, allowed).finish() == ("0\n0\nTrue\n0\n", "")


def test_no_capture_of_another_thread_minds_that_the_pool_is_made(  # noqa: PLR0917
    start: Start,
    allowed: Daemon,
    emulator_env: Callable[..., dict[str, str]],
    native: Path,
    cc: Callable[..., Path],
    tmp_path: Path,
) -> None:
    """A driver may count the call among those that a capture in global mode does not bear, except by a thread in relaxed mode."""
    directory, calls = tmp_path / "recorder", tmp_path / "calls"
    directory.mkdir()
    recorder = Recorder(native / "emulator" / "libcuda.so.1", directory, cc)
    env = recorder.environment(emulator_env(), calls)
    recorded = {name: env[name] for name in ("LD_LIBRARY_PATH", "RECORDED_DRIVER", "RECORDED_CALLS")}
    assert start("p = made(stream_ordered(2 * MIB))\nsay(attribute(p, 8)[0])", allowed, **recorded).finish() == (
        "0\n",
        "",
    )
    (made,) = (names for names in recorder.calls(calls, ()) if "cuMemPoolCreate" in names)
    before = made[: made.index("cuMemPoolCreate")]
    assert before.count("cuThreadExchangeStreamCaptureMode") % 2 == 1, "once to relaxed, and not back yet"
    assert made.count("cuThreadExchangeStreamCaptureMode") % 2 == 0


# ---- moved towards a goal at the gate, as other converted memory

GATE = """
PTX = b".version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry k(.param .u64 p) { ret; }\\n\\0"
k = ctypes.c_void_p(made(call("cuModuleGetFunction", ctypes.c_void_p(made(call("cuModuleLoadData", PTX))), b"k")))
none = ctypes.c_uint64(0)
def launch(stream=None, value=none):
    return cu.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, stream, (ctypes.c_void_p * 1)(ctypes.addressof(value)), None)
def at_gate(): say('ready'); pause(); say(launch(ctypes.c_void_p(own)))
own = made(call("cuStreamCreate", 1))
"""
FOUR = "buffers = [made(stream_ordered(8 * MIB)) for _ in range(4)]\nfor i, p in enumerate(buffers): fill(p, i)\n"


def reach(page: Page, resident_bytes: int) -> dict[str, int]:
    goal = page.want(resident_bytes)
    wait_for(lambda: page.u32("moves.reached") == goal, "the goal is reached")
    return page.moves()


def stands_at_gate(run: Program, page: Page) -> None:
    assert run.line() == "ready"
    page.close_gate(60)
    run.go()
    wait_for(lambda: page.u32("waiting"), "a request")


def goes_on(run: Program, page: Page) -> None:
    page.grant()
    assert run.line() == "0"
    page.open_gate()


@pytest.mark.parametrize("how", ["cuMemAllocAsync", "cuMemAllocAsync_ptsz"])
def test_it_leaves_at_the_gate_and_comes_back(
    how: str, start: Start, allowed: Daemon, account: Callable[[], dict[str, Any]]
) -> None:
    code = FOUR.replace("stream_ordered(8 * MIB)", f"stream_ordered(8 * MIB, {how!r})")
    run = start(f"{GATE}{code}check(cu.cuCtxSynchronize())\nat_gate()\n{ALL_RIGHT}", allowed)
    page = allowed.page()
    stands_at_gate(run, page)
    assert (page.u64("moves.movable_bytes"), page.u64("moves.resident_bytes")) == (32 * MIB, 32 * MIB)
    assert (reach(page, 8 * MIB)["resident_bytes"], account()["resident_bytes"]) == (8 * MIB, 8 * MIB)
    back = reach(page, 2**64 - 1)
    assert account()["resident_bytes"] == 32 * MIB
    assert (back["in_bytes"], back["out_bytes"], back["failures"]) == (24 * MIB, 24 * MIB, 0)
    goes_on(run, page)
    assert run.finish() == ("True\n", "")


def test_it_stays_until_its_stream_has_come_to_the_allocation(start: Start, allowed: Daemon) -> None:
    """Before that it is no memory yet, and is not touched."""
    code = f"""{GATE}{FOUR}
import threading
hold = threading.Event()
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: hold.wait())
busy = made(call("cuStreamCreate", 1))
check(cu.cuLaunchHostFunc(ctypes.c_void_p(busy), function, None))
late = made(call("cuMemAllocAsync", ctypes.c_size_t(8 * MIB), ctypes.c_void_p(busy)))
at_gate()
hold.set()
check(cu.cuStreamSynchronize(ctypes.c_void_p(busy)))
at_gate()
{ALL_RIGHT}"""
    run = start(code, allowed)
    page = allowed.page()
    stands_at_gate(run, page)
    part = reach(page, 0)
    assert (part["movable_bytes"], part["resident_bytes"], part["out_bytes"]) == (40 * MIB, 8 * MIB, 32 * MIB)
    goes_on(run, page)
    stands_at_gate(run, page)
    assert reach(page, 0)["resident_bytes"] == 0
    goes_on(run, page)
    assert run.finish() == ("True\n", "")


@pytest.mark.parametrize("free", ["free(p)", "free_async(p)", "free_async(p, 'cuMemFreeAsync_ptsz')"])
def test_what_is_freed_is_moved_no_more(free: str, start: Start, allowed: Daemon) -> None:
    code = f"""{GATE}{FOUR}
for p in buffers[1:3]: check({free})
at_gate()
buffers[1:3] = [made(stream_ordered(8 * MIB)) for _ in range(2)]
for i, p in enumerate(buffers): fill(p, i)
at_gate()
{ALL_RIGHT}"""
    run = start(code, allowed)
    page = allowed.page()
    stands_at_gate(run, page)
    gone = reach(page, 0)
    assert (gone["movable_bytes"], gone["out_bytes"], gone["failures"]) == (16 * MIB, 16 * MIB, 0)
    goes_on(run, page)
    stands_at_gate(run, page)
    assert reach(page, 0)["movable_bytes"] == 32 * MIB
    goes_on(run, page)
    assert run.finish() == ("True\n", "")


def test_what_was_given_back_before_anybody_looked_is_said(start: Start, allowed: Daemon) -> None:
    code = f"""{GATE}{FOUR}
for p in buffers: check(free_async(p))
buffers[:] = [made(stream_ordered(8 * MIB))]
fill(buffers[0], 0)
at_gate()
{ALL_RIGHT}"""
    began_ns = time.monotonic_ns()
    run = start(code, allowed)
    page = allowed.page()
    stands_at_gate(run, page)
    assert (page.u64("moves.movable_bytes"), page.u64("most_movable_bytes")) == (8 * MIB, 32 * MIB)
    assert began_ns < page.u64("most_movable_ns") < time.monotonic_ns()
    goes_on(run, page)
    assert run.finish() == ("True\n", "")


@pytest.mark.parametrize(("call", "movable"), [("cuEventCreate", 0), ("cuEventRecord", 0), ("cuEventQuery", 32)])
def test_where_nobody_can_say_that_it_is_there_it_is_not_moved(
    call: str, movable: int, start: Start, allowed: Daemon
) -> None:
    run = start(f"{GATE}{FOUR}at_gate()\n{ALL_RIGHT}", allowed, EMUCUDA_FAULTS=f"call={call} times=all error=801")
    page = allowed.page()
    stands_at_gate(run, page)
    moves = reach(page, 0)
    assert (moves["movable_bytes"], moves["out_bytes"], moves["failures"]) == (movable * MIB, 0, 0)
    goes_on(run, page)
    out, _ = run.finish()
    assert out == "True\n"


def test_a_free_that_the_driver_refuses_leaves_it_where_it_is(start: Start, allowed: Daemon) -> None:
    code = f"{GATE}{FOUR}at_gate()\nsay(free_async(buffers[0]))\nat_gate()\n{ALL_RIGHT}"
    run = start(code, allowed, EMUCUDA_FAULTS="call=cuMemFreeAsync error=1")
    page = allowed.page()
    stands_at_gate(run, page)
    assert reach(page, 0)["out_bytes"] == 32 * MIB
    goes_on(run, page)
    assert run.line() == "1"
    stands_at_gate(run, page)
    assert reach(page, 2**64 - 1)["in_bytes"] == 24 * MIB
    assert page.u64("moves.movable_bytes") == 24 * MIB
    assert allowed.memory.held() == 32 * MIB
    goes_on(run, page)
    assert run.finish()[0] == "True\n"


def test_contexts_that_end_take_its_marks_along(start: Start, allowed: Daemon) -> None:
    code = f"""{GATE}{FOUR}
other = ctypes.c_void_p()
check(cu.cuCtxCreate_v2(ctypes.byref(other), 0, 0))
p = made(stream_ordered(8 * MIB))
check(free_async(p))
buffers.append(made(stream_ordered(8 * MIB)))
check(cu.cuCtxDestroy_v2(other))
check(cu.cuCtxSetCurrent(first))
at_gate()
{ALL_RIGHT.replace("enumerate(buffers)", "enumerate(buffers[:4])")}"""
    run = start(f"first = ctypes.c_void_p(made(call('cuCtxGetCurrent')))\n{code}", allowed)
    page = allowed.page()
    stands_at_gate(run, page)
    moves = reach(page, 0)
    assert (moves["movable_bytes"], moves["out_bytes"], moves["failures"]) == (40 * MIB, 40 * MIB, 0)
    goes_on(run, page)
    assert run.finish() == ("True\n", "")


def test_a_capture_beside_it_and_a_fork_leave_it_alone(start: Start, allowed: Daemon) -> None:
    """While a stream captures an allocation gets no event, and is not moved later either."""
    code = f"""{GATE}{FOUR}
stream, graph = ctypes.c_void_p(made(call("cuStreamCreate", 1))), ctypes.c_void_p()
check(cu.cuStreamBeginCapture_v2(stream, 0))
buffers.append(made(call("cuMemAllocAsync", ctypes.c_size_t(8 * MIB), ctypes.c_void_p(own))))
check(cu.cuStreamEndCapture(stream, ctypes.byref(graph)))
fill(buffers[4], 4)
if os.fork() == 0:
    os._exit(0)
os.wait()
at_gate()
{ALL_RIGHT}"""
    run = start(code, allowed)
    page = allowed.page()
    stands_at_gate(run, page)
    moves = reach(page, 0)
    assert (moves["movable_bytes"], moves["out_bytes"], moves["failures"]) == (32 * MIB, 32 * MIB, 0)
    goes_on(run, page)
    assert run.finish() == ("True\n", "")


def test_what_kernels_touch_of_it_is_learnt(start: Start, daemon: StartDaemon) -> None:
    sampled = daemon(sample_every=1, limit_bytes=48 * MIB, host_bytes=48 * MIB)
    code = f"{GATE}{FOUR}for i in range(20):\n    check(launch(None, ctypes.c_uint64(buffers[2])))\n    check(cu.cuCtxSynchronize())\n"
    assert start(code, sampled).finish() == ("", "")
    seen = {tuple(places) for _, places in touches(sampled.page())}
    assert ((2, 0, 2048),) in seen
