"""Completion marks that the device writes into the page: put when asked, never where they could do harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from shim_daemon import DONE, MARK, MARK_GRANT, Daemon, Page, wait_for
from shim_program import Program

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]

READY = "fake.fake_memory_operations(1)\ncontext()\nf = function('k')\nsay('ready'); pause()\n"


def asked(
    program: Start, daemon: StartDaemon, code: str, every: int = 4, known: int = 0xFFFFFFFF, *, gaps: int = 0
) -> Page:
    """Run `code` with marks asked for behind one launch in `every` and behind the slots not in `known`,
    and behind those in `gaps` a few launches after the last mark."""
    fikitd = daemon()
    run = program(READY + code, fikitd)
    run.line()
    page = fikitd.page()
    page.set_u32("marker_interval", every)
    page.set_u32("known_slots", known)
    page.set_u32("gap_slots", gaps)
    run.go()
    run.finish()
    return page


def reached(page: Page) -> list[int]:
    return [page.u32("marks", number % 64) for number in range(1, len(page.of_kind(MARK)) + 1)]


def test_one_launch_in_so_many_is_marked(program: Start, daemon: StartDaemon) -> None:
    page = asked(program, daemon, "for _ in range(12): check(launch(f))\nsay(calls('cuMemHostRegister_v2'))")
    assert [(entry.slot, entry.value) for entry in page.of_kind(MARK)] == [(1, 4), (2, 8), (3, 12)]
    assert reached(page) == [1, 2, 3]
    assert page.u64("marker_count") == 3


def test_a_launch_that_a_gap_follows_is_marked_unless_the_last_mark_is_near(
    program: Start, daemon: StartDaemon
) -> None:
    code = "for grid in (1, 1, 1, 2, 2, 2, 1, 1, 2): check(launch(f, grid=grid))\n"
    code += "check(cu.cuCtxSynchronize())\nfor grid in (2, 1, 1, 1, 2): check(launch(f, grid=grid))"
    page = asked(program, daemon, code, every=1000, gaps=0b100)
    assert [entry.value for entry in page.of_kind(MARK)] == [4, 9, 14]


def test_each_unknown_launch_is_marked(program: Start, daemon: StartDaemon) -> None:
    code = "for grid in (1, 2, 3): check(launch(f, grid=grid))"
    page = asked(program, daemon, code, every=1000, known=0b1010)
    assert [entry.value for entry in page.of_kind(MARK)] == [2]


def test_no_mark_and_no_registration_unless_asked(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    run = program(
        READY + "for _ in range(100): check(launch(f))\n"
        "say(calls('cuMemHostRegister_v2'), calls('cuStreamWriteValue32_v2'))",
        fikitd,
    )
    run.line()
    run.go()
    assert run.finish()[0] == "0 0\n"
    assert fikitd.page().of_kind(MARK) == []


@pytest.mark.parametrize(
    "reason",
    [
        "check(cu.cuStreamBeginCapture_v2(stream(), 0))",
        "check(cu.cuStreamBeginRecaptureToGraph(stream(), 0, None, None, None))",
        "check(cu.cuStreamBeginCaptureToCig(stream(), None))",
        "fake.fake_memory_operations(0)",
        "fake.fake_fail(b'cuMemHostRegister_v2', 801)",
        "fake.fake_fail(b'cuStreamWriteValue32_v2', 801)",
        "fake.fake_fail(b'cuMemHostGetDevicePointer_v2', 1)",
    ],
    ids=[
        "a stream captures",
        "once more",
        "for graphics",
        "no such device",
        "not registered",
        "not written",
        "no address",
    ],
)
def test_no_mark_where_it_would_do_harm_or_say_nothing(program: Start, daemon: StartDaemon, reason: str) -> None:
    code = f"here = stream()\n{reason}\nfor _ in range(8): check(launch(f, here))"
    assert asked(program, daemon, code, every=1, known=0).of_kind(MARK) == []


def test_a_stream_is_marked_only_while_the_others_are_drained(program: Start, daemon: StartDaemon) -> None:
    code = "a, b = stream(), stream()\ncheck(launch(f, a)); check(launch(f, b))\ncheck(cu.cuStreamSynchronize(a))\n"
    page = asked(program, daemon, code + "check(launch(f, b))", every=1)
    assert [entry.value for entry in page.of_kind(MARK)] == [1, 3]


def test_a_granted_launch_is_marked_by_the_device_alone(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program(
        "fake.fake_memory_operations(1)\ncontext()\nf = function('k')\nfake.fake_hold(1)\ncheck(launch(f))\n"
        "say('launched', calls('cuEventCreate')); pause()\nfake.fake_hold(0); say('over'); pause()",
        fikitd,
    )
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "request")
    page.grant()
    assert run.line() == "launched 0"
    assert [(entry.slot, entry.value) for entry in page.of_kind(MARK_GRANT)] == [(1, 1)]
    assert page.u32("marks", 1) == 0
    run.go()
    assert run.line() == "over"
    assert page.u32("marks", 1) == 1
    run.go()
    run.finish()
    assert page.of_kind(DONE) == []


def test_no_more_marks_than_words_are_out(program: Start, daemon: StartDaemon) -> None:
    code = "fake.fake_hold(1)\nfor _ in range(100): check(launch(f))\nfake.fake_hold(0)\nfor _ in range(70): check(launch(f))"
    page = asked(program, daemon, code, every=1)
    assert [entry.slot for entry in page.of_kind(MARK)] == list(range(1, 64 + 70 + 1))


def test_marks_of_a_context_that_ended_are_over_and_the_next_one_has_its_own(
    program: Start, daemon: StartDaemon
) -> None:
    code = (
        "one = ctypes.c_void_p(); check(cu.cuCtxGetCurrent(ctypes.byref(one)))\n"
        "fake.fake_hold(1)\nfor _ in range(3): check(launch(f))\n"
        "check(cu.cuCtxDestroy_v2(one))\nfake.fake_hold(0)\n"
        "context(); f = function('k'); check(launch(f))\nsay(calls('cuMemHostRegister_v2'))"
    )
    page = asked(program, daemon, code, every=1)
    assert [entry.slot for entry in page.of_kind(MARK)] == [1, 2, 3, 4]
    assert reached(page) == [1, 2, 3, 4]


def test_a_second_context_on_the_device_does_without(program: Start, daemon: StartDaemon) -> None:
    code = (
        "one = ctypes.c_void_p(); check(cu.cuCtxGetCurrent(ctypes.byref(one)))\n"
        "check(launch(f)); check(cu.cuCtxSynchronize())\n"
        "two = ctypes.c_void_p(0x100800); check(cu.cuCtxSetCurrent(two)); check(launch(f)); check(cu.cuCtxSynchronize())\n"
        "check(cu.cuCtxSetCurrent(one)); check(launch(f))"
    )
    page = asked(program, daemon, code, every=1)
    assert [entry.value for entry in page.of_kind(MARK)] == [1, 3]
