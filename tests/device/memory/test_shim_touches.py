"""What the shim says of the memory that a launch's arguments name, and copies before it: on the emulated GPU, to a fake daemon."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from shim_daemon import FREED, Daemon, touches
from touching_program import BUFFERS, MIB, PAGES, Start, touched

pytest_plugins = ["touching_fixtures"]

StartDaemon = Callable[..., Daemon]


def test_pointers_are_found_by_begin_and_inside(touching: Start, measured: Daemon) -> None:
    code = """
a, b, small = made(alloc(2 * MIB)), made(alloc(3 * MIB)), made(alloc(4096))
f = function(b"two")
launch(f, u64(7), u64(a), u64(b + MIB + 100))
launch(f, u64(a), u64(small), u64(b + 3 * MIB))
"""
    seen, _ = touched(touching, measured, code)
    assert seen == [(1, [(0, 0, 2 * PAGES), (1, PAGES, 3 * PAGES)]), (2, [])]


def test_words_of_structures_count_each_place_once(touching: Start, measured: Daemon) -> None:
    code = """
a, b = made(alloc(2 * MIB)), made(alloc(2 * MIB))
launch(function(b"many"), u64(1), Many((ctypes.c_uint64 * 128)(a, b, a, 5, b + 4096, b + 4100)), u64(0))
class Mixed(ctypes.Structure): _fields_, _pack_ = (("n", ctypes.c_uint32), ("p", ctypes.c_uint64)), 4
launch(function(b"odd"), Mixed(1, a))
launch(function(b"behind"), u64(1), Mixed(1, a))
launch(function(b"none"), u64(a))
"""
    seen, _ = touched(touching, measured, code)
    both = [(0, 0, 2 * PAGES), (1, 0, 2 * PAGES), (1, 1, 2 * PAGES)]
    at_eight = [(0, 0, 2 * PAGES)]
    assert seen == [(1, both), (2, []), (3, at_eight), (4, [])], "counted from the begin of all parameters"


def test_a_launch_says_no_more_places_than_it_may(touching: Start, measured: Daemon) -> None:
    code = """
a = made(alloc(4 * MIB))
launch(function(b"many"), u64(1), Many((ctypes.c_uint64 * 128)(*[a + 4096 * i for i in range(128)])), u64(0))
"""
    ((_, places),), _ = touched(touching, measured, code)
    assert [page for _, page, _ in places] == list(range(64))


def test_arguments_in_one_block_are_read_as_far_as_it_goes(touching: Start, measured: Daemon) -> None:
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
    seen, _ = touched(touching, measured, code)
    assert seen == [(1, [(0, 0, 2 * PAGES), (1, 0, 2 * PAGES)])]


def test_kernels_of_libraries_and_launches_with_attributes_say_it_too(touching: Start, measured: Daemon) -> None:
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
    seen, _ = touched(touching, measured, code)
    assert seen == [(1, [(1, 0, 2 * PAGES), (0, 0, 2 * PAGES)]), (2, [(0, 0, 2 * PAGES)])]


def test_memory_of_a_size_has_the_lowest_number_that_is_free(touching: Start, measured: Daemon) -> None:
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
    seen, _ = touched(touching, measured, code)
    assert [[number for number, _, _ in places] for _, places in seen] == [[2, 1], [2, 1], [2, 1], [3]]


def test_what_a_lost_context_had_is_gone(touching: Start, measured: Daemon) -> None:
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
    seen, _ = touched(touching, measured, code)
    assert seen == [(1, [(1, 0, 2 * PAGES)])], "the number of what was as large and is gone"


def test_a_job_that_may_have_more_than_the_gpu_says_it_of_what_is_sampled(touching: Start, daemon: StartDaemon) -> None:
    code = """
