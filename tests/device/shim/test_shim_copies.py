"""Copies between host and device: reported while others share the GPU; a long one waits at a closed gate where fikitd wants it to."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from shim_copies import CALLS as WORK
from shim_daemon import COPY, DONE, DRAINED, EXPIRED, LAUNCH, LONGEST_LEASE_S, Daemon, Page, wait_for
from shim_program import Program
from shim_table import TABLE

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]

MIB = 1 << 20
IN, OUT = 1, 2
# The calls that programs make all the time; test_shim_every_call.py has the others.
OFTEN = re.compile(r"cuMemcpy((HtoD|DtoH)(Async)?|2D(Unaligned|Async)?|Async)?(_v2)?(_pt[sd][sz])?")
SYMBOLS = [symbol for symbol, treatment in TABLE.handled.items() if treatment == "COPY" and OFTEN.fullmatch(symbol)]
# copy(symbol, way, size): by any of the calls.
CALLS = f"""{WORK}
def copy(symbol, way, size, types=None): return work(symbol, way, size, None, types)
def between(symbol): return [way for way in ways(symbol) if way]
"""


def ask_from(page: Page, size: int) -> None:
    struct.pack_into("<QQ", page.bytes, page.at["copies_ask_from"], size, size)


def copies(page: Page) -> list[tuple[int, int]]:
    return [(entry.slot, entry.value) for entry in page.of_kind(COPY)]


@pytest.fixture
def copying(program: Start, whole_driver: Path) -> Callable[[Daemon, str], Program]:
    places = {"LD_LIBRARY_PATH": str(whole_driver.parent), "FAKE_CUDA": str(whole_driver)}
    return lambda fikitd, code: program(CALLS + "context()\n" + code, fikitd, **places)


def asks(page: Page, request: int) -> None:
    wait_for(lambda: page.u32("waiting") and page.u32("request_seq") == request, f"request {request}")


EVERY = f"""
pause()
for symbol in {SYMBOLS}:
    for way in between(symbol):
        before = calls(symbol)
        check(copy(symbol, way, {MIB}))
        assert calls(symbol) == before + 1
