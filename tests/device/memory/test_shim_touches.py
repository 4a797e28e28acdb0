"""What the shim says of the memory that a launch's arguments name: on the emulated GPU, to a fake daemon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from shim_daemon import TOUCH, TOUCHES, Daemon, Page
from shim_program import Program

pytest_plugins = ["memory_fixtures"]

MIB = 2**20
PAGES = MIB // 4096  # of a MiB
StartDaemon = Callable[..., Daemon]
Start = Callable[..., Program]

PTX = """
ptx = b'''.version 8.0
.target sm_90
.address_size 64
.visible .entry two(.param .u32 n, .param .u64 a, .param .u64 b) { ret; }
.visible .entry many(.param .u32 n, .param .align 8 .b8 list[1024], .param .u32 last) { ret; }
.visible .entry odd(.param .align 4 .b8 mixed[12]) { ret; }
.visible .entry behind(.param .u32 n, .param .align 4 .b8 mixed[12]) { ret; }
.visible .entry none() { ret; }
'''
context()
module = made(call("cuModuleLoadData", ptx))
def function(name): return ctypes.c_void_p(made(call("cuModuleGetFunction", ctypes.c_void_p(module), name)))
def kernel(name):
    library = made(call("cuLibraryLoadData", ptx, None, None, 0, None, None, 0))
    return ctypes.c_void_p(made(call("cuLibraryGetKernel", ctypes.c_void_p(library), name)))
def u64(n): return ctypes.c_uint64(n)
def pointers(values): return (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
def launch(f, *values, extra=None):
    check(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, None, pointers(values) if values else None, extra))
    check(cu.cuCtxSynchronize())
class Many(ctypes.Structure): _fields_ = (("p", ctypes.c_uint64 * 128),)
"""


@pytest.fixture
def measured(daemon: StartDaemon) -> Daemon:
    return daemon(measure=True)


def touches(page: Page) -> list[tuple[int, list[tuple[int, int, int]]]]:
    """Of each launch that was looked at: its number, and (allocation, page in it, its pages)."""
    ring = page.ring()
    said = [(entry.t_ns, entry.value) for entry in ring if entry.kind == TOUCHES]
    found = []
    for number, count in said:
        places = [
            (entry.slot, entry.value & 0xFFFFFFFF, entry.value >> 32)
            for entry in ring
            if entry.kind == TOUCH and entry.t_ns == number
        ]
        assert len(places) == count
        found.append((number, places))
    return found


def run(start: Start, daemon: Daemon, code: str, **env: str) -> Any:
    out, err = start(PTX + code, daemon, **env).finish()
    assert err == "", err
    return touches(daemon.page()), out


def test_pointers_are_found_by_begin_and_inside(start: Start, measured: Daemon) -> None:
    code = """
a, b, small = made(alloc(2 * MIB)), made(alloc(3 * MIB)), made(alloc(4096))
f = function(b"two")
launch(f, u64(7), u64(a), u64(b + MIB + 100))
launch(f, u64(a), u64(small), u64(b + 3 * MIB))
"""
    seen, _ = run(start, measured, code)
    assert seen == [(1, [(0, 0, 2 * PAGES), (1, PAGES, 3 * PAGES)]), (2, [])]


@pytest.fixture
def start(on_gpu: Start) -> Start:
    return on_gpu


def test_words_of_structures_count_each_place_once(start: Start, measured: Daemon) -> None:
    code = """
a, b = made(alloc(2 * MIB)), made(alloc(2 * MIB))
launch(function(b"many"), u64(1), Many((ctypes.c_uint64 * 128)(a, b, a, 5, b + 4096, b + 4100)), u64(0))
class Mixed(ctypes.Structure): _fields_, _pack_ = (("n", ctypes.c_uint32), ("p", ctypes.c_uint64)), 4
launch(function(b"odd"), Mixed(1, a))
launch(function(b"behind"), u64(1), Mixed(1, a))
launch(function(b"none"), u64(a))
"""
    seen, _ = run(start, measured, code)
    both = [(0, 0, 2 * PAGES), (1, 0, 2 * PAGES), (1, 1, 2 * PAGES)]
    at_eight = [(0, 0, 2 * PAGES)]
    assert seen == [(1, both), (2, []), (3, at_eight), (4, [])], "counted from the begin of all parameters"


def test_a_launch_says_no_more_places_than_it_may(start: Start, measured: Daemon) -> None:
    code = """
a = made(alloc(4 * MIB))
launch(function(b"many"), u64(1), Many((ctypes.c_uint64 * 128)(*[a + 4096 * i for i in range(128)])), u64(0))
"""
    ((_, places),), _ = run(start, measured, code)
    assert [page for _, page, _ in places] == list(range(64))


def test_arguments_in_one_block_are_read_as_far_as_it_goes(start: Start, measured: Daemon) -> None:
    code = """
