"""Every row of shim/entry_points.def does what it says: work for the device waits at a closed gate, nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from shim_copies import CALLS as COPIES
from shim_daemon import COPY, EXPIRED, LAUNCH, LONGEST_LEASE_S, Daemon
from shim_program import Program
from shim_table import SYMBOLS, TABLE

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]

LAUNCHES = [symbol for symbol, treatment in TABLE.handled.items() if treatment == "GATE"]
# The other rows that enqueue work for the device.
WORK = [symbol for symbol, treatment in TABLE.handled.items() if treatment in {"COPY", "FILL", "MOVE"}]
# The shim reads what a launch configuration points to: grid, block, shared bytes, stream, attributes.
CALLS = """
from ctypes import c_uint, c_void_p, Structure
class Config(Structure):
    _fields_ = [(n, c_uint) for n in "gx gy gz bx by bz shared".split()] + [("stream", c_void_p), ("attrs", c_void_p), ("n", c_uint)]
class Params(Structure):
    _fields_ = [("f", c_void_p)] + [(n, c_uint) for n in "gx gy gz bx by bz shared".split()] + [("stream", c_void_p), ("params", c_void_p)]
def call_launch(symbol, f):
    one = [1] * 6
    if "MultiDevice" in symbol: return getattr(cu, symbol)(ctypes.byref(Params(f, *one)), 1, 0)
    if "KernelEx" in symbol: return getattr(cu, symbol)(ctypes.byref(Config(*one)), f, None, None)
    if "Grid" in symbol: return getattr(cu, symbol)(f, 1, 1, None)
    if symbol == "cuLaunch": return cu.cuLaunch(f)
    if "GraphLaunch" in symbol: return getattr(cu, symbol)(f, None)
    return getattr(cu, symbol)(f, *one, 0, None, None, None)
"""


def run(program: Start, driver: Path, daemon: Daemon, code: str) -> str:
    places = {"LD_LIBRARY_PATH": str(driver.parent), "FAKE_CUDA": str(driver)}
    return program(CALLS + code, daemon, **places).finish()[0]


def test_every_launch_passes_an_open_gate_and_is_counted(
    program: Start, daemon: StartDaemon, whole_driver: Path
) -> None:
    fikitd = daemon()
    out = run(
        program,
        whole_driver,
        fikitd,
        f"context()\nfor symbol in {LAUNCHES}: check(call_launch(symbol, function(symbol)))\n"
        f"say([calls(symbol) for symbol in {LAUNCHES}])",
    )
    assert json.loads(out) == [1] * len(LAUNCHES)
    assert [entry.kind for entry in fikitd.page().ring()] == [LAUNCH] * len(LAUNCHES)
    assert sorted(fikitd.names()) == sorted(LAUNCHES)


@pytest.mark.parametrize("symbol", LAUNCHES)
def test_launch_is_held_by_a_closed_gate(symbol: str, program: Start, daemon: StartDaemon, whole_driver: Path) -> None:
    fikitd = daemon(closed=True, lease_s=0.1)
    run(program, whole_driver, fikitd, f"context()\ncheck(call_launch({symbol!r}, function('k')))")
    assert [entry.kind for entry in fikitd.page().ring()] == [EXPIRED]


@pytest.mark.parametrize("symbol", WORK)
def test_work_is_held_by_a_closed_gate(symbol: str, program: Start, daemon: StartDaemon, whole_driver: Path) -> None:
    """Within the device as a launch; between host and device where copies ask."""
    fikitd = daemon(closed=True, lease_s=0.1, fills_ask=True, copies_ask_from=1)
    out = run(
        program,
        whole_driver,
        fikitd,
        f"{COPIES}\ncontext()\nfor way in ways({symbol!r}): check(work({symbol!r}, way, 1 << 20))\n"
        f"say(ways({symbol!r}), calls({symbol!r}))",
    )
    ways, calls = out.rsplit(maxsplit=1)
    expected = [EXPIRED if way == 0 else COPY for way in json.loads(ways)]
    assert int(calls) == len(expected)
    assert [entry.kind for entry in fikitd.page().ring()] == expected
    assert fikitd.page().u64("expired_count") == len(expected), "each of them stood at the gate"


def test_a_cooperative_launch_on_several_gpus_passes(program: Start, daemon: StartDaemon, whole_driver: Path) -> None:
    """Held on one of them, it would keep the other one waiting for it."""
    fikitd = daemon(closed=True, lease_s=LONGEST_LEASE_S)
    code = "f = function('k')\nboth = (Params * 2)(Params(f, *[1] * 6), Params(f, *[1] * 6))\n"
    run(program, whole_driver, fikitd, f"context()\n{code}check(cu.cuLaunchCooperativeKernelMultiDevice(both, 2, 0))")
    assert fikitd.page().launches() == 0


def test_nothing_else_is_held_or_counted(program: Start, daemon: StartDaemon, whole_driver: Path) -> None:
    """Every other name of the driver, in a process whose gate is closed for longer than the test may take."""
    others = sorted(set(SYMBOLS) - {*LAUNCHES, *WORK} - {"cuGetProcAddress", "cuGetProcAddress_v2"})
    fikitd = daemon(closed=True, lease_s=LONGEST_LEASE_S)
    out = run(
        program,
        whole_driver,
        fikitd,
        f"""
context()
room = ctypes.byref((ctypes.c_char * 65536)())
missed = []
for symbol in {others}:
    before = calls(symbol)
    getattr(cu, symbol)(room, 1 if "Enumerate" in symbol else room, *[room] * 6)
    if symbol in {sorted(TABLE.passed)} and calls(symbol) != before + 1: missed.append(symbol)
say(missed)
""",
    )
    assert out == "[]\n"
    assert fikitd.page().launches() == 0
