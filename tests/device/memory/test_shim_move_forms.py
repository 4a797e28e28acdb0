"""Moves of memory in the form of older drivers, and in that of newer ones, each with a driver that has no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import Daemon, wait_for
from shim_program import FAKE_CUDA, Program, driver_of

pytest_plugins = ["shim_fixtures"]

MIB = 2**20
MANAGED = Path(__file__).resolve().parents[1] / "programs/shim/shim_fake_managed.c"
CODE = f"""
fake.fake_moved_bytes.restype = ctypes.c_size_t
context()
k = function("k")
out = ctypes.c_void_p()
check(cu.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t({96 * MIB})))
def tell(): say(fake.fake_moved_bytes() // {MIB}, fake.fake_moved_to())
say("ready")
pause()
for _ in range(2):
    check(launch(k))
    tell()
"""


@pytest.mark.parametrize("newer", [False, True], ids=["CUDA 8 to 12.1", "CUDA 12.2 and newer"])
def test_memory_goes_out_and_comes_back(
    newer: bool, cc: Callable[..., Path], program: Callable[..., Program], daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    flags = ["-DNEWER_FORM"] if newer else []
    driver = driver_of(cc(*FAKE_CUDA, str(MANAGED), *flags), tmp_path)
    allowed = daemon(limit_bytes=64 * MIB, host_bytes=64 * MIB)
    run = program(CODE, allowed, LD_LIBRARY_PATH=str(driver.parent), FAKE_CUDA=str(driver))
    assert run.line() == "ready"
    page = allowed.page()
    page.close_gate(60)
    run.go()
    for goal, told in ((0, "32 -1"), (2**64 - 1, "32 0")):  # the last piece of two
        wait_for(lambda: page.u32("waiting"), "a launch")
        number = page.want(goal)
        wait_for(lambda number=number: page.u32("moves.reached") == number, "the move")
        page.grant()
        assert run.line() == told
    assert page.moves()["out_bytes"] == page.moves()["in_bytes"] == 96 * MIB
    assert page.moves()["failures"] == 0
    page.open_gate()
    assert run.finish() == ("", "")
