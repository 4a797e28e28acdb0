"""A job with --fikit-mem-host whose program frees what cuMemAlloc gave it in stream order, which the driver refuses for managed memory: nobody waits, and it is freed later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from host_memory import MIB
from shim_daemon import Daemon, wait_for
from shim_program import Program

pytest_plugins = ["memory_fixtures", "host_memory_fixtures"]

StartDaemon = Callable[..., Daemon]
Start = Callable[..., Program]

FLAG = 4096  # bytes of the plain memory that the program below begins with
TOOLS = """
import os, threading, time
N = 8 * MIB
def pattern(i): return bytes((i * 37 + j) % 251 for j in range(251)) * (N // 251 + 1)
def fill(p, i): check(cu.cuMemcpyHtoD_v2(ctypes.c_uint64(p), pattern(i)[:N], ctypes.c_size_t(N)))
def right(p, i):
    out = ctypes.create_string_buffer(N)
    check(cu.cuMemcpyDtoH_v2(out, ctypes.c_uint64(p), ctypes.c_size_t(N)))
    return out.raw == pattern(i)[:N]
ctx = context()
flag = ctypes.c_uint64(made(alloc(4096)))
def lower(): check(cu.cuMemsetD8_v2(flag, 0, ctypes.c_size_t(4096)))
lower()
def stream(): return ctypes.c_void_p(made(call("cuStreamCreate", 1)))
def stand(s): check(cu.cuStreamWaitValue32_v2(s, flag, 1, 1))
def go(s): check(cu.cuStreamWriteValue32_v2(s, flag, 1, 0))
def give(p, s=None): return cu.cuMemFreeAsync(ctypes.c_uint64(p), s)
def copy(to, p, s): check(cu.cuMemcpyDtoDAsync_v2(ctypes.c_uint64(to), ctypes.c_uint64(p), ctypes.c_size_t(N), s))
def wait(s): check(cu.cuStreamSynchronize(s))
def filled(i):
    p = made(alloc(N))
    fill(p, i)
    return p
s, t = stream(), stream()
"""


@pytest.fixture
def start(on_gpu: Start, small_gpu: Path) -> Start:
    """A program on that GPU."""
    return lambda code, daemon, **env: on_gpu(TOOLS + code, daemon, **{"EMUCUDA_CONFIG": str(small_gpu), **env})


STANDS = {
    "until a later write of this thread": ("stand(s)", "go(t)"),
    "in a function that waits for this thread": (
        "go_on = threading.Event()\nkept = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: go_on.wait() and None)\n"
        "check(cu.cuLaunchHostFunc(s, kept, None))",
        "go_on.set()",
    ),
}


@pytest.mark.parametrize("free", ["give(p, s)", "cu.cuMemFreeAsync_ptsz(ctypes.c_uint64(p), s)"])
@pytest.mark.parametrize(("stands", "goes"), STANDS.values(), ids=STANDS.keys())
def test_a_stream_that_stands_for_the_thread_that_frees_goes_on(
    stands: str, goes: str, free: str, start: Start, allowed: Daemon
) -> None:
    """And until it has come there the memory is nobody else's."""
    code = f"""
p, q = filled(1), filled(2)
{stands}
copy(q, p, s)
say({free})
pause()
more = filled(3)
{goes}
wait(s)
say(right(q, 1), right(more, 3))
check(cu.cuCtxSynchronize())
say("over")
pause()
"""
    run = start(code, allowed)
    assert run.line() == "0"
    assert allowed.memory.held() == 16 * MIB + FLAG, "it counts until it is freed"
    run.go()
    assert [run.line(), run.line()] == ["True True", "over"]
    assert allowed.memory.held() == 16 * MIB + FLAG, "two buffers and not three"
    run.go()
    assert run.finish() == ("", "")


MOMENTS = {
    "the program waits for its context": "check(cu.cuCtxSynchronize())",
    "it waits for it by name": "check(cu.cuCtxSynchronize_v2(ctx))",
    "it allocates": "again(lambda: check(free(made(alloc(4096)))))",
    "it allocates rows": "again(lambda: pitched(64, 2))",
    "it frees": "small = [made(alloc(4096)) for _ in range(100)]\nagain(lambda: check(free(small.pop())))",
}
AGAIN = """
def again(what):  # a busy machine may find the device busy
    for _ in range(100):
        before = info()[0]
        what()
        if info()[0] > before + MIB: return
"""


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS.keys())
def test_it_is_given_back_once_the_stream_has_come_there(moment: str, start: Start, allowed: Daemon) -> None:
    code = f"""{AGAIN}
kept, p = filled(1), filled(2)
check(give(p, s))
wait(s)
say(right(kept, 1))
pause()
{moment}
say(right(kept, 1))
pause()
"""
    run = start(code, allowed)
    assert run.line() == "True"
    assert allowed.memory.held() == 16 * MIB + FLAG
    run.go()
    assert run.line() == "True"
    held = allowed.memory.held() - FLAG
    assert 8 * MIB <= held < 9 * MIB
    run.go()
    assert run.finish() == ("", "")


