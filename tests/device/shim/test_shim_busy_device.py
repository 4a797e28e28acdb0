"""A kernel that runs until the host says so fills the whole device: nothing that the shim does may wait for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import DRAINED, SAMPLE, Daemon
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


WAITS = """
other = ctypes.c_void_p(made(call("cuStreamCreate", 1)))
s, other = other, s
launch(1000)
s, other = other, s
{between}
for _ in range(5):
    launch(200_000)
    check(cu.cuStreamSynchronize(s))
"""


@pytest.mark.parametrize(
    "between",
    ["pass", "time.sleep(.01); check(cu.cuStreamDestroy_v2(other))"],
    ids=["it stays", "it is destroyed"],
)
def test_a_stream_for_which_nobody_waits_hides_no_wait_for_another_one(
    between: str, on_gpu: Start, daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    """cuDNN's initialisation is such a stream's: fikitd would never hear that PyTorch's host waits."""
    config = tmp_path / "gpu.toml"
    config.write_text('[device]\n[[kernel]]\nmatch = "fikit_spin"\nduration = "param0_ns"\n')
    fikitd = daemon()
    on_gpu(SPIN + WAITS.format(between=between), fikitd, EMUCUDA_CONFIG=str(config)).finish()
    assert [entry.value for entry in fikitd.page().of_kind(DRAINED)] == [2, 3, 4, 5, 6]


def test_what_a_destroyed_stream_has_left_hides_no_wait_for_long(
    on_gpu: Start, daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    """Nobody can be asked about it: an event of the whole context says when it is over."""
    config = tmp_path / "gpu.toml"
    config.write_text('[device]\n[[kernel]]\nmatch = "fikit_spin"\nduration = "param0_ns"\n')
    fikitd = daemon()
    code = WAITS.replace("launch(1000)", "launch(5_000_000)").format(between="check(cu.cuStreamDestroy_v2(other))")
    on_gpu(SPIN + code, fikitd, EMUCUDA_CONFIG=str(config)).finish()
    said = [entry.value for entry in fikitd.page().of_kind(DRAINED)]
    assert said
    assert said[-1] == 6


def test_work_of_other_streams_is_never_said_to_be_over(
    on_gpu: Start, daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    config = tmp_path / "gpu.toml"
    config.write_text('[device]\n[[kernel]]\nmatch = "fikit_spin"\nduration = "param0_ns"\n')
    code = """
long = ctypes.c_void_p(made(call("cuStreamCreate", 1)))
s, long = long, s
launch(60_000_000_000)
s, long = long, s
for _ in range(600): check(cu.cuStreamSynchronize(s))
os._exit(0)
"""
    fikitd = daemon()
    on_gpu(SPIN + code, fikitd, EMUCUDA_CONFIG=str(config)).finish()
    assert fikitd.page().of_kind(DRAINED) == []
