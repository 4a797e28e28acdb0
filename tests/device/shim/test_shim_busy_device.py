"""A kernel that runs until the host says so fills the whole device: nothing that the shim does may wait for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import SAMPLE, Daemon
from shim_program import Program

pytest_plugins = ["memory_fixtures"]

Start = Callable[..., Program]

SPIN = """
import os, time
context()
PTX = b".version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry fikit_spin(.param .u64 ns) { ret; }\\n\\0"
k = ctypes.c_void_p(made(call("cuModuleGetFunction", ctypes.c_void_p(made(call("cuModuleLoadData", PTX))), b"fikit_spin")))
s = ctypes.c_void_p(made(call("cuStreamCreate", 1)))
def launch(ns):
    value = ctypes.c_uint64(ns)
    check(cu.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, s, (ctypes.c_void_p * 1)(ctypes.addressof(value)), None))
"""


@pytest.mark.parametrize("options", [{"sample_every": 64}, {"measure": True}], ids=["sampled", "measured"])
def test_the_way_to_the_device_is_not_measured_behind_it(
    options: dict[str, object], on_gpu: Start, daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    """The host goes on looking at other things."""
    config = tmp_path / "gpu.toml"
    config.write_text('[device]\n[[kernel]]\nmatch = "fikit_spin"\nduration = "param0_ns"\n')
    code = """
for _ in range(3): launch(1000); time.sleep(.01)
other = ctypes.c_void_p(made(call("cuStreamCreate", 1)))
launch(60_000_000_000)
say("launched")
pause()
for _ in range(20): say(cu.cuStreamQuery(other))
pause()
os._exit(0)
"""
    fikitd = daemon(**options)
    run = on_gpu(SPIN + code, fikitd, EMUCUDA_CONFIG=str(config))
    assert run.line() == "launched"
    run.go()
    assert {run.line() for _ in range(20)} == {"0"}
    assert fikitd.page().of_kind(SAMPLE), "all before it has been read"
    run.go()
    run.finish()