def test_whoever_allocates_does_not_wait_for_another_stream_that_stands(start: Start, allowed: Daemon) -> None:
    """cuMemFree waits for the whole context: so it is not called meanwhile."""
    code = f"""{AGAIN}
p = filled(1)
stand(t)
check(give(p, s))
wait(s)
kept = [filled(i) for i in range(4)]
say("allocated")
pause()
go(s)
wait(t)
again(lambda: check(free(made(alloc(4096)))))
say(all(right(k, i) for i, k in enumerate(kept)))
pause()
"""
    run = start(code, allowed)
    assert run.line() == "allocated"
    assert allowed.memory.held() == 40 * MIB + FLAG
    run.go()
    assert run.line() == "True"
    assert allowed.memory.held() == 32 * MIB + FLAG
    run.go()
    assert run.finish() == ("", "")


TWELVE = "buffers = [filled(i) for i in range(11)]\n"


@pytest.mark.parametrize("faults", ["", "call=cuCtxRecordEvent times=all error=801"], ids=["", "older driver"])
@pytest.mark.parametrize("what", ["alloc(N)", "stream_ordered(N)"])
def test_a_request_that_does_not_fit_first_takes_what_is_over(
    what: str, faults: str, start: Start, allowed: Daemon
) -> None:
    code = (
        f"{TWELVE}for p in buffers: check(give(p, s))\nwait(s)\nsay([{what}[0] for _ in range(11)], {what}[0])\npause()"
    )
    run = start(code, allowed, EMUCUDA_FAULTS=faults)
    assert run.line() == f"{[0] * 11} 2"
    assert allowed.memory.held() == 88 * MIB + FLAG
    run.go()
    out, err = run.finish()
    assert out == ""
    assert err.count("out of GPU memory") == 1, "and of what was found in the end nobody speaks"


@pytest.mark.parametrize("which", ["s", "t"], ids=["its own stream", "another stream"])
def test_a_request_that_does_not_fit_waits_no_longer_than_a_lease(which: str, start: Start, allowed: Daemon) -> None:
    code = f"""{TWELVE}
def timed():
    began = time.monotonic()
    result = alloc(N)[0]
    return result, time.monotonic() - began
stand({which})
check(give(buffers.pop(0), s))
first, again = timed(), timed()
say(first[0], .9 < first[1] < 20, again[0], again[1] < .9)
go(s if {which!r} == "t" else t)
wait({which})
say(timed()[0])
"""
    out, err = start(code, allowed).finish()
    assert out == "2 True 2 True\n0\n"
    assert err.count("out of GPU memory") == 1


def test_a_context_that_always_has_work_is_no_reason_to_refuse(start: Start, allowed: Daemon) -> None:
    code = f"""
PTX = b".version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry k() {{ ret; }}\\n\\0"
k = ctypes.c_void_p(made(call("cuModuleGetFunction", ctypes.c_void_p(made(call("cuModuleLoadData", PTX))), b"k")))
{TWELVE}
stop = False
def busy():
    check(cu.cuCtxSetCurrent(ctx))
    events = [ctypes.c_void_p(made(call("cuEventCreate", 0))) for _ in range(2)]
    turn = 0
    while not stop:
        for _ in range(20): check(cu.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, t, None, None))
        check(cu.cuEventRecord(events[turn], t))
        turn = 1 - turn
        check(cu.cuEventSynchronize(events[turn]))  # one batch is always there
worker = threading.Thread(target=busy)
worker.start()
for _ in range(3):
    for p in buffers: check(give(p, s))
    buffers = [filled(i) for i in range(11)]
stop = True
worker.join()
say(all(right(p, i) for i, p in enumerate(buffers)))
"""
    gpu = "[default]\nbase_us = 2000\n"
    config = Path(allowed.path).parent / "busy.toml"
    config.write_text('[device]\nmemory = "64MiB"\ncontext_memory = 0\n' + gpu)
    assert start(code, allowed, EMUCUDA_CONFIG=str(config)).finish() == ("True\n", "")


