"""GPU memory of a job: every way to allocate is counted and limited, over all processes, and the limit is what they see."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from shim_daemon import Daemon
from shim_program import Program

pytest_plugins = ["memory_fixtures"]

MIB = 2**20
StartDaemon = Callable[..., Daemon]
Start = Callable[..., Program]
WAYS = {
    "linear": ("alloc(3 * MIB)", "free", 3 * MIB),
    "pitched": ("pitched(1000, 1024)", "free", MIB),
    "managed": ("managed(3 * MIB)", "free", 3 * MIB),
    "stream-ordered": ("stream_ordered(3 * MIB)", "free_async", 3 * MIB),
    "stream-ordered, freed at once": ("stream_ordered(3 * MIB)", "free", 3 * MIB),
    "pool": ("from_pool(3 * MIB)", "free_async", 3 * MIB),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_allocation_is_counted_and_given_back(way: str, on_gpu: Start, daemon: StartDaemon) -> None:
    make, free, bytes_ = WAYS[way]
    fikitd = daemon()
    run = on_gpu(f"context()\np = made({make})\nsay()\npause()\ncheck({free}(p))\nsay()\npause()", fikitd)
    run.line()
    assert fikitd.memory.held() == bytes_
    run.go()
    run.line()
    assert (fikitd.memory.held(), fikitd.memory.peak()) == (0, bytes_)
    run.go()
    assert run.finish() == ("", "")


@pytest.mark.parametrize("way", WAYS)
def test_beyond_the_limit_every_call_is_out_of_memory(way: str, on_gpu: Start, daemon: StartDaemon) -> None:
    make, _, bytes_ = WAYS[way]
    fikitd = daemon(limit_bytes=bytes_ + 7 * MIB)
    code = f"context()\np = made(alloc(8 * MIB))\nsay({make}[0], {make}[0])\ncheck(free(p))\nsay({make}[0])"
    out, err = on_gpu(code, fikitd).finish()
    assert out == "2 2\n0\n"
    assert err == (
        f"fikit: out of GPU memory: this job's limit is {bytes_ // MIB + 7} MiB (--fikit-mem), its processes hold 8.0 MiB, "
        f"and {bytes_ // MIB}.0 MiB more were asked for; ask for a higher --fikit-mem.\n"
    )


def test_what_the_driver_refuses_is_not_counted(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = "context()\nsay(alloc(2**40)[0], managed(2**40)[0], stream_ordered(2**40)[0], pitched(2**30, 2**10)[0], alloc(0)[0])"
    out, err = on_gpu(code, fikitd).finish()
    assert (out, err) == ("2 2 2 2 1\n", "")
    assert (fikitd.memory.held(), fikitd.memory.peak()) == (0, 0)


def test_only_the_first_of_two_frees_counts(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = "context()\nkept, p = made(alloc(MIB)), made(alloc(MIB))\nsay(free(p), free(p) != 0, free(p + 8) != 0, free(0))\npause()"
    run = on_gpu(code, fikitd)
    assert run.line() == "0 True True 0"
    assert fikitd.memory.held() == MIB
    run.go()
    run.finish()


def test_a_free_that_fails_frees_nothing(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = "context()\np = made(alloc(MIB))\nsay(free(p), info()[0])\nsay(free(p))\npause()"
    run = on_gpu(code, fikitd, EMUCUDA_FAULTS="call=cuMemFree* nth=1 error=1")
    assert run.line().startswith("1 ")
    assert run.line() == "0"
    assert fikitd.memory.held() == 0
    assert fikitd.memory.peak() == MIB
    run.go()
    run.finish()


def test_a_destroyed_context_gives_back_what_it_still_held(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
one, two = context(), context()
kept = made(alloc(MIB))
check(cu.cuCtxSetCurrent(one))
for _ in range(100): made(alloc(MIB))
check(cu.cuCtxDestroy_v2(one))
say()
pause()
"""
    run = on_gpu(code, fikitd)
    run.line()
    assert (fikitd.memory.held(), fikitd.memory.peak()) == (MIB, 101 * MIB)
    run.go()
    run.finish()