"""


def test_every_copy_is_reported_with_its_direction_and_size(
    copying: Callable[..., Program], daemon: StartDaemon
) -> None:
    fikitd = daemon()
    run = copying(fikitd, "check(launch(function('k')))\n" + EVERY)
    page = fikitd.page()
    page.set_u32("marker_interval", 1000)
    run.go()
    run.finish()
    expected = []
    for symbol in SYMBOLS:
        expected += [(IN, MIB)] if "HtoD" in symbol else [(OUT, MIB)] if "DtoH" in symbol else [(IN, MIB), (OUT, MIB)]
    assert copies(page) == expected
    assert page.u64("launch_seq") == 1  # they are no launches


def test_alone_on_the_gpu_nothing_is_reported(copying: Callable[..., Program], daemon: StartDaemon) -> None:
    fikitd = daemon()
    run = copying(fikitd, "check(launch(function('k')))\n" + EVERY)
    run.go()
    run.finish()
    assert copies(fikitd.page()) == []


def test_a_fikitd_of_before_hears_nothing_and_holds_no_copy(
    copying: Callable[..., Program], daemon: StartDaemon
) -> None:
    fikitd = daemon(version=3, closed=True, lease_s=LONGEST_LEASE_S)
    run = copying(fikitd, EVERY)
    run.go()
    page = fikitd.page()
    run.finish()
    assert page.ring() == []
    assert page.u32("request_seq") == 0


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_a_long_copy_waits_at_a_closed_gate(symbol: str, copying: Callable[..., Program], daemon: StartDaemon) -> None:
    fikitd = daemon(lease_s=60)
    run = copying(
        fikitd,
        f"check(launch(function('k')))\nsay('launched')\npause()\n"
        f"for way in between({symbol!r}): check(copy({symbol!r}, way, {8 * MIB}))",
    )
    assert run.line() == "launched"
    fikitd.page().close_gate(60)
    page = _begun(run, fikitd, MIB)
    ways = [IN] if "HtoD" in symbol else [OUT] if "DtoH" in symbol else [IN, OUT]
    for request, way in enumerate(ways, 1):
        asks(page, request)
        assert (page.u32("request_copy"), page.u64("request_bytes")) == (way, 8 * MIB)
        assert len(copies(page)) == request - 1
        page.grant()
    run.finish()
    # When it was complete: at once, where the call returns then, else a marker behind it says so.
    if "Async" in symbol:
        assert page.u64("marker_count") == len(ways)
    else:
        assert page.u64("marker_count") == 0
        assert [entry.value for entry in page.of_kind(DONE)] == [1, 2][: len(ways)]


def _begun(run: Program, fikitd: Daemon, size: int) -> Page:
    """The program has a page, and copies of so many bytes ask from now on."""
    page = fikitd.page()
    ask_from(page, size)
    run.go()
    return page


LONG = f"pause()\ncheck(copy('cuMemcpyHtoD_v2', 1, {8 * MIB}))\nsay('through')\n"


@pytest.mark.parametrize("size", [0, 8 * MIB + 1])
def test_shorter_copies_and_where_none_has_to_ask_pass(
    size: int, copying: Callable[..., Program], daemon: StartDaemon
) -> None:
    fikitd = daemon(closed=True, lease_s=LONGEST_LEASE_S)
    run = copying(fikitd, LONG)
    page = _begun(run, fikitd, size)
    run.finish()
    assert page.u32("request_seq") == 0
    assert copies(page) == [(IN, 8 * MIB)]


def test_a_copy_fails_open_when_the_lease_is_over(copying: Callable[..., Program], daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True, lease_s=60)
    run = copying(fikitd, LONG)
    page = _begun(run, fikitd, MIB)
    asks(page, 1)
    page.set_u64("gate_until_ns", time.monotonic_ns() + 50_000_000)
    page.wake()
    run.finish()
    assert page.u64("expired_count") == 1
    assert page.of_kind(DONE) == []


def test_a_copy_goes_on_when_fikitd_dies(copying: Callable[..., Program], daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True, lease_s=LONGEST_LEASE_S)
    run = copying(fikitd, LONG)
    asks(_begun(run, fikitd, MIB), 1)
    fikitd.stop()
    run.finish()


def test_a_copy_goes_when_the_gate_opens(copying: Callable[..., Program], daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True, lease_s=60)
    run = copying(fikitd, LONG)
    page = _begun(run, fikitd, MIB)
    asks(page, 1)
    page.open_gate()
    run.finish()
    assert page.of_kind(DONE) == []


def test_no_run_covers_a_copy(copying: Callable[..., Program], daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True, lease_s=60)
    run = copying(fikitd, LONG)
    page = fikitd.page()
    page.run(100)
    ask_from(page, MIB)
    run.go()
    asks(page, 1)
    time.sleep(0.02)
    assert page.u32("waiting") == 1
    page.grant()
    run.finish()


def test_a_copy_that_the_driver_refuses_is_over_at_once(copying: Callable[..., Program], daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True, lease_s=60)
    run = copying(
        fikitd,
        f"fake.fake_fail(b'cuMemcpyHtoDAsync_v2', 1)\npause()\nassert copy('cuMemcpyHtoDAsync_v2', 1, {8 * MIB}) == 1",
    )
    page = _begun(run, fikitd, MIB)
    asks(page, 1)
    page.grant()
    run.finish()
    assert [entry.value for entry in page.of_kind(DONE)] == [1]


def test_a_captured_copy_neither_waits_nor_is_reported(copying: Callable[..., Program], daemon: StartDaemon) -> None:
    """It is work of the graph, which waits when it is launched."""
    fikitd = daemon(closed=True, lease_s=LONGEST_LEASE_S)
    run = copying(
        fikitd,
        "s = stream()\npause()\ncheck(cu.cuStreamBeginCapture_v2(s, 0))\n"
        f"check(cu.cuMemcpyHtoDAsync_v2(c_void_p(DEVICE), c_void_p(HOST), c_size_t({8 * MIB}), s))\n",
    )
    page = _begun(run, fikitd, MIB)
    run.finish()
    assert page.u32("request_seq") == 0
    assert page.ring() == []


def test_a_rectangle_goes_the_way_of_its_addresses_where_its_types_leave_that_to_the_driver(
    copying: Callable[..., Program], daemon: StartDaemon
) -> None:
    fikitd = daemon(closed=True, lease_s=LONGEST_LEASE_S)
    code = f"for types in ((1, 1), (4, 2), (4, 4)): check(copy('cuMemcpy2D_v2', 1, {8 * MIB}, types))\n"
    copying(fikitd, code).finish()
    assert copies(fikitd.page()) == [(IN, 8 * MIB)] * 2


def test_a_granted_copy_to_the_host_still_proves_work_complete(
    copying: Callable[..., Program], daemon: StartDaemon
) -> None:
    fikitd = daemon(closed=True, lease_s=60)
    run = copying(
        fikitd, f"f = function('k')\npause()\ncheck(launch(f))\ncheck(copy('cuMemcpyDtoH_v2', 2, {8 * MIB}))\n"
    )
    page = _begun(run, fikitd, MIB)
    for request in (1, 2):
        asks(page, request)
        page.grant()
    run.finish()
    assert [entry.value for entry in page.of_kind(DRAINED)] == [1]


# ---- within the device, by calls that do not say so: launches


# What `allocate` gives is at `memory`; the two halves of it are copied onto each other.
HALVES = """
from ctypes import c_uint64, c_void_p, c_size_t
memory = c_uint64()
def halves(symbol="cuMemcpyAsync"):
    check(getattr(cu, symbol)(c_void_p(memory.value), c_void_p(memory.value + 2048), c_size_t(2048), None))
