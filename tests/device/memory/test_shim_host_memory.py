"""A job with --fikit-mem-host: more memory than the emulated GPU has, for programs that notice nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from host_memory import GPU, MIB
from shim_daemon import COPY, Daemon
from shim_program import Program

pytest_plugins = ["memory_fixtures", "host_memory_fixtures"]

StartDaemon = Callable[..., Daemon]
Start = Callable[..., Program]

TOOLS = """
import os
def pattern(i): return bytes((i * 37 + j) % 251 for j in range(251)) * (8 * MIB // 251 + 1)
def fill(p, i, n=8 * MIB): check(cu.cuMemcpyHtoD_v2(ctypes.c_uint64(p), pattern(i)[:n], ctypes.c_size_t(n)))
def read(p, n=8 * MIB):
    out = ctypes.create_string_buffer(n)
    check(cu.cuMemcpyDtoH_v2(out, ctypes.c_uint64(p), ctypes.c_size_t(n)))
    return out.raw
def right(p, i, n=8 * MIB): return read(p, n) == pattern(i)[:n]
def attribute(p, number):
    out = (ctypes.c_ubyte * 8)(*[7] * 8)
    return cu.cuPointerGetAttribute(out, number, ctypes.c_uint64(p)), bytes(out)
def attributes(p, numbers):
    outs = [(ctypes.c_ubyte * 8)(*[7] * 8) for _ in numbers]
    array = (ctypes.c_void_p * len(numbers))(*[ctypes.addressof(o) for o in outs])
    return cu.cuPointerGetAttributes(len(numbers), (ctypes.c_int * len(numbers))(*numbers), array, ctypes.c_uint64(p)), [bytes(o) for o in outs]
context()
"""


@pytest.fixture
def start(on_gpu: Start, small_gpu: Path) -> Start:
    """A program on that GPU."""
    return lambda code, daemon, **env: on_gpu(TOOLS + code, daemon, **{"EMUCUDA_CONFIG": str(small_gpu), **env})


TWELVE = "buffers = [made(alloc(8 * MIB)) for _ in range(12)]\nfor i, p in enumerate(buffers): fill(p, i)\n"
ALL_RIGHT = "say(all(right(p, i) for i, p in enumerate(buffers)))\n"


def test_half_as_much_again_as_the_gpu_has_keeps_every_byte(
    start: Start, allowed: Daemon, account: Callable[[], dict[str, Any]]
) -> None:
    run = start(f"{TWELVE}{ALL_RIGHT}say(*(n // MIB for n in info()), total_memory() // MIB)\npause()", allowed)
    assert run.line() == "True"
    assert run.line() == "0 96 96"
    seen = account()
    assert (allowed.memory.held(), allowed.memory.plain()) == (96 * MIB, 0)
    assert seen["managed_bytes"] == 96 * MIB
    assert seen["resident_bytes"] == GPU * MIB
    assert seen["evicted_chunks"] > 0
    run.go()
    assert run.finish() == ("", "")


def test_beyond_what_is_on_the_gpu_and_the_host_it_is_out_of_memory(start: Start, allowed: Daemon) -> None:
    code = f"{TWELVE}say(alloc(MIB)[0], alloc(MIB)[0])\ncheck(free(buffers.pop()))\nsay(alloc(8 * MIB)[0])\n{ALL_RIGHT}"
    out, err = start(code, allowed).finish()
    assert out == "2 2\n0\nTrue\n"
    assert err == (
        "fikit: out of GPU memory: this job's limit is 48 MiB on the GPU (--fikit-mem) and 48 MiB beside it (--fikit-mem-host), "
        "its processes hold 96.0 MiB, 0.0 MiB of which cannot leave the GPU, and 1.0 MiB more were asked for; "
        "ask for a higher --fikit-mem or --fikit-mem-host.\n"
    )


def test_what_a_program_asks_about_a_pointer_is_answered_as_for_plain_memory(
    start: Start, daemon: StartDaemon, allowed: Daemon
) -> None:
    wanted = [2, 3, 4, 6, 8, 9, 12, 13, 14, 16, 17]  # not the context's address, the buffer's number and start, nor IPC
    code = f"""
p = made(alloc(2 * MIB)) + 4096
say([(a, *attribute(p, a)) for a in {wanted} if a != 3])
say(attribute(p, 3) == (0, p.to_bytes(8, "little")))
say(attributes(p, [a for a in {wanted} if a != 3]))
q = made(call("cuMemAllocManaged", ctypes.c_size_t(2 * MIB), 1))
say(attribute(q, 8)[1][0], attribute(1234, 8)[0], attribute(p, 10)[1][0])
"""
    converted, err = start(code, allowed).finish()
    plain, _ = start(code, daemon(limit_bytes=GPU * MIB)).finish()
    assert converted.splitlines()[:3] == plain.splitlines()[:3]
    assert (converted.splitlines()[3], plain.splitlines()[3]) == ("1 1 0", "1 1 1"), (
        "its own managed memory is; IPC cannot be"
    )
    assert err == ""


def test_a_copy_with_memory_that_is_out_goes_over_the_link(start: Start, allowed: Daemon, tmp_path: Path) -> None:
    """Also where the driver says "host" of what is out: which copies fikitd hears of does not depend on where a page is."""
    config = tmp_path / "told.toml"
    config.write_text(f'[device]\nmemory = "{GPU}MiB"\ncontext_memory = 0\n[managed]\nout_is_host = true\n')
    code = f"""{TWELVE}
say(attribute(buffers[0], 2)[1][0])
pause()
host = ctypes.create_string_buffer(2 * MIB)
check(cu.cuMemcpy(ctypes.c_uint64(ctypes.addressof(host)), ctypes.c_uint64(buffers[0]), ctypes.c_size_t(2 * MIB)))
check(cu.cuMemcpy(ctypes.c_uint64(buffers[1]), ctypes.c_uint64(ctypes.addressof(host)), ctypes.c_size_t(MIB)))
check(cu.cuMemcpy(ctypes.c_uint64(buffers[1]), ctypes.c_uint64(buffers[2]), ctypes.c_size_t(MIB)))
"""
    run = start(code, allowed, EMUCUDA_CONFIG=str(config))
    assert run.line() == "2", "the driver says 1, host"
    page = allowed.page()
    page.set_u32("marker_interval", 1000)
    run.go()
    assert run.finish() == ("", "")
    assert [(entry.slot, entry.value) for entry in page.of_kind(COPY)] == [(2, 2 * MIB), (1, MIB)]


def test_a_job_without_host_memory_makes_no_other_call(start: Start, daemon: StartDaemon) -> None:
    code = "p = made(alloc(8 * MIB))\nfill(p, 1)\nsay(right(p, 1), attribute(p, 8)[0])\ncheck(free(p))"
    out, err = start(code, daemon(limit_bytes=GPU * MIB), EMUCUDA_LOG="1").finish()
    assert out == "True 0\n"
    assert "cuMemAlloc_v2" in err
    for call in ("cuMemAllocManaged", "cuMemAdvise", "cuMemGetAddressRange", "cuDeviceGetCount"):
        assert call not in err


def test_small_memory_and_what_cannot_be_converted_stays_on_the_gpu(start: Start, allowed: Daemon) -> None:
    code = """
small = made(alloc(MIB - 1))
big = made(alloc(40 * MIB))
own = made(from_pool(40 * MIB))
say()
pause()
say(from_pool(8 * MIB)[0], alloc(8 * MIB)[0], cu.cuMemAlloc_v2(None, ctypes.c_size_t(2 * MIB)), cu.cuMemAllocAsync(None, ctypes.c_size_t(2 * MIB), None))
"""
    run = start(code, allowed)
    run.line()
    assert (allowed.memory.held(), allowed.memory.plain()) == (81 * MIB - 1, 41 * MIB - 1)
    run.go()
    out, err = run.finish()
    assert out == "2 0 1 1\n"
    assert "8.0 MiB more were asked for" in err
    assert "41.0 MiB of which cannot leave the GPU" in err
    assert "ask for a higher --fikit-mem.\n" in err


def test_memory_for_another_process_is_plain_from_the_first_time_that_it_is_wanted(
    start: Start, allowed: Daemon
) -> None:
    code = """
def handle(p): return cu.cuIpcGetMemHandle(ctypes.create_string_buffer(64), ctypes.c_uint64(p))
first, small = made(alloc(2 * MIB)), made(alloc(4096))
fill(first, 3, 2 * MIB)
say(handle(small), handle(first), handle(12345))
second = made(alloc(2 * MIB))
say(handle(second), right(first, 3, 2 * MIB), attribute(second, 8)[1][0])
"""
    out, err = start(code, allowed).finish()
    assert out == "0 1 1\n0 True 0\n"
    assert err == (
        "fikit: this program's GPU memory stays on the GPU from here on, and --fikit-mem alone is what it may have: it hands memory to "
        "other processes (cuIpcGetMemHandle), which fails for what it had before; submit it without --fikit-mem-host.\n"
    )


def test_a_program_that_sees_several_gpus_keeps_its_memory_on_one(
    on_gpu: Start, allowed: Daemon, tmp_path: Path
) -> None:
    config = tmp_path / "two.toml"
    config.write_text('[device]\ncount = 2\nmemory = "64MiB"\ncontext_memory = 0\n')
    code = f"{TOOLS}p = made(alloc(8 * MIB))\nsay(attribute(p, 4)[0], alloc(48 * MIB)[0])"
    out, err = on_gpu(code, allowed, EMUCUDA_CONFIG=str(config)).finish()
    assert out == "1 2\n"
    assert "it sees several GPUs.\n" in err


def test_frees_of_every_kind_give_it_back(start: Start, allowed: Daemon) -> None:
    code = """
a, b, c = (made(alloc(8 * MIB)) for _ in range(3))
say(free(a), free(a) != 0, free_async(b), free_async(b) != 0)
d = made(pitched(1000, 8192))
found = attribute(d, 8)[1][0], attribute(d, 12)[1] == (8 * MIB).to_bytes(8, "little")
check(free(d))
say(*found)
pause()
check(cu.cuCtxDestroy_v2(current()))
say()
pause()
context()
say(*(attribute(made(managed(8 * MIB)), 8)[1][0] for _ in range(4)))
"""
    current = """
def current():
    c = ctypes.c_void_p()
    check(cu.cuCtxGetCurrent(ctypes.byref(c)))
    return c
"""
    run = start(current + code, allowed)
    assert run.line() == "0 True 0 True"
    assert run.line() == "0 True"
    assert (allowed.memory.held(), allowed.memory.plain()) == (8 * MIB, 0)
    run.go()
    run.line()
    assert allowed.memory.held() == 0
    run.go()
    assert run.finish() == ("1 1 1 1\n", ""), "where the freed memory was is other memory now"


def test_a_killed_daemon_costs_neither_bytes_nor_memory(start: Start, allowed: Daemon) -> None:
    code = f"{TWELVE}say()\npause()\nmore = made(alloc(16 * MIB))\nfill(more, 77)\nsay(right(more, 77))\n{ALL_RIGHT}"
    run = start(code, allowed)
    run.line()
    allowed.stop()
    run.go()
    out, err = run.finish()
    assert out == "True\nTrue\n"
    assert "out of GPU memory" not in err


def test_a_fork_leaves_its_parents_memory_alone(start: Start, allowed: Daemon) -> None:
    code = f"""{TWELVE}
child = os.fork()
if child == 0:
    os._exit(0 if alloc(8 * MIB)[0] != 0 and attribute(buffers[0], 8)[0] != 0 else 1)
say(os.waitpid(child, 0)[1])
{ALL_RIGHT}check(free(buffers[0]))
say(alloc(8 * MIB)[0])
"""
    assert start(code, allowed).finish() == ("0\nTrue\n0\n", "")


GRAPH = """
PTX = (b".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry emu_increment(.param .u64 p)\\n{\\n ret;\\n}\\n\\0")
module, function, stream, graph, exec_ = (ctypes.c_void_p() for _ in range(5))
check(cu.cuModuleLoadData(ctypes.byref(module), PTX))
check(cu.cuModuleGetFunction(ctypes.byref(function), module, b"emu_increment"))
check(cu.cuStreamCreate(ctypes.byref(stream), 1))
counter = made(alloc(8 * MIB))
check(cu.cuMemsetD8_v2(ctypes.c_uint64(counter), 0, ctypes.c_size_t(8 * MIB)))
argument = ctypes.c_uint64(counter)
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
check(cu.cuStreamBeginCapture_v2(stream, 0))
say(alloc(8 * MIB)[0])
check(cu.cuStreamEndCapture(stream, ctypes.byref(graph)) * 0)
check(cu.cuStreamBeginCapture_v2(stream, 0))
check(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None))
check(cu.cuStreamEndCapture(stream, ctypes.byref(graph)))
check(cu.cuGraphInstantiateWithFlags(ctypes.byref(exec_), graph, ctypes.c_uint64(0)))
"""


def test_graphs_and_captures_work_under_eviction(
    start: Start, allowed: Daemon, account: Callable[[], dict[str, Any]]
) -> None:
    code = f"""{GRAPH}