STORM = """
def storm():
    check(cu.cuCtxSetCurrent(ctx))
    own = stream()
    for i in range(800):
        p = made(alloc(MIB))
        if i % 2: check(cu.cuMemsetD8Async(ctypes.c_uint64(p), 7, ctypes.c_size_t(MIB), own))
        check(give(p, own))
        if i % 100 == 99: wait(own)
kept = [filled(i) for i in range(4)]
threads = [threading.Thread(target=storm) for _ in range(4)]
"""
CALM = """
for _ in range(100): check(cu.cuCtxSynchronize())
say(all(right(p, i) for i, p in enumerate(kept)))
pause()
"""


def test_a_storm_of_them_leaves_nothing(start: Start, daemon: StartDaemon) -> None:
    """More than there are events for."""
    roomy = daemon(limit_bytes=48 * MIB, host_bytes=4000 * MIB)
    run = start(f"{STORM}[t.start() for t in threads]\n[t.join() for t in threads]\n{CALM}", roomy)
    assert run.line() == "True"
    assert roomy.memory.held() == 32 * MIB + FLAG
    run.go()
    assert run.finish() == ("", "")


def test_a_storm_behind_streams_that_stand_ends_with_them(start: Start, daemon: StartDaemon) -> None:
    """A driver makes a thread wait whose stream is full: so there are two."""
    roomy = daemon(limit_bytes=48 * MIB, host_bytes=4000 * MIB)
    code = f"""
kept = [filled(i) for i in range(4)]
stand(s)
stand(t)
for i in range(1500): check(give(made(alloc(MIB)), (s, t)[i % 2]))
say("given")
pause()
go(stream())
{CALM}"""
    run = start(code, roomy)
    assert run.line() == "given"
    assert roomy.memory.held() == 1532 * MIB + FLAG
    run.go()
    assert run.line() == "True"
    assert roomy.memory.held() == 32 * MIB + FLAG
    run.go()
    assert run.finish() == ("", "")


def test_captures_of_another_thread_stay_whole(start: Start, daemon: StartDaemon) -> None:
    """The question whether a context has work would break a capture in it."""
    code = f"""{STORM}
done, captures, broken = False, 0, []
def capture():
    global captures
    check(cu.cuCtxSetCurrent(ctx))
    own, graph = stream(), ctypes.c_void_p()
    while not done:
        check(cu.cuStreamBeginCapture_v2(own, 2))
        check(cu.cuMemsetD8Async(flag, 0, ctypes.c_size_t(4), own))
        result = cu.cuStreamEndCapture(own, ctypes.byref(graph))
        broken.extend([result] if result else [])
        captures += 1
        if captures % 4 == 0: time.sleep(.0005)
capturing = threading.Thread(target=capture)
[t.start() for t in (*threads, capturing)]
[t.join() for t in threads]
done = True
capturing.join()
say(captures > 10, broken)
{CALM}"""
    roomy = daemon(limit_bytes=48 * MIB, host_bytes=4000 * MIB)
    run = start(code, roomy)
    assert run.line() == "True []"
    assert run.line() == "True"
    assert roomy.memory.held() == 32 * MIB + FLAG
    run.go()
    assert run.finish() == ("", "")


def test_one_that_is_freed_while_a_stream_captures_is_given_back_behind_it(start: Start, allowed: Daemon) -> None:
    code = """
kept, p, graph = filled(1), filled(2), ctypes.c_void_p()
check(cu.cuStreamBeginCapture_v2(t, 2))
say(give(p, s))
more = filled(3)
check(cu.cuStreamEndCapture(t, ctypes.byref(graph)))
say("captured")
pause()
check(cu.cuCtxSynchronize())
say(right(kept, 1), right(more, 3))
pause()
"""
    run = start(code, allowed)
    assert [run.line(), run.line()] == ["0", "captured"]
    assert allowed.memory.held() == 24 * MIB + FLAG
    run.go()
    assert run.line() == "True True"
    assert allowed.memory.held() == 16 * MIB + FLAG
    run.go()
    assert run.finish() == ("", "")


def test_to_the_program_it_is_freed(start: Start, allowed: Daemon) -> None:
    code = """
kept, p = filled(1), filled(2)
stand(t)
check(give(p, s))
say(give(p, s), free(p), free(p + 4096))
go(s)
check(cu.cuCtxSynchronize())
say(free(p), right(kept, 1))
again = [filled(i) for i in range(3)]
check(cu.cuCtxSynchronize())
say(all(right(q, i) for i, q in enumerate(again)), right(kept, 1))
"""
    assert start(code, allowed).finish() == ("1 1 1\n1 True\nTrue True\n", "")


