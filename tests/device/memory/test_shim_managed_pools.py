"""A job with --fikit-mem-host whose program allocates in stream order: from a managed pool, where the driver has one, and it notices nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from host_memory import GPU, MIB
from shim_daemon import Daemon
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
