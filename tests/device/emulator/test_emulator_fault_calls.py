"""Faults of driver calls strike every function that the emulated driver exports."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from emulator_tools import ROOT

Env = Callable[..., dict[str, str]]
SYMBOLS = (ROOT / "driver_api/symbols.txt").read_text().split()
FIRST_CODE = 5000
# What passes on to a function of another name.
PASSES_ON = {
    "cuCtxDetach": "cuCtxDestroy",
    "cuMemAllocHost": "cuMemHostAlloc",
    "cuModuleLoadDataEx": "cuModuleLoadData",
    "cuModuleLoadFatBinary": "cuModuleLoadData",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cuOccupancyMaxPotentialBlockSize": "cuOccupancyMaxPotentialBlockSizeWithFlags",
}
CALL_ALL = """
import ctypes, sys
driver = ctypes.CDLL("libcuda.so.1")
driver.cuInit(0)
context = ctypes.c_void_p()
driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
for name in sys.argv[1:]:
    driver.cuCtxSetCurrent(context)
    print(name, getattr(driver, name)(*[ctypes.c_void_p()] * 12))
"""


def call_all(env: dict[str, str]) -> dict[str, int]:
    """What every function of the driver answers when it is called with zeros."""
    command = [sys.executable, "-c", CALL_ALL, *SYMBOLS]
    out = subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=100).stdout
    return {name: int(code) for name, code in map(str.split, out.splitlines())}


def meaning(name: str) -> str:
    """A function's name without its version and form."""
    plain = re.sub(r"(_v\d+)?(_pt[sd][zs])?$", "", name)
    return PASSES_ON.get(plain, plain)


@pytest.fixture
def plain_names() -> list[str]:
    return [name for name in SYMBOLS if not name.endswith(("_ptsz", "_ptds"))]


def test_every_call_can_fail_by_its_own_name(emulator_env: Env, plain_names: list[str]) -> None:
    # The first calls of these are needed; their second ones shall fail like the others.
    needed = {"cuInit", "cuCtxCreate_v2", "cuCtxSetCurrent"}
    rules = [
        f"call={name} nth={2 if name in needed else 1} times=all error={FIRST_CODE + i}"
        for i, name in enumerate(plain_names)
    ]
    answers = call_all(emulator_env(EMUCUDA_FAULTS=";".join(rules)))
    struck_as = {name: plain_names[code - FIRST_CODE] if code >= FIRST_CODE else code for name, code in answers.items()}
    assert len(struck_as) == len(SYMBOLS) > 600
    assert {name: said for name, said in struck_as.items() if meaning(str(said)) != meaning(name)} == {}


def test_every_call_can_be_delayed(emulator_env: Env, plain_names: list[str]) -> None:
    env = emulator_env(EMUCUDA_FAULTS="call=* nth=3 times=all delay=1us error=999")
    assert set(call_all(env).values()) == {999}


def test_null_is_a_mistake_and_no_crash(emulator_env: Env) -> None:
    answers = call_all(emulator_env())
    assert answers["cuMemAlloc_v2"] == answers["cuMemcpy2D_v2"] == answers["cuStreamGetId"] == 1
    assert answers["cuLaunchKernel"] == 400
    assert answers["cuGetExportTable"] == 500
    assert answers["cuTexRefCreate"] == 801
    assert answers["cuCtxSynchronize"] == 0
