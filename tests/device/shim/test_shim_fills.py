"""Memsets and copies within the device pass the gate as launches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from shim_copies import CALLS as WORK
from shim_daemon import GRANTED, LAUNCH, LONGEST_LEASE_S, Daemon, wait_for
from shim_program import Program
from shim_table import TABLE

pytest_plugins = ["shim_fixtures"]

StartDaemon = Callable[..., Daemon]
Fill = Callable[[Daemon, str], Program]

SYMBOLS = [symbol for symbol, treatment in TABLE.handled.items() if treatment == "FILL" and "Memset" in symbol]
SYMBOLS += ["cuMemcpyDtoD_v2", "cuMemcpyDtoD_v2_ptds", "cuMemcpyDtoDAsync_v2", "cuMemcpyDtoDAsync_v2_ptsz"]
# fill(symbol, count): by any of the calls; count is of elements.
CALLS = f"""{WORK}
def fill(symbol, count, stream=None): return work(symbol, 0, count, stream)
context()
"""


@pytest.fixture
def filling(program: Callable[..., Program], whole_driver: Path) -> Fill:
    places = {"LD_LIBRARY_PATH": str(whole_driver.parent), "FAKE_CUDA": str(whole_driver)}
    return lambda fikitd, code: program(CALLS + code, fikitd, **places)


def test_each_form_is_counted_as_a_kernel_of_its_size(filling: Fill, daemon: StartDaemon) -> None:
    fikitd = daemon(fills_ask=True)
    code = f"for symbol in {SYMBOLS}:\n check(fill(symbol, 1024))\nsay([calls(symbol) for symbol in {SYMBOLS}])"
    out, _ = filling(fikitd, code).finish()
    assert out == f"{[1] * len(SYMBOLS)}\n"
    assert [entry.kind for entry in fikitd.page().ring()] == [LAUNCH] * len(SYMBOLS)
    fikitd.names()
    assert {(kernel["name"], kernel["grid"]) for kernel in fikitd.kernels.values()} == {
        ("memset", (10, 1, 1)), ("memset", (11, 1, 1)), ("memset", (12, 1, 1)), ("copy within the device", (10, 1, 1)),
    }  # fmt: skip
    assert {kernel["kind"] for kernel in fikitd.kernels.values()} == {0}


def test_a_memset_goes_when_it_is_granted_and_not_before(filling: Fill, daemon: StartDaemon) -> None:
    fikitd = daemon(fills_ask=True, closed=True, lease_s=30)
    program = filling(fikitd, "say('go'); check(fill('cuMemsetD8Async', 64)); say(calls('cuMemsetD8Async'))")
    assert program.line() == "go"
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "request")
    assert page.launches() == 0
    page.grant()
    assert program.finish()[0] == "1\n"
    assert [entry.kind for entry in page.ring()][:1] == [GRANTED]


@pytest.mark.parametrize("page", [{"fills_ask": False}, {"fills_ask": True, "version": 4}])
def test_where_fikitd_does_not_ask_for_that_they_go_by_a_closed_gate(
    filling: Fill, daemon: StartDaemon, page: dict[str, object]
) -> None:
    fikitd = daemon(closed=True, lease_s=LONGEST_LEASE_S, **page)
    filling(fikitd, f"for symbol in {SYMBOLS}: check(fill(symbol, 1 << 20))").finish()
    assert fikitd.page().launches() == 0
    assert not fikitd.page().u32("request_seq")


def test_a_memset_that_is_captured_is_neither_held_nor_counted(filling: Fill, daemon: StartDaemon) -> None:
    fikitd = daemon(fills_ask=True, closed=True, lease_s=LONGEST_LEASE_S)
    code = "s = stream(); check(cu.cuStreamBeginCapture_v2(s, 2)); check(fill('cuMemsetD32Async', 64, s))"
    filling(fikitd, code).finish()
    assert fikitd.page().launches() == 0


@pytest.mark.parametrize(("bytes_", "grid"), [(0, 0), (1, 0), (2, 1), (3, 2), (1 << 33, 33)])
def test_the_next_power_of_two_stands_for_the_length(
    filling: Fill, daemon: StartDaemon, bytes_: int, grid: int
) -> None:
    fikitd = daemon(fills_ask=True)
    filling(fikitd, f"check(fill('cuMemcpyDtoD_v2', {bytes_}))").finish()
    fikitd.names()
    assert [kernel["grid"][0] for kernel in fikitd.kernels.values()] == [grid]


def test_a_memset_that_the_driver_refuses_is_not_counted(filling: Fill, daemon: StartDaemon) -> None:
    fikitd = daemon(fills_ask=True)
    filling(fikitd, "fake.fake_fail(b'cuMemsetD8_v2', 1)\nassert fill('cuMemsetD8_v2', 64) == 1").finish()
    assert fikitd.page().launches() == 0
