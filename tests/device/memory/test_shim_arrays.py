"""Arrays and the allocation calls of CUDA 3: counted by their shape, given back when destroyed (on a stand-in driver)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from shim_daemon import Daemon
from shim_program import Program

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]
KIB = 2**10
SHAPES = """
class Flat(ctypes.Structure):
    _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("format", ctypes.c_int), ("channels", ctypes.c_uint)]
class FlatOld(ctypes.Structure):
    _fields_ = [("width", ctypes.c_uint), ("height", ctypes.c_uint), ("format", ctypes.c_int), ("channels", ctypes.c_uint)]
class Solid(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in ("width", "height", "depth")] + [("format", ctypes.c_int)] + [
        (n, ctypes.c_uint) for n in ("channels", "flags")]
class SolidOld(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint) for n in ("width", "height", "depth")] + [("format", ctypes.c_int)] + [
        (n, ctypes.c_uint) for n in ("channels", "flags")]
def make(name, shape, *more):
    out = ctypes.c_void_p()
    return getattr(cu, name)(ctypes.byref(out), ctypes.byref(shape), *more), out
context()
"""
U8, HALF, FLOAT, UNORM16X2, BC7 = 0x01, 0x10, 0x20, 0xC4, 0x9D
LAYERED, SPARSE, DEFERRED = 0x01, 0x40, 0x80


@pytest.mark.parametrize(
    ("call", "bytes_"),
    [
        (f"'cuArrayCreate_v2', Flat(1024, 0, {U8}, 1)", KIB),
        (f"'cuArrayCreate_v2', Flat(32, 32, {FLOAT}, 4)", 16 * KIB),
        (f"'cuArrayCreate', FlatOld(32, 32, {HALF}, 2)", 4 * KIB),
        (f"'cuArray3DCreate_v2', Solid(16, 8, 8, {U8}, 1, 0)", KIB),
        (f"'cuArray3DCreate_v2', Solid(1024, 0, 6, {UNORM16X2}, 2, {LAYERED})", 24 * KIB),
        (f"'cuArray3DCreate_v2', Solid(32, 32, 0, {BC7}, 4, 0)", KIB),
        (f"'cuArray3DCreate_v2', Solid(2**40, 2**40, 2**40, {FLOAT}, 4, {SPARSE})", 0),
        (f"'cuArray3DCreate', SolidOld(16, 8, 8, {FLOAT}, 1, 0)", 4 * KIB),
        (f"'cuMipmappedArrayCreate', Solid(4, 4, 4, {U8}, 1, 0), 3", 64 + 8 + 1),
        (f"'cuMipmappedArrayCreate', Solid(4, 4, 2, {U8}, 1, {LAYERED}), 3", 2 * (16 + 4 + 1)),
        (f"'cuMipmappedArrayCreate', Solid(4, 4, 4, {U8}, 1, {DEFERRED}), 3", 0),
    ],
)
def test_an_array_has_the_size_of_its_elements(call: str, bytes_: int, program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    destroy = "cuMipmappedArrayDestroy" if "Mip" in call else "cuArrayDestroy"
    run = program(
        SHAPES + f"result, array = make({call})\nsay(result)\npause()\ncheck(cu.{destroy}(array))\nsay()\npause()",
        fikitd,
    )
    assert run.line() == "0"
    assert fikitd.memory.held() == bytes_
    run.go()
    run.line()
    assert (fikitd.memory.held(), fikitd.memory.peak()) == (0, bytes_)
    run.go()
    run.finish()


def test_an_array_of_absurd_size_is_out_of_memory_not_a_small_number(program: Start, daemon: StartDaemon) -> None:
    code = f"say(make('cuArray3DCreate_v2', Solid(2**40, 2**40, 2**40, {FLOAT}, 4, 0))[0])\n"
    code += f"say(make('cuMipmappedArrayCreate', Solid(2**62, 1, 1, {FLOAT}, 1, 0), 3)[0])\nsay(calls('cuArray3DCreate_v2'))"
    out, err = program(SHAPES + code, daemon(limit_bytes=2**40)).finish()
    assert out == "2\n2\n0\n"
    assert err.count("\n") == 1


def test_an_array_that_the_driver_refuses_is_not_counted(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = f"fake.fake_fail(b'cuArrayCreate_v2', 2)\nsay(make('cuArrayCreate_v2', Flat(32, 32, {FLOAT}, 4))[0])\n"
    code += "say(cu.cuArrayCreate_v2(ctypes.byref(ctypes.c_void_p()), None))"
    assert program(SHAPES + code, fikitd).finish()[0] == "2\n2\n"
    assert fikitd.memory.held() == 0


def test_old_calls_count_and_show_the_limit(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(limit_bytes=64 * KIB)
    code = """
context()
a, b, pitch, free_bytes, total = (ctypes.c_uint() for _ in range(5))
check(cu.cuMemAlloc(ctypes.byref(a), 1024))
check(cu.cuMemAllocPitch(ctypes.byref(b), ctypes.byref(pitch), 100, 2, 4))
say(cu.cuMemAlloc(ctypes.byref(ctypes.c_uint()), 65536))
check(cu.cuMemGetInfo(ctypes.byref(free_bytes), ctypes.byref(total)))
say(free_bytes.value, total.value)
check(cu.cuDeviceTotalMem(ctypes.byref(total), 0))
say(total.value)
check(cu.cuMemFree(a)); check(cu.cuMemFree(b))
"""
    out, _ = program(code, fikitd).finish()
    assert out == f"2\n{62 * KIB} {64 * KIB}\n{64 * KIB}\n"
    assert (fikitd.memory.held(), fikitd.memory.peak()) == (0, 2 * KIB)


def test_a_pitch_wider_than_expected_is_settled_afterwards(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(limit_bytes=64 * KIB)
    code = """
context()
p, pitch = ctypes.c_void_p(), ctypes.c_size_t()
say(cu.cuMemAllocPitch_v2(ctypes.byref(p), ctypes.byref(pitch), ctypes.c_size_t(100), ctypes.c_size_t(8), 4))
pause()
say(cu.cuMemAllocPitch_v2(ctypes.byref(p), ctypes.byref(pitch), ctypes.c_size_t(100), ctypes.c_size_t(16), 4))
say(calls("cuMemAllocPitch_v2"), calls("cuMemFree_v2"))
pause()
"""
    run = program(code, fikitd)
    assert run.line() == "0"
    assert fikitd.memory.held() == 32 * KIB
    run.go()
    assert (run.line(), run.line()) == ("2", "2 1")
    assert fikitd.memory.held() == 32 * KIB
    run.go()
    run.finish()