"""
ALLOCATIONS = {
    "plain": ("cu.cuMemAlloc_v2(byref(memory), c_size_t(4096))", "cu.cuMemFree_v2(memory)"),
    "in stream order": ("cu.cuMemAllocAsync(byref(memory), c_size_t(4096), None)", "cu.cuMemFreeAsync(memory, None)"),
    "until its context ends": ("cu.cuMemAlloc_v2(byref(memory), c_size_t(4096))", "cu.cuCtxDestroy_v2(ctx)"),
}


@pytest.mark.parametrize("kind", ALLOCATIONS)
def test_at_an_open_gate_the_shims_own_table_says_what_is_within_the_device(
    kind: str, copying: Callable[..., Program], daemon: StartDaemon
) -> None:
    """And nobody asks the driver, who may take a lock."""
    allocate, free = ALLOCATIONS[kind]
    fikitd = daemon(fills_ask=True)
    code = f"""{HALVES}
ctx = context()
halves()
check({allocate})
halves()
check({free})
say(calls("cuPointerGetAttribute"))
"""
    out, _ = copying(fikitd, code).finish()
    assert out == "0\n"
    page = fikitd.page()
    fikitd.names()
    assert [entry.kind for entry in page.ring()] == [LAUNCH]
    assert [(kernel["name"], kernel["grid"]) for kernel in fikitd.kernels.values()] == [
        ("copy within the device", (11, 1, 1))
    ]


def test_memory_that_was_freed_is_none_of_the_device(copying: Callable[..., Program], daemon: StartDaemon) -> None:
    fikitd = daemon(fills_ask=True)
    allocate, free = ALLOCATIONS["plain"]
    copying(fikitd, f"{HALVES}\ncheck({allocate}); check({free}); halves()").finish()
    assert fikitd.page().ring() == []


def test_a_copy_to_the_host_that_names_memory_of_the_device_is_within_it(
    copying: Callable[..., Program], daemon: StartDaemon
) -> None:
    fikitd = daemon(fills_ask=True, closed=True, lease_s=0.1)
    allocate, _ = ALLOCATIONS["plain"]
    copying(
        fikitd, f"{HALVES}\ncheck({allocate}); halves('cuMemcpyHtoDAsync_v2'); halves('cuMemcpyDtoHAsync_v2')"
    ).finish()
    assert [entry.kind for entry in fikitd.page().ring()] == [EXPIRED] * 2


def test_a_copy_of_rows_is_another_kernel_than_one_piece_of_as_many_bytes(
    copying: Callable[..., Program], daemon: StartDaemon
) -> None:
    fikitd = daemon(fills_ask=True)
    copying(fikitd, "check(copy('cuMemcpy2D_v2', 0, 4096)); check(copy('cuMemcpyDtoD_v2', 0, 4096))").finish()
    fikitd.names()
    assert sorted(kernel["grid"] for kernel in fikitd.kernels.values()) == [(12, 1, 1), (12, 3, 1)]


def test_many_threads_that_allocate_and_copy_find_their_memory(
    copying: Callable[..., Program], daemon: StartDaemon
) -> None:
    """The table is read while others change it: what is not found goes by uncounted, nothing else may happen."""
    fikitd = daemon(fills_ask=True)
    code = f"""{HALVES}
import threading
ctx = c_void_p(); check(cu.cuCtxGetCurrent(byref(ctx)))
check(cu.cuMemAlloc_v2(byref(memory), c_size_t(4096)))
def changes():
    check(cu.cuCtxSetCurrent(ctx))
    for _ in range(300):
        piece = c_uint64()
        check(cu.cuMemAllocAsync(byref(piece), c_size_t(4096), None))
        check(cu.cuMemFreeAsync(piece, None))
def copies():
    check(cu.cuCtxSetCurrent(ctx))
    for _ in range(300): halves()
threads = [threading.Thread(target=run) for run in (changes, copies, copies)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    copying(fikitd, code).finish()
    assert 500 <= fikitd.page().launches() <= 600