a, b, f = made(alloc(2 * MIB)), made(managed(3 * MIB)), function(b"two")
for _ in range(300): launch(f, u64(1), u64(a), u64(b))
"""
    sampled = daemon(sample_every=4, limit_bytes=48 * MIB, host_bytes=48 * MIB)
    seen, _ = touched(touching, sampled, code)
    assert 2 <= len(seen) < 150
    assert {tuple(places) for _, places in seen} == {((0, 0, 2 * PAGES), (1, 0, 3 * PAGES))}


@pytest.mark.parametrize("options", [{"sample_every": 4}, {"limit_bytes": 48 * MIB, "host_bytes": 48 * MIB}])
def test_other_jobs_ask_the_driver_nothing(touching: Start, daemon: StartDaemon, options: dict[str, int]) -> None:
    """Neither one whose memory is not moved, nor one of which nothing is timed."""
    code = 'a, f = made(alloc(2 * MIB)), function(b"two")\nfor _ in range(60): launch(f, u64(1), u64(a), u64(a))\n'
    fikitd = daemon(**options)
    _, calls = touching(code, fikitd, EMUCUDA_LOG="1").finish()
    assert touches(fikitd.page()) == []
    assert "cuLaunchKernel" in calls
    assert "ParamInfo" not in calls


def test_a_fork_knows_nothing_of_its_parents_memory(touching: Start, measured: Daemon) -> None:
    code = """
import os
a = made(alloc(2 * MIB))
if os.fork() == 0:
    os._exit(0)
