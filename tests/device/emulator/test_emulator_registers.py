"""A kernel that needs many registers: what its function says, and which blocks of it there is room for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_tools import run_script

Env = Callable[..., dict[str, str]]

SCRIPT = """
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
context, module, function, value = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
assert cu.cuInit(0) == cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cu.cuModuleLoadData(ctypes.byref(module), b".version 7.0 .target sm_70 .visible .entry heavy() { ret; } ") == 0
assert cu.cuModuleGetFunction(ctypes.byref(function), module, b"heavy") == 0
def says(attribute):
    assert cu.cuFuncGetAttribute(ctypes.byref(value), attribute, function) == 0
    return value.value
def blocks(threads):
    assert cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(value), function, threads, ctypes.c_size_t(0)) == 0
    return value.value
def launch(threads):
    return cu.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, None, None, None)
assert (says(0), says(4)) == (MOST, REGISTERS)
assert blocks(MOST) == 1 and (MOST == 1024 or blocks(MOST + 32) == 0)
assert launch(MOST) == 0
assert launch(1025) == 1
assert MOST == 1024 or launch(MOST + 1) == 701
assert launch(32) == 0 and cu.cuCtxSynchronize() == 0  # as if nothing had been
"""


@pytest.mark.parametrize(("registers", "threads"), [(255, 256), (128, 512), (72, 896), (64, 1024)])
def test_block_with_too_many_registers_is_refused(
    emulator_env: Env, tmp_path: Path, registers: int, threads: int
) -> None:
    config = tmp_path / "device.toml"
    config.write_text(f'[[kernel]]\nmatch = "heavy"\nregisters = {registers}\n')
    script = SCRIPT.replace("MOST", str(threads)).replace("REGISTERS", str(registers))
    run_script(script, emulator_env(EMUCUDA_CONFIG=str(config)))


@pytest.mark.parametrize("registers", ["0", "256", '"many"'])
def test_impossible_number_of_registers_is_one_sentence(emulator_env: Env, tmp_path: Path, registers: str) -> None:
    config = tmp_path / "device.toml"
    config.write_text(f'[[kernel]]\nmatch = "heavy"\nregisters = {registers}\n')
    script = "import ctypes; raise SystemExit(ctypes.CDLL('libcuda.so.1').cuInit(0) == 0)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=emulator_env(EMUCUDA_CONFIG=str(config)),
        check=True,
        capture_output=True,
        text=True,
    )
    assert "registers must be" in done.stderr
    assert len(done.stderr.splitlines()) == 1
