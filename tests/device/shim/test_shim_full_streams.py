"""A driver makes a thread wait whose stream is full, and the stream may stand until another thread has launched: so nobody waits for that thread."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from host_memory import MIB, ON_GPU, ON_HOST
from shim_daemon import Daemon, granting
from shim_program import Program

pytest_plugins = ["memory_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]

# One thread fills stream `a`, which stands until `b` has got there: behind three launches of this thread.
PROGRAM = """
import threading, time
ctx = context()
PTX = b".version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry k() { ret; }\\n\\0"
k = ctypes.c_void_p(made(call("cuModuleGetFunction", ctypes.c_void_p(made(call("cuModuleLoadData", PTX))), b"k")))
def launch(stream): check(cu.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, stream, None, None))
def ordered(stream): check(cu.cuMemFreeAsync(ctypes.c_uint64(made(call("cuMemAllocAsync", ctypes.c_size_t(MIB), stream))), stream))
a, b = (ctypes.c_void_p(made(call("cuStreamCreate", 1))) for _ in range(2))
flag = ctypes.c_uint64(made(alloc(4096)))
check(cu.cuMemsetD8_v2(flag, 0, ctypes.c_size_t(4096)))
launch(b)
check(cu.cuCtxSynchronize())
say("ready")
pause()
check(cu.cuStreamWaitValue32_v2(a, flag, 1, 1))
for _ in range({more}): check(cu.cuStreamWriteValue32_v2(a, ctypes.c_uint64(flag.value + 64), 1, 0))
filled = 0
def fill():
    global filled
    check(cu.cuCtxSetCurrent(ctx))
    for _ in range(1200):
        {work}(a)
        filled += 1
filling = threading.Thread(target=fill, daemon=True)
filling.start()
before = -1
while before != filled: before = filled; time.sleep(.2)
if not 3 < filled < 1100: raise SystemExit(filled)
for _ in range(3): {work}(b)
launch(b)
check(cu.cuStreamWriteValue32_v2(b, flag, 1, 0))
filling.join()
check(cu.cuCtxSynchronize())
say("over")
"""
ALMOST_FULL = (1000, 1001)  # no more than 80 marks can be out
MARKS: dict[str, dict[str, str]] = {
    "marks": {},
    "events": {"EMUCUDA_FAULTS": "call=cuMemHostRegister_v2 times=all error=801"},
}


def goes_on(start: Start, daemon: Daemon, work: str, more: int, **env: str) -> Program:
    run = start(PROGRAM.replace("{more}", str(more)).replace("{work}", work), daemon, **env)
    assert run.line() == "ready"
    return run


@pytest.mark.parametrize("more", ALMOST_FULL)
@pytest.mark.parametrize("env", MARKS.values(), ids=MARKS.keys())
def test_behind_each_launch_a_mark_that_was_granted(
    env: dict[str, str], more: int, on_gpu: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon(spin_ns=0)
    run = goes_on(on_gpu, fikitd, "launch", more, **env)
    page = fikitd.page()
    page.close_gate(60)
    with granting(fikitd):
        run.go()
        assert run.line() == "over"
    page.open_gate()
    run.finish()


@pytest.mark.parametrize("more", range(3))
def test_launches_are_timed(more: int, on_gpu: Start, measured: Daemon) -> None:
    run = goes_on(on_gpu, measured, "launch", more)
    run.go()
    assert run.line() == "over"
    run.finish()


@pytest.mark.parametrize("more", range(2))
def test_memory_in_stream_order_that_is_moved(more: int, on_gpu: Start, daemon: StartDaemon) -> None:
    run = goes_on(on_gpu, daemon(limit_bytes=ON_GPU * MIB, host_bytes=ON_HOST * 40 * MIB), "ordered", more)
    run.go()
    assert run.line() == "over"
    run.finish()
