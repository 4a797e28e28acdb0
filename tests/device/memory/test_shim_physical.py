"""Physical memory (cuMemCreate) on the emulated GPU: it is held as long as a handle or a mapping of it is there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from shim_daemon import Daemon
from shim_program import Program

pytest_plugins = ["memory_fixtures"]

MIB = 2**20
Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]
VMM = """
class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location_type", ctypes.c_int),
                ("location_id", ctypes.c_int), ("security", ctypes.c_void_p), ("flags", ctypes.c_uint64)]
SIZE = ctypes.c_size_t(2 * MIB)
def create(location_type=1):
    properties = Properties(type=1, location_type=location_type)
    return call("cuMemCreate", SIZE, ctypes.byref(properties), ctypes.c_uint64(0))
def release(handle): return cu.cuMemRelease(ctypes.c_uint64(handle))
def map_(at, handle): return cu.cuMemMap(ctypes.c_uint64(at), SIZE, ctypes.c_size_t(0), ctypes.c_uint64(handle), ctypes.c_uint64(0))
def unmap(at, count=1): return cu.cuMemUnmap(ctypes.c_uint64(at), ctypes.c_size_t(count * 2 * MIB))
def retain(at):
    return made(call("cuMemRetainAllocationHandle", ctypes.c_void_p(at)))
context()
space = made(call("cuMemAddressReserve", ctypes.c_size_t(64 * MIB), ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0)))
def step(result):
    say(result)
    pause()
"""


@pytest.mark.parametrize(
    ("steps", "held_mib"),
    [
        (["create()[0]"], [2]),
        (["(h := made(create())) and 0", "release(h)"], [2, 0]),
        (["map_(space, h := made(create()))", "release(h)", "unmap(space)"], [2, 2, 0]),
        (["map_(space, h := made(create()))", "unmap(space)", "release(h)"], [2, 2, 0]),
        (
            ["map_(space, h := made(create()))", "map_(space + 2 * MIB, h)", "release(h)", "unmap(space, 2)"],
            [2, 2, 2, 0],
        ),
        (
            [
                "map_(space, a := made(create()))",
                "map_(space + 2 * MIB, b := made(create()))",
                "release(a) or release(b)",
                "unmap(space)",
                "unmap(space + 2 * MIB)",
            ],
            [2, 4, 4, 2, 0],
        ),
        (
            [
                "map_(space, h := made(create()))",
                "release(h)",
                "(again := retain(space + MIB)) and 0",
                "unmap(space)",
                "release(again)",
            ],
            [2, 2, 2, 2, 0],
        ),
        (["map_(space, h := made(create()))", "unmap(space)", "unmap(space)", "release(h)"], [2, 2, 2, 0]),
    ],
    ids=[
        "created",
        "released",
        "released first",
        "unmapped first",
        "mapped twice",
        "side by side",
        "retained",
        "unmapped twice",
    ],
)
def test_memory_is_held_while_a_handle_or_a_mapping_is(
    steps: list[str], held_mib: list[int], on_gpu: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon()
    run = on_gpu(VMM + "".join(f"step({step})\n" for step in steps), fikitd)
    for step, held in zip(steps, held_mib, strict=True):
        assert run.line() == "0", step
        assert fikitd.memory.held() == held * MIB, step
        run.go()
    assert run.finish() == ("", "")


def test_what_fails_changes_nothing(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
handle = made(create())
check(map_(space, handle))
say(map_(space, handle) != 0, unmap(space + MIB) != 0, unmap(space), release(handle), release(handle) != 0)
pause()
"""
    run = on_gpu(VMM + code, fikitd)
    assert run.line() == "True True 0 0 True"
    assert (fikitd.memory.held(), fikitd.memory.peak()) == (0, 2 * MIB)
    run.go()
    run.finish()


def test_a_release_or_unmap_that_the_driver_refuses_keeps_it(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = "h = made(create())\nstep(map_(space, h))\nstep(unmap(space))\nstep(release(h))\nstep(unmap(space) or release(h))"
    faults = "call=cuMemUnmap nth=1 error=1;call=cuMemRelease nth=1 error=1"
    run = on_gpu(VMM + code, fikitd, EMUCUDA_FAULTS=faults)
    for result, held in (("0", 2), ("1", 2), ("1", 2), ("0", 0)):
        assert run.line() == result
        assert fikitd.memory.held() == held * MIB
        run.go()
    run.finish()


def test_the_limit_holds_for_physical_memory(on_gpu: Start, daemon: StartDaemon) -> None:
    code = "say(create()[0], create()[0], create()[0])\nsay(*(x // MIB for x in info()))"
    out, err = on_gpu(VMM + code, daemon(limit_bytes=5 * MIB)).finish()
    assert out == "0 0 2\n1 5\n"
    assert "this job's limit is 5 MiB" in err


def test_host_memory_is_not_counted(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(limit_bytes=MIB)
    on_gpu(
        VMM + "create(2)\nout = ctypes.c_void_p()\ncheck(cu.cuMemHostAlloc(ctypes.byref(out), SIZE, 0))", fikitd
    ).finish()
    assert fikitd.memory.peak() == 0