buffers = [made(alloc(8 * MIB)) for _ in range(11)]
for _ in range(3):
    for i, p in enumerate(buffers): fill(p, i)
    check(cu.cuGraphLaunch(exec_, stream))
    check(cu.cuStreamSynchronize(stream))
say(int.from_bytes(read(counter, 4), "little"))
{ALL_RIGHT}pause()
"""
    run = start(code, allowed)
    assert [run.line() for _ in range(3)] == ["900", "3", "True"]
    assert account()["moved_in_bytes"] >= 3 * 8 * MIB
    run.go()
    assert run.finish() == ("", "")


def test_a_page_that_says_anything_breaks_nothing(start: Start, daemon: StartDaemon) -> None:
    hostile = daemon(limit_bytes=2**64 - 1, host_bytes=2**64 - 1)
    hostile.memory.set_word(5, 3, 2**64 - 1)
    out, err = start(f"{TWELVE}{ALL_RIGHT}say(info()[1] > 0, alloc(2**62)[0])", hostile).finish()
    assert (out, err) == ("True\nTrue 2\n", "")


CLIENT = """
import numpy as np
from tinygrad import Tensor
tensors, numbers = [], []
for i in range(12):
    numbers.append(np.random.default_rng(i).integers(0, 2**31, 2 * 2**20, dtype=np.int32))
    tensors.append(Tensor(numbers[-1], device="CUDA").realize())
print(all((t.numpy() == n).all() for t, n in zip(tensors, numbers)))
"""


def test_an_unmodified_client_has_every_byte_of_all_its_buffers(
    start: Start, allowed: Daemon, account: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    pytest.importorskip("tinygrad")
    out, err = start(CLIENT, allowed, XDG_CACHE_HOME=str(tmp_path), HOME=str(tmp_path)).finish()
    assert out == "True\n", err
    seen = account()
    assert seen["evicted_chunks"] > 0
    assert seen["moved_out_bytes"] >= 32 * MIB