os.wait()
launch(function(b"two"), u64(1), u64(a), u64(0))
"""
    seen, _ = touched(touching, measured, code)
    assert seen == [(1, [(0, 0, 2 * PAGES)])]


BATCHED = [(0, 0, 512, 2), (1, 0, 768, 2), (1, 256, 768, 1), (0, 256, 512, 1)]
COPIES = {
    "cuMemcpyHtoD_v2(u64(a + 4096), host, bytes_(8193))": [(0, 1, 512, 3)],
    "cuMemcpyHtoD_v2_ptds(u64(a + 4095), host, bytes_(2))": [(0, 0, 512, 2)],
    "cuMemcpyHtoDAsync_v2(u64(a), host, bytes_(4096), None)": [(0, 0, 512, 1)],
    "cuMemcpyHtoDAsync_v2_ptsz(u64(a), host, bytes_(2 * MIB), None)": [(0, 0, 512, 512)],
    "cuMemcpyDtoH_v2(host, u64(b), bytes_(4097))": [(1, 0, 768, 2)],
    "cuMemcpyDtoH_v2_ptds(host, u64(b + MIB), bytes_(1))": [(1, 256, 768, 1)],
    "cuMemcpyDtoHAsync_v2(host, u64(b), bytes_(4096), None)": [(1, 0, 768, 1)],
    "cuMemcpyDtoHAsync_v2_ptsz(host, u64(b), bytes_(4096), None)": [(1, 0, 768, 1)],
    "cuMemcpy(u64(a), u64(ctypes.addressof(host)), bytes_(4096))": [(0, 0, 512, 1)],
    "cuMemcpy_ptds(u64(b), u64(a), bytes_(4096))": [(1, 0, 768, 1), (0, 0, 512, 1)],
    "cuMemcpyAsync(u64(b), u64(a), bytes_(4096), None)": [(1, 0, 768, 1), (0, 0, 512, 1)],
    "cuMemcpyAsync_ptsz(u64(ctypes.addressof(host)), u64(a), bytes_(4096), None)": [(0, 0, 512, 1)],
    "cuMemcpyDtoD_v2(u64(a), u64(b + MIB), bytes_(MIB))": [(0, 0, 512, 256), (1, 256, 768, 256)],
    "cuMemcpyDtoD_v2_ptds(u64(a), u64(b), bytes_(4096))": [(0, 0, 512, 1), (1, 0, 768, 1)],
    "cuMemcpyDtoDAsync_v2(u64(a), u64(b), bytes_(4096), None)": [(0, 0, 512, 1), (1, 0, 768, 1)],
    "cuMemcpyDtoDAsync_v2_ptsz(u64(a), u64(b), bytes_(4096), None)": [(0, 0, 512, 1), (1, 0, 768, 1)],
    "cuMemsetD8_v2(u64(a), 1, bytes_(4097))": [(0, 0, 512, 2)],
    "cuMemsetD16_v2_ptds(u64(a + 4096), 1, bytes_(2049))": [(0, 1, 512, 2)],
    "cuMemsetD32Async(u64(a), 1, bytes_(2048), None)": [(0, 0, 512, 2)],
    "cuMemsetD32Async_ptsz(u64(a), 1, bytes_(2048), None)": [(0, 0, 512, 2)],
    "cuMemsetD2D8_v2(u64(a), bytes_(4096), 1, bytes_(1), bytes_(3))": [(0, 0, 512, 3)],
    "cuMemsetD2D16_v2_ptds(u64(a), bytes_(4096), 1, bytes_(2049), bytes_(1))": [(0, 0, 512, 2)],
    "cuMemsetD2D32Async(u64(a + 512), bytes_(4096), 1, bytes_(800), bytes_(2), None)": [(0, 0, 512, 2)],
    "cuMemsetD2D32Async_ptsz(u64(a), bytes_(4096), 1, bytes_(4), bytes_(4), None)": [(0, 0, 512, 4)],
    "cuMemcpy2D_v2(rows(HOST, DEVICE))": [(1, 3, 768, 3)],
    "cuMemcpy2D_v2_ptds(rows(DEVICE, HOST))": [(0, 1, 512, 3)],
    "cuMemcpy2DUnaligned_v2(rows(DEVICE, DEVICE))": [(0, 1, 512, 3), (1, 3, 768, 3)],
    "cuMemcpy2DUnaligned_v2_ptds(rows(UNIFIED, UNIFIED))": [(0, 1, 512, 3), (1, 3, 768, 3)],
    "cuMemcpy2DAsync_v2(rows(DEVICE, HOST), None)": [(0, 1, 512, 3)],
    "cuMemcpy2DAsync_v2_ptsz(rows(HOST, DEVICE), None)": [(1, 3, 768, 3)],
    "cuMemcpy3D_v2(box(HOST, DEVICE))": [(1, 3, 768, 6)],
    "cuMemcpy3D_v2_ptds(box(DEVICE, HOST))": [(0, 1, 512, 6)],
    "cuMemcpy3DAsync_v2(box(UNIFIED, DEVICE), None)": [(0, 1, 512, 6), (1, 3, 768, 6)],
    "cuMemcpy3DAsync_v2_ptsz(box(DEVICE, HOST), None)": [(0, 1, 512, 6)],
    "cuMemcpyPeer(u64(a), here, u64(b), here, bytes_(4097))": [(0, 0, 512, 2), (1, 0, 768, 2)],
    "cuMemcpyPeer_ptds(u64(a), here, u64(b), here, bytes_(1))": [(0, 0, 512, 1), (1, 0, 768, 1)],
    "cuMemcpyPeerAsync(u64(b), here, u64(a), here, bytes_(1), None)": [(1, 0, 768, 1), (0, 0, 512, 1)],
    "cuMemcpyPeerAsync_ptsz(u64(b), here, u64(a), here, bytes_(1), None)": [(1, 0, 768, 1), (0, 0, 512, 1)],
    "cuMemcpy3DPeer(box(DEVICE, DEVICE, here.value))": [(0, 1, 512, 6), (1, 3, 768, 6)],
    "cuMemcpy3DPeer_ptds(box(HOST, DEVICE, here.value))": [(1, 3, 768, 6)],
    "cuMemcpy3DPeerAsync(box(DEVICE, HOST, here.value), None)": [(0, 1, 512, 6)],
    "cuMemcpy3DPeerAsync_ptsz(box(DEVICE, HOST, here.value), None)": [(0, 1, 512, 6)],
    "cuMemcpyBatchAsync(*batch((a, b, 4097), (b + MIB, a + MIB, 1)), None, own)": BATCHED,
    "cuMemcpyBatchAsync_ptsz(*batch((a, b, 4097), (b + MIB, a + MIB, 1)), None, own)": BATCHED,
    "cuMemcpyBatchAsync_v2(*batch((a, b, 4097), (b + MIB, a + MIB, 1)), own)": BATCHED,
    "cuMemcpyBatchAsync_v2_ptsz(*batch((a, b, 4097), (b + MIB, a + MIB, 1)), own)": BATCHED,
}


@pytest.mark.parametrize("call", COPIES)
def test_copies_and_memsets_are_said_of_the_next_launch_with_their_length(
    call: str, touching: Start, measured: Daemon
) -> None:
    code = f"{BUFFERS}done(cu.{call})\nlaunch(f, u64(1), u64(b), u64(0))\nlaunch(f, u64(1), u64(b), u64(0))\n"
    seen, _ = touched(touching, measured, code)
    named = (1, 0, 3 * PAGES)
    assert seen == [(1, [*COPIES[call], named]), (2, [named])]


def test_no_copy_at_all_is_the_drivers_business(touching: Start, measured: Daemon) -> None:
    batch = "None, None, None, bytes_(1), None, None, bytes_(0), own"
    calls = "cu.cuMemcpy3D_v2(None)", "cu.cuMemcpy3DPeer(None)", f"cu.cuMemcpyBatchAsync_v2({batch})"
    code = f"{BUFFERS}say([0 != result for result in ({', '.join(calls)})])"
    assert touched(touching, measured, code) == ([], "[True, True, True]\n")


def test_each_launch_has_the_copies_before_it_and_what_follows_at_once_is_one_place(
    touching: Start, measured: Daemon
) -> None:
    code = f"""{BUFFERS}