def test_memory_of_a_pool_outlives_the_context_in_which_it_was_allocated(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
one = context()
p = made(stream_ordered(3 * MIB))
q = made(from_pool(MIB))
check(cu.cuCtxDestroy_v2(one))
say(); pause()
two = context()
for each in (p, q): check(cu.cuMemFreeAsync(ctypes.c_uint64(each), None))
say(); pause()
"""
    run = on_gpu(code, fikitd)
    run.line()
    assert fikitd.memory.held() == 4 * MIB
    run.go()
    run.line()
    assert fikitd.memory.held() == 0
    run.go()
    run.finish()


def test_the_last_to_detach_from_a_context_gives_back_what_it_held(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
other, one = context(), context()
kept = made(alloc(MIB))
same = ctypes.c_void_p()
check(cu.cuCtxAttach(ctypes.byref(same), 0))
assert same.value == one.value
check(cu.cuCtxDetach(one))
say()
pause()
check(cu.cuCtxDetach(one))
say(cu.cuCtxDetach(one))
pause()
"""
    run = on_gpu(code, fikitd)
    run.line()
    assert fikitd.memory.held() == MIB
    run.go()
    assert run.line() == "201"
    assert fikitd.memory.held() == 0
    run.go()
    run.finish()


def test_memory_may_be_freed_by_another_thread(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
import queue, threading
ctx = context()
work = queue.Queue()
def freeing():
    check(cu.cuCtxSetCurrent(ctx))
    while pointer := work.get(): check(free(pointer))
thread = threading.Thread(target=freeing)
thread.start()
for _ in range(300): work.put(made(alloc(MIB)))
work.put(0)
thread.join()
say()
pause()
"""
    run = on_gpu(code, fikitd)
    run.line()
    assert fikitd.memory.held() == 0
    run.go()
    run.finish()


def test_the_limit_is_what_programs_see(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(limit_bytes=100 * MIB)
    code = "check(cu.cuInit(0))\nsay(total_memory())\ncontext()\nmade(alloc(30 * MIB))\nsay(*info())"
    out, _ = on_gpu(code, fikitd).finish()
    assert out == f"{100 * MIB}\n{70 * MIB} {100 * MIB}\n"


def test_a_limit_above_the_gpu_changes_nothing(on_gpu: Start, daemon: StartDaemon) -> None:
    code = "context()\nmade(alloc(30 * MIB))\nsay(total_memory(), *info())"
    limited, _ = on_gpu(code, daemon(limit_bytes=2**40)).finish()
    free_run, _ = on_gpu(code, daemon()).finish()
    assert limited.split()[0] == free_run.split()[0] == str(2**34)
    assert limited.split()[2] == str(2**34)


def test_nvml_shows_the_limit_to_a_program_that_uses_the_gpu(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(limit_bytes=100 * MIB)
    code = """
import pynvml
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
before = pynvml.nvmlDeviceGetMemoryInfo(gpu)
context()
made(alloc(30 * MIB))
after = pynvml.nvmlDeviceGetMemoryInfo(gpu)
second = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
say(before.total, after.total, after.free, after.used)
say(second.total, second.free, second.used, second.reserved)
"""
    out, _ = on_gpu(code, fikitd).finish()
    view = f"{100 * MIB} {70 * MIB} {30 * MIB}"
    assert out == f"{100 * MIB} {view}\n{view} 0\n"


WATCHING = """
import pynvml
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
def look():
    seen = pynvml.nvmlDeviceGetMemoryInfo(gpu)
    say(seen.total, seen.used)
look()
pause()
look()
"""


def test_nvml_shows_the_limit_to_a_program_that_only_looks(on_gpu: Start, daemon: StartDaemon) -> None:
    """As nvidia-smi does: no context, no client of fikitd's; what it sees is what the job's processes hold."""
    fikitd = daemon(limit_bytes=100 * MIB)
    fikitd.memory.take()
    watching = on_gpu(WATCHING, fikitd)
    assert watching.line() == f"{100 * MIB} 0"
    fikitd.memory.set_word(0, 0, 40 * MIB)
    watching.go()
    assert watching.finish() == (f"{100 * MIB} {40 * MIB}\n", "")
    assert (fikitd.pages, len(fikitd.watchers)) == ([], 1)


def test_who_only_looks_sees_the_whole_gpu_without_limit_or_fikitd(on_gpu: Start, daemon: StartDaemon) -> None:
    out, _ = on_gpu(WATCHING.replace("pause()", ""), daemon()).finish()
    assert out == f"{2**34} 0\n" * 2
    fikitd = daemon(limit_bytes=100 * MIB)
    watching = on_gpu(WATCHING, fikitd)
    assert watching.line() == f"{100 * MIB} 0"
    fikitd.stop()
    watching.go()
    assert watching.finish() == (f"{2**34} 0\n", "")


def test_the_child_of_a_fork_looks_on_its_own(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(limit_bytes=100 * MIB)
    code = WATCHING.replace("pause()", "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)")
    out, _ = on_gpu(code, fikitd).finish()
    assert out == f"{100 * MIB} 0\n" * 3
    assert len(fikitd.watchers) == 2


THREADS = """
import threading
ctx = context()
barrier = threading.Barrier(8)
results = []
def work():
    check(cu.cuCtxSetCurrent(ctx))
    barrier.wait()
    for _ in range(40): results.append(alloc(2 * MIB)[0])
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
say(results.count(0), results.count(2))
"""


def test_threads_together_get_what_fits_and_no_more(on_gpu: Start, daemon: StartDaemon) -> None:
    out, _ = on_gpu(THREADS, daemon(limit_bytes=201 * MIB)).finish()
    assert out == "100 220\n"


def test_processes_together_get_what_fits_and_no_more(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(limit_bytes=201 * MIB)
    code = "context()\nsay()\npause()\nprint(sum(alloc(2 * MIB)[0] == 0 for _ in range(80)))\npause()"
    runs = [on_gpu(code, fikitd) for _ in range(3)]
    for run in runs:
        run.line()
    for run in runs:
        run.go()
    for run in runs:
        run.go()
    assert sum(int(run.finish()[0]) for run in runs) == 100


def test_a_freed_byte_can_be_had_by_the_other_process_at_once(on_gpu: Start, daemon: StartDaemon) -> None:
    """Two processes that both need all there is, in turns: what one freed is never missing."""
    fikitd = daemon(limit_bytes=10 * MIB)
    code = """
context()
say()
pause()
failed = 0
for _ in range(500):
    small = made(alloc(2 * MIB))
    failed += alloc(50 * MIB)[0] == 2
    check(free(small))
print(failed)
"""
    runs = [on_gpu(code, fikitd) for _ in range(2)]
    for run in runs:
        run.line()
    for run in runs:
        run.go()
    assert [run.finish()[0] for run in runs] == ["500\n", "500\n"]
    assert fikitd.memory.held(0) == fikitd.memory.held(1) == 0


def test_a_process_stopped_in_the_middle_of_a_request_counts_as_served(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(limit_bytes=10 * MIB)
    run = on_gpu("context()\nsay()\npause()\nsay(alloc(6 * MIB)[0], alloc(5 * MIB)[0])\npause()", fikitd)
    run.line()
    stopped = fikitd.memory.take()
    fikitd.memory.set_word(stopped, 1, 5 * MIB)
    run.go()
    assert run.line() == "2 0"
    assert (fikitd.memory.held(), fikitd.memory.wanted()) == (5 * MIB, 0)
    run.go()
    run.finish()


def test_a_process_held_up_in_the_middle_of_a_request_is_waited_for(on_gpu: Start, daemon: StartDaemon) -> None:
    """It has lost its core, say, and gets nothing in the end."""
    fikitd = daemon(limit_bytes=10 * MIB)
    run = on_gpu("context()\nsay()\npause()\nsay(alloc(6 * MIB)[0])\npause()", fikitd)
    run.line()
    fikitd.memory.set_word(fikitd.memory.take(), 1, 5 * MIB)
    run.go()
    time.sleep(0.2)
    fikitd.memory.set_word(fikitd.memory.taken - 1, 1, 0)
    assert run.line() == "0"
    run.go()
    run.finish()


def test_without_fikitd_there_is_no_limit(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(limit_bytes=10 * MIB)
    run = on_gpu("context()\nsay(alloc(11 * MIB)[0])\npause()\nsay(alloc(11 * MIB)[0], info()[1])", fikitd)
    assert run.line() == "2"
    fikitd.stop()
    run.go()
    out, err = run.finish()
    assert out == f"0 {2**34}\n"
    assert "fikitd is gone" in err


def test_a_captured_allocation_is_the_graphs_not_the_streams(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
context()
stream = made(call("cuStreamCreate", 0))
check(cu.cuStreamBeginCapture_v2(ctypes.c_void_p(stream), 2))
call("cuMemAllocAsync", ctypes.c_size_t(MIB), ctypes.c_void_p(stream))
say()
pause()
"""
    run = on_gpu(code, fikitd)
    run.line()
    assert fikitd.memory.held() == 0
    run.go()
    run.finish()


def test_the_child_of_a_fork_has_an_account_of_its_own(on_gpu: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
import os
context()
p = made(alloc(MIB))
if os.fork() == 0:
    free(p)
    os._exit(0)
os.wait()
say()
pause()
"""
    run = on_gpu(code, fikitd)
    run.line()
    assert fikitd.memory.held() == MIB
    run.go()
    run.finish()


def test_memory_that_goes_with_its_context_is_given_back_while_other_threads_take_its_place(
    on_gpu: Start, daemon: StartDaemon
) -> None:
    """Between the end of a context and its memory's being forgotten the driver gives the same addresses to others."""
    fikitd = daemon()
    code = """
import time
from churn_child import Others, allocations, contexts
others = Others(context(), allocations, allocations, contexts, contexts)
time.sleep(3)
others.end()
say()
pause()
"""
    run = on_gpu(code, fikitd)
    run.line()
    assert fikitd.memory.held() == 0
    run.go()
    assert run.finish() == ("", "")
