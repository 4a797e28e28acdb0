"""What programs may rely on stays true while a gate opens and closes: order, callbacks, captures in other threads."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from shim_daemon import Daemon, wait_for
from shim_program import Program

pytest_plugins = ["memory_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]
ORDERED = """
from memory_child import *
import threading
PTX = b'''.version 8.0
.target sm_90
.address_size 64
.visible .entry emu_check_order(.param .u64 p, .param .u32 expected) { ret; }
.visible .entry emu_increment(.param .u64 p) { ret; }
'''
ctx = context()
module = ctypes.c_void_p(made(call("cuModuleLoadData", PTX)))
check_order = ctypes.c_void_p(made(call("cuModuleGetFunction", module, b"emu_check_order")))
increment = ctypes.c_void_p(made(call("cuModuleGetFunction", module, b"emu_increment")))
def ordered(word, expected, stream):
    a, b = ctypes.c_uint64(word), ctypes.c_uint32(expected)
    parameters = (ctypes.c_void_p * 2)(ctypes.addressof(a), ctypes.addressof(b))
    return cu.cuLaunchKernel(check_order, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)
def zeroed():
    word = made(alloc(4))
    check(cu.cuMemsetD8_v2(ctypes.c_uint64(word), 0, ctypes.c_size_t(4)))
    return word
def read(word):
    out = ctypes.c_uint32()
    check(cu.cuMemcpyDtoH_v2(ctypes.byref(out), ctypes.c_uint64(word), ctypes.c_size_t(4)))
    return out.value
"""


def test_no_launch_is_lost_or_overtaken_while_the_gate_opens_and_closes(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
words = [zeroed() for _ in range(4)]
streams = [ctypes.c_void_p(made(call("cuStreamCreate", 1))) for _ in words]
failed = []
def work(word, stream):
    check(cu.cuCtxSetCurrent(ctx))
    failed.extend(result for result in (ordered(word, i, stream) for i in range(250)) if result)
threads = [threading.Thread(target=work, args=pair) for pair in zip(words, streams)]
say()
for thread in threads: thread.start()
for thread in threads: thread.join()
check(cu.cuCtxSynchronize())
say(failed, [read(word) for word in words])
"""
    run = on_gpu(ORDERED + code, fikitd)
    run.line()
    page = fikitd.page()
    while page.launches() < 1000 and run.process.poll() is None:
        page.close_gate(lease_s=0.01)
        for _ in range(3):
            page.grant()
            time.sleep(0.0005)
        page.open_gate()
        time.sleep(0.0005)
    assert run.finish()[0] == "[] [250, 250, 250, 250]\n"
    assert page.launches() == 1000


def test_host_functions_run_and_their_launches_are_not_held(on_gpu: Start, daemon: StartDaemon) -> None:
    """CUDA forbids calls in there, and the driver says so: at once, also while the gate is closed."""
    fikitd = daemon()
    code = """
stream, word, seen = ctypes.c_void_p(made(call("cuStreamCreate", 1))), zeroed(), []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def function(_): seen.append(ordered(word, 0, stream))
check(cu.cuCtxSynchronize())
say()
pause()
check(cu.cuLaunchHostFunc(stream, function, None))
check(cu.cuStreamSynchronize(stream))
say(seen, read(word))
"""
    run = on_gpu(ORDERED + code, fikitd)
    run.line()
    page = fikitd.page()
    page.close_gate(lease_s=60)
    run.go()
    assert run.line() == "[800] 0"
    assert page.u32("request_seq") == 0
    page.open_gate()
    run.finish()


@pytest.mark.parametrize("mode", [0, 1, 2], ids=["global", "thread-local", "relaxed"])
def test_a_capture_is_untouched_by_another_threads_launches_at_a_closed_gate(
    mode: int, on_gpu: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon()
    code = f"""
one, two = (ctypes.c_void_p(made(call("cuStreamCreate", 1))) for _ in range(2))
word, other = zeroed(), zeroed()
check(cu.cuCtxSynchronize())
say()
pause()
def waiting():
    check(cu.cuCtxSetCurrent(ctx))
    check(ordered(other, 0, two))
thread = threading.Thread(target=waiting)
check(cu.cuStreamBeginCapture_v2(one, {mode}))
thread.start()
for i in range(5): check(ordered(word, i, one))
say()
pause()
for i in range(5, 10): check(ordered(word, i, one))
graph, exec_ = ctypes.c_void_p(), ctypes.c_void_p()
check(cu.cuStreamEndCapture(one, ctypes.byref(graph)))
thread.join()
check(cu.cuGraphInstantiateWithFlags(ctypes.byref(exec_), graph, ctypes.c_ulonglong(0)))
check(cu.cuGraphLaunch(exec_, one))
check(cu.cuCtxSynchronize())
say(read(word), read(other))
"""
    run = on_gpu(ORDERED + code, fikitd)
    run.line()
    page = fikitd.page()
    page.close_gate(lease_s=60)
    run.go()
    run.line()
    wait_for(lambda: page.u32("waiting"), "request of the other thread")
    run.go()
    page.grant()
    wait_for(lambda: page.launches() == 1, "granted launch")
    page.open_gate()
    assert run.line() == "10 1"
    run.finish()
    assert page.launches() == 2


def test_contexts_of_one_device_share_a_gate_and_keep_their_order(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
second = context()
module = ctypes.c_void_p(made(call("cuModuleLoadData", PTX)))
of_second = ctypes.c_void_p(made(call("cuModuleGetFunction", module, b"emu_check_order")))
of_first = check_order
words = {}
for ctx_, function in ((ctx, of_first), (second, of_second)):
    check(cu.cuCtxSetCurrent(ctx_))
    words[ctx_.value] = zeroed()
for i in range(50):
    for ctx_, function in ((ctx, of_first), (second, of_second)):
        check(cu.cuCtxSetCurrent(ctx_))
        check_order = function
        check(ordered(words[ctx_.value], i, None))
results = []
for ctx_ in (ctx, second):
    check(cu.cuCtxSetCurrent(ctx_))
    results.append(read(words[ctx_.value]))
say(results)
"""
    assert on_gpu(ORDERED + code, fikitd).finish()[0] == "[50, 50]\n"
    assert fikitd.page().launches() == 100
    assert len(fikitd.pages) == 1