a, b = made(alloc(2 * MIB)), made(alloc(2 * MIB))
def block(*words, bytes_=None):
    values = (ctypes.c_uint64 * len(words))(*words)
    size = ctypes.c_size_t(bytes_ or ctypes.sizeof(values))
    keep.append((values, size))
    return (ctypes.c_void_p * 5)(1, ctypes.addressof(values), 2, ctypes.addressof(size), 0)
keep = []
launch(function(b"two"), extra=block(1, a, b))
"""
    seen, _ = run(start, measured, code)
    assert seen == [(1, [(0, 0, 2 * PAGES), (1, 0, 2 * PAGES)])]


def test_kernels_of_libraries_and_launches_with_attributes_say_it_too(start: Start, measured: Daemon) -> None:
    code = """
a, b = made(alloc(2 * MIB)), made(alloc(2 * MIB))
launch(kernel(b"two"), u64(1), u64(b), u64(a))
class Config(ctypes.Structure):
    _fields_ = (("shape", ctypes.c_uint * 7), ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint))
config = Config((ctypes.c_uint * 7)(1, 1, 1, 1, 1, 1, 0))
values = u64(1), u64(a), u64(0)
check(cu.cuLaunchKernelEx(ctypes.byref(config), function(b"two"), pointers(values), None))
check(cu.cuCtxSynchronize())
"""
    seen, _ = run(start, measured, code)
    assert seen == [(1, [(1, 0, 2 * PAGES), (0, 0, 2 * PAGES)]), (2, [(0, 0, 2 * PAGES)])]


def test_memory_of_a_size_has_the_lowest_number_that_is_free(start: Start, measured: Daemon) -> None:
    """So an iteration that allocates and frees has the same numbers each time."""
    code = """
f = function(b"two")
for i in range(3):
    x, y, z = made(alloc(2 * MIB)), made(alloc(5 * MIB)), made(alloc(2 * MIB))
    launch(f, u64(1), u64(z), u64(y))
    for p in (x, y, z) if i % 2 else (z, x, y): check(free(p))
w = made(alloc(3 * MIB))
launch(f, u64(1), u64(w), u64(0))
"""
    seen, _ = run(start, measured, code)
    assert [[number for number, _, _ in places] for _, places in seen] == [[2, 1], [2, 1], [2, 1], [3]]


def test_what_a_lost_context_had_is_gone(start: Start, measured: Daemon) -> None:
    code = """
first = context()
made(alloc(4 * MIB))
a = made(alloc(2 * MIB))
check(cu.cuCtxDestroy_v2(first))
context()
module = made(call("cuModuleLoadData", ptx))
b = made(alloc(2 * MIB))
launch(function(b"two"), u64(1), u64(b), u64(a if a != b else 0))
"""
    seen, _ = run(start, measured, code)
    assert seen == [(1, [(1, 0, 2 * PAGES)])], "the number of what was as large and is gone"


def test_a_job_that_may_have_more_than_the_gpu_says_it_of_what_is_sampled(start: Start, daemon: StartDaemon) -> None:
    code = """
a, b, f = made(alloc(2 * MIB)), made(managed(3 * MIB)), function(b"two")
for _ in range(300): launch(f, u64(1), u64(a), u64(b))
"""
    sampled = daemon(sample_every=4, limit_bytes=48 * MIB, host_bytes=48 * MIB)
    seen, _ = run(start, sampled, code)
    assert 2 <= len(seen) < 150
    assert {tuple(places) for _, places in seen} == {((0, 0, 2 * PAGES), (1, 0, 3 * PAGES))}


@pytest.mark.parametrize("options", [{"sample_every": 4}, {"limit_bytes": 48 * MIB, "host_bytes": 48 * MIB}])
def test_other_jobs_ask_the_driver_nothing(start: Start, daemon: StartDaemon, options: dict[str, int]) -> None:
    """Neither one whose memory is not moved, nor one of which nothing is timed."""
    code = 'a, f = made(alloc(2 * MIB)), function(b"two")\nfor _ in range(60): launch(f, u64(1), u64(a), u64(a))\n'
    fikitd = daemon(**options)
    _, calls = start(PTX + code, fikitd, EMUCUDA_LOG="1").finish()
    assert touches(fikitd.page()) == []
    assert "cuLaunchKernel" in calls
    assert "ParamInfo" not in calls


def test_a_fork_knows_nothing_of_its_parents_memory(start: Start, measured: Daemon) -> None:
    code = """
import os
a = made(alloc(2 * MIB))
if os.fork() == 0:
    os._exit(0)
os.wait()
launch(function(b"two"), u64(1), u64(a), u64(0))
"""
    seen, _ = run(start, measured, code)
    assert seen == [(1, [(0, 0, 2 * PAGES)])]