def copy(at, n=4096): done(cu.cuMemcpyHtoDAsync_v2(u64(at), host, bytes_(n), None))
for i in range(300): copy(a + 4096 * i)
copy(b, 0)
launch(f, u64(1), u64(0), u64(0))
for i in range(40): copy(b + 8192 * i)
launch(f, u64(1), u64(0), u64(a))
copy(b)
small = made(alloc(4096))
copy(small)
check(free(b))
launch(f, u64(1), u64(0), u64(0))
"""
    seen, _ = touched(touching, measured, code)
    others = [(1, 2 * i, 3 * PAGES, 1) for i in range(32)]
    assert seen == [(1, [(0, 0, 2 * PAGES, 300)]), (2, [*others, (0, 0, 2 * PAGES)]), (3, [])]


def test_copies_before_a_launch_that_is_not_looked_at_are_nobodys(touching: Start, daemon: StartDaemon) -> None:
    """As a programmatic dependent launch of a known kernel, which an event would keep from its overlap."""
    code = f"""{BUFFERS}
class Attribute(ctypes.Structure): _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16))
class Config(ctypes.Structure):
    _fields_ = (("shape", ctypes.c_uint * 7), ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint))
serial = Attribute(6, 0, (ctypes.c_int * 16)(1))
dependent = Config((ctypes.c_uint * 7)(2, 1, 1, 1, 1, 1, 0), None, ctypes.addressof(serial), 1)
values = u64(1), u64(0), u64(0)
def round():
    check(cu.cuMemsetD8Async(u64(a), 1, bytes_(4096), None))
    check(cu.cuLaunchKernelEx(ctypes.byref(dependent), f, pointers(values), None))
    launch(f, u64(1), u64(b), u64(0))
    launch(function(b"none"), u64(0))
round()
say('all known')
pause()
import time
for _ in range(120):
    time.sleep(0.005) # earns what samples cost
    round()
"""
    sampled = daemon(sample_every=1, limit_bytes=48 * MIB, host_bytes=48 * MIB)
    program = touching(code, sampled)
    assert program.line() == "all known"
    sampled.page().knows_all()
    program.go()
    assert program.finish() == ("", "")
    seen = [places for number, places in touches(sampled.page()) if number > 3 and places]
    assert seen
    assert {tuple(places) for places in seen} == {((1, 0, 3 * PAGES),)}


def test_a_memset_that_is_a_launch_says_what_it_touches(touching: Start, measured: Daemon) -> None:
    """Where processes take turns on the device: fills_ask of the page."""
    code = f"""{BUFFERS}
