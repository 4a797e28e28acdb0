"""At an open gate, too, a bounded client stores little unfinished work; what does not run is held for a second in all, and goes on then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import Daemon
from shim_program import Program

pytest_plugins = ["memory_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]

PROGRAM = """
import time
ctx = context()
PTX = b".version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry k() { ret; }\\n\\0"
k = ctypes.c_void_p(made(call("cuModuleGetFunction", ctypes.c_void_p(made(call("cuModuleLoadData", PTX))), b"k")))
def launch(stream): check(cu.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, stream, None, None))
def new_stream(): return ctypes.c_void_p(made(call("cuStreamCreate", 1)))
flag = ctypes.c_uint64(made(alloc(4096)))
check(cu.cuMemsetD8_v2(flag, 0, ctypes.c_size_t(4096)))
began = time.monotonic()
def say_took(): say(round((time.monotonic() - began) * 1000))
"""
STREAMS = """
streams = [new_stream() for _ in range({streams})]
for i in range(60): launch(streams[i % {streams}])
say_took()
check(cu.cuCtxSynchronize())
"""
# A launch of another stream is what lets the first one go on.
UNMET = """
a, b = new_stream(), new_stream()
check(cu.cuStreamWaitValue32_v2(a, flag, 1, 1))
for i in range({launches}): launch(a)
say_took()
check(cu.cuStreamWriteValue32_v2(b, flag, 1, 0))
check(cu.cuCtxSynchronize())
"""


@pytest.fixture
def slow_kernels(tmp_path: Path) -> str:
    """The configuration of a GPU of which each kernel takes 10 ms."""
    config = tmp_path / "slow.toml"
    config.write_text("[default]\nbase_us = 10000\n")
    return str(config)


@pytest.mark.parametrize("streams", [1, 16])
def test_a_bounded_client_stores_a_tenth_of_a_second_of_work(
    streams: int, on_gpu: Start, daemon: StartDaemon, slow_kernels: str
) -> None:
    """60 kernels of 10 ms: the host is at most some 100 ms ahead of the device."""
    fikitd = daemon(bounded=True)
    run = on_gpu(PROGRAM + STREAMS.replace("{streams}", str(streams)), fikitd, EMUCUDA_CONFIG=slow_kernels)
    assert int(run.line()) > 400
    run.finish()
    assert fikitd.page().launches() == 60
    assert fikitd.page().u32("let_go") == 0


def test_another_one_stores_what_it_likes(on_gpu: Start, daemon: StartDaemon, slow_kernels: str) -> None:
    run = on_gpu(PROGRAM + STREAMS.replace("{streams}", "16"), daemon(), EMUCUDA_CONFIG=slow_kernels)
    assert int(run.line()) < 400
    run.finish()


def test_a_thousand_launches_behind_an_unmet_wait_are_let_go_after_a_second(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(bounded=True)
    run = on_gpu(PROGRAM + UNMET.replace("{launches}", "1000"), fikitd)
    assert 1000 <= int(run.line()) < 10000
    _, errors = run.finish()
    assert fikitd.page().launches() == 1000
    assert fikitd.page().u32("let_go") >= 1
    assert errors.count("stores work that does not run") == 1


def test_the_second_is_one_in_a_programs_life(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(bounded=True)
    again = UNMET.replace("{launches}", "100")
    run = on_gpu(
        PROGRAM + again + "check(cu.cuMemsetD8_v2(flag, 0, ctypes.c_size_t(4096)))\nbegan = time.monotonic()\n" + again,
        fikitd,
    )
    assert int(run.line()) >= 1000
    assert int(run.line()) < 900
    run.finish()


def test_stored_work_goes_on_when_fikitd_dies(on_gpu: Start, daemon: StartDaemon, slow_kernels: str) -> None:
    fikitd = daemon(bounded=True)
    run = on_gpu(PROGRAM + "launch(new_stream())\nsay('first')\npause()\n" + UNMET.replace("{launches}", "100"), fikitd)
    assert run.line() == "first"
    fikitd.stop()
    run.go()
    assert int(run.line()) < 900
    run.finish()


def test_captured_launches_are_not_bounded(on_gpu: Start, daemon: StartDaemon, slow_kernels: str) -> None:
    fikitd = daemon(bounded=True)
    code = """
s = new_stream()
check(cu.cuStreamBeginCapture_v2(s, 2))
for i in range(300): launch(s)
say_took()
"""
    run = on_gpu(PROGRAM + code, fikitd, EMUCUDA_CONFIG=slow_kernels)
    assert int(run.line()) < 900
    run.finish()
    assert fikitd.page().launches() == 0