def test_it_goes_with_its_context_and_a_fork_leaves_it_alone(start: Start, allowed: Daemon) -> None:
    code = """
p, q = filled(1), filled(2)
check(give(p, s))
child = os.fork()
if child == 0: os._exit(0 if alloc(N)[0] != 0 else 1)
say(os.waitpid(child, 0)[1])
pause()
check(cu.cuCtxDestroy_v2(ctx))
say("ended")
pause()
ctx = context()
more = [filled(i) for i in range(12)]
check(cu.cuCtxSynchronize())
say(all(right(m, i) for i, m in enumerate(more)))
"""
    run = start(code, allowed)
    assert run.line() == "0"
    assert allowed.memory.held() == 16 * MIB + FLAG
    run.go()
    assert run.line() == "ended"
    assert allowed.memory.held() == 0
    run.go()
    assert run.finish() == ("True\n", "")


def test_memory_of_a_context_is_freed_in_that_one_only(start: Start, allowed: Daemon) -> None:
    """In the order of a stream of another context, too, which may end first."""
    code = """
p = filled(1)
other = ctypes.c_void_p()
check(cu.cuCtxCreate_v2(ctypes.byref(other), 0, 0))
u = stream()
check(give(p, u))
check(cu.cuCtxSynchronize())
kept = filled(2)
say(right(kept, 2))
pause()
check(cu.cuCtxDestroy_v2(other))
check(cu.cuCtxSetCurrent(ctx))
check(cu.cuCtxSynchronize())
say("over")
pause()
"""
    run = start(code, allowed)
    assert run.line() == "True"
    assert allowed.memory.held() == 16 * MIB + FLAG
    run.go()
    assert run.line() == "over"
    assert allowed.memory.held() == FLAG
    run.go()
    assert run.finish() == ("", "")


ERRORS = {
    "event": "call=cuEventCreate times=all error=2",
    "record": "call=cuEventRecord times=all error=2",
    "query": "call=cuEventQuery times=all error=2",
    "context": "call=cuCtxRecordEvent times=all error=801",
    "capture mode": "call=cuThreadExchangeStreamCaptureMode times=all error=801",
    "not supported": "call=cuMemFreeAsync times=all error=801",
    "free": "call=cuMemFree_v2 nth=1 times=3 error=2",
    "once": "call=cuCtxRecordEvent nth=1 error=2;call=cuEventQuery nth=2 error=2",
}


@pytest.mark.parametrize("rule", ERRORS.values(), ids=ERRORS.keys())
def test_an_error_of_the_driver_costs_time_and_no_memory(rule: str, start: Start, allowed: Daemon) -> None:
    code = f"""{TWELVE}
for p in buffers[1:]: check(give(p, s))
for _ in range(5): check(cu.cuCtxSynchronize())
say(right(buffers[0], 0))
pause()
buffers[1:] = [filled(i) for i in range(1, 11)]
say(all(right(p, i) for i, p in enumerate(buffers)))
"""
    run = start(code, allowed, EMUCUDA_FAULTS=rule)
    assert run.line() == "True"
    assert allowed.memory.held() == 8 * MIB + FLAG
    run.go()
    assert run.finish()[0] == "True\n"


@pytest.mark.parametrize("error", [2, 400, 700])
def test_an_answer_that_says_something_else_is_the_programs(error: int, start: Start, allowed: Daemon) -> None:
    code = "p = filled(1)\nsay(give(p, s), right(p, 1))\npause()\nsay(free(p), give(12345, s))\npause()"
    run = start(code, allowed, EMUCUDA_FAULTS=f"call=cuMemFreeAsync nth=1 error={error}")
    assert run.line() == f"{error} True"
    assert allowed.memory.held() == 8 * MIB + FLAG
    run.go()
    assert run.line() == "0 1"
    assert allowed.memory.held() == FLAG
    run.go()
    run.finish()


def test_a_killed_daemon_changes_nothing_about_them(start: Start, allowed: Daemon) -> None:
    code = f"{TWELVE}stand(s)\nfor p in buffers[1:]: check(give(p, s))\nsay('given')\npause()\nmore = [filled(i) for i in range(3)]\ngo(t)\ncheck(cu.cuCtxSynchronize())\nsay(right(buffers[0], 0), all(right(m, i) for i, m in enumerate(more)))"
    run = start(code, allowed)
    assert run.line() == "given"
    allowed.stop()
    wait_for(lambda: not allowed.path.exists(), "end of the daemon")
    run.go()
    out, err = run.finish()
    assert out == "True True\n"
    assert "out of GPU memory" not in err