say()
pause()
done(cu.cuMemsetD8Async(u64(a), 1, bytes_(8192), None))
done(cu.cuMemcpyDtoDAsync_v2(u64(a + 4096), u64(b), bytes_(4096), None))
launch(f, u64(1), u64(a), u64(0))
"""
    program = touching(code, measured)
    program.line()
    measured.page().set_u32("fills_ask", 1)
    program.go()
    assert program.finish() == ("", "")
    both = [(0, 1, 2 * PAGES, 1), (1, 0, 3 * PAGES, 1)]
    assert touches(measured.page()) == [(1, [(0, 0, 2 * PAGES, 2)]), (2, both), (3, [(0, 0, 2 * PAGES)])]


def test_copies_of_a_sampled_job_are_said_of_the_launches_that_are_looked_at(
    touching: Start, daemon: StartDaemon
) -> None:
    code = f"""{BUFFERS}
for i in range(300):
    check(cu.cuMemsetD8Async(u64(a), 1, bytes_(4096 * (1 + i % 2)), None))
    launch(f, u64(1), u64(b), u64(0))
"""
    sampled = daemon(sample_every=4, limit_bytes=48 * MIB, host_bytes=48 * MIB)
    seen, _ = touched(touching, sampled, code)
    assert 2 <= len(seen) < 150
    with_copies = [(number, places) for number, places in seen if len(places) == 2]
    assert seen[0] == (1, [(1, 0, 3 * PAGES)]), "the first of a kernel is looked at, and nobody knew that before"
    assert len(with_copies) == len(seen) - 1
    assert all(places[0] == (0, 0, 2 * PAGES, 2 - number % 2) for number, places in with_copies)


def test_what_the_driver_refuses_and_what_is_captured_costs_nothing(touching: Start, measured: Daemon) -> None:
    code = f"""{BUFFERS}
say(cu.cuMemsetD32Async(u64(b), 1, bytes_(2**40), None) != 0, cu.cuMemcpy2D_v2(None) != 0)
stream, graph = ctypes.c_void_p(made(call("cuStreamCreate", 1))), ctypes.c_void_p()
check(cu.cuStreamBeginCapture_v2(stream, 0))
check(cu.cuMemsetD8Async(u64(a), 1, bytes_(4096), stream))
check(cu.cuStreamEndCapture(stream, ctypes.byref(graph)))
launch(f, u64(1), u64(a), u64(0))
"""
    out, err = touching(code, measured, EMUCUDA_FAULTS="call=cuMemsetD32Async error=1").finish()
    assert (out, err.count("\n")) == ("True True\n", 1), err
    assert touches(measured.page()) == [(1, [(1, 0, 3 * PAGES, 768), (0, 0, 2 * PAGES)])], "as far as the memory goes"


def test_memory_that_is_given_back_is_told_behind_which_launch(touching: Start, measured: Daemon) -> None:
    code = """
a, b, small = made(alloc(2 * MIB)), made(alloc(3 * MIB)), made(alloc(4096))
f = function(b"two")
launch(f, u64(7), u64(a), u64(b))
check(cu.cuMemFree_v2(u64(small)))
check(cu.cuMemFree_v2(u64(b)))
launch(f, u64(7), u64(a), u64(made(alloc(3 * MIB))))
check(cu.cuMemFree_v2(u64(a)))
"""
    seen, _ = touched(touching, measured, code)
    assert seen[1] == (2, [(0, 0, 2 * PAGES), (1, 0, 3 * PAGES)]), "the number goes to memory of that size again"
    assert [(entry.t_ns, entry.slot) for entry in measured.page().ring() if entry.kind == FREED] == [(1, 1), (2, 0)]


def test_of_jobs_of_which_nothing_is_learnt_nothing_is_told(touching: Start, daemon: StartDaemon) -> None:
    other = daemon()
    touched(touching, other, "check(cu.cuMemFree_v2(u64(made(alloc(2 * MIB)))))")
    assert not [entry for entry in other.page().ring() if entry.kind == FREED]
