"""Copies between host and device: reported while others share the GPU; a long one waits at a closed gate where fikitd wants it to."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import COPY, DONE, DRAINED, LONGEST_LEASE_S, Daemon, Page, wait_for
from shim_program import Program
from shim_table import TABLE

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]

MIB = 1 << 20
IN, OUT = 1, 2
SYMBOLS = [symbol for symbol, treatment in TABLE.handled.items() if treatment == "COPY"]
# copy(symbol, way, size): by any of the calls; memory of the device lies below 1 GiB in this stand-in driver.
CALLS = """
from ctypes import c_size_t, c_void_p, c_int, Structure, byref
class Rectangle(Structure):
    _fields_ = [(s + n, t) for s in ("src", "dst") for n, t in (("X", c_size_t), ("Y", c_size_t), ("type", c_int), ("host", c_void_p),
                ("device", c_void_p), ("array", c_void_p), ("pitch", c_size_t))] + [("width", c_size_t), ("height", c_size_t)]
HOST, DEVICE = 0x7f0000000000, 0x1000
def copy(symbol, way, size, types=(1, 2)):
    to, origin = (DEVICE, HOST) if way == 1 else (HOST, DEVICE)
    more = [None] if "Async" in symbol else []
    if "2D" in symbol:
        kinds = types if way == 1 else types[::-1]
        rectangle = Rectangle(srctype=kinds[0], dsttype=kinds[1], srcdevice=origin, dstdevice=to, width=size // 4, height=4)
        return getattr(cu, symbol)(byref(rectangle), *more)
    return getattr(cu, symbol)(c_void_p(to), c_void_p(origin), c_size_t(size), *more)
def ways(symbol):
    return [1] if "HtoD" in symbol else [2] if "DtoH" in symbol else [1, 2]
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
    for way in ways(symbol):
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
        f"for way in ways({symbol!r}): check(copy({symbol!r}, way, {8 * MIB}))",
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


def test_copies_between_arguments_that_say_nothing_pass(copying: Callable[..., Program], daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True, lease_s=LONGEST_LEASE_S)
    code = f"pause()\nfor types in ((1, 1), (2, 2), (4, 2), (1, 4), (3, 2)): check(copy('cuMemcpy2D_v2', 1, {8 * MIB}, types))\n"
    run = copying(fikitd, code)
    page = _begun(run, fikitd, MIB)
    run.finish()
    assert page.ring() == []


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
