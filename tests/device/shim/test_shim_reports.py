"""What the page says about work: identities, drains, captures, graphs, measurements."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise

import pytest
from shim_daemon import DRAINED, GAP, LAUNCH, RING_ENTRIES, SAMPLE, Daemon, Page, wait_for
from shim_program import Program

pytest_plugins = ["shim_fixtures"]

PAUSE_NS = 50_000_000  # FIKIT_PAUSE_NS
Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]
TWO_STREAMS = "context()\nf = function('k')\none, two = stream(), stream()\n"


def drained_after(program: Start, daemon: StartDaemon, code: str) -> list[int]:
    fikitd = daemon()
    program(code, fikitd).finish()
    return [entry.value for entry in fikitd.page().of_kind(DRAINED)]


@pytest.mark.parametrize(
    "proof",
    [
        "check(cu.cuStreamSynchronize(one))",
        "check(cu.cuStreamQuery(one))",
        "check(cu.cuCtxSynchronize())",
        "check(cu.cuEventRecord(e, one)); check(cu.cuEventSynchronize(e))",
        "check(cu.cuEventRecord(e, one)); check(cu.cuEventQuery(e))",
    ],
)
def test_proof_that_the_only_stream_is_empty(program: Start, daemon: StartDaemon, proof: str) -> None:
    code = TWO_STREAMS + "e = ctypes.c_void_p(0x7777000)\nfor _ in range(3): check(launch(f, one))\n" + proof
    assert drained_after(program, daemon, code) == [3]


@pytest.mark.parametrize(
    "no_proof",
    [
        "check(launch(f, two)); check(cu.cuStreamSynchronize(one))",
        "check(cu.cuStreamSynchronize(two))",
        "cu.cuStreamQuery(one)",
        "check(cu.cuEventRecord(e, one)); check(launch(f, one)); check(cu.cuEventSynchronize(e))",
        "check(cu.cuEventRecord(e, one)); check(cu.cuEventDestroy_v2(e)) if 0 else None",
        "check(cu.cuStreamDestroy_v2(one)); check(cu.cuStreamSynchronize(two))",
        "check(cu.cuMemcpyDtoH_v2(ctypes.create_string_buffer(8), ctypes.c_void_p(1), 8))",
    ],
)
def test_no_proof_while_other_work_may_run(program: Start, daemon: StartDaemon, no_proof: str) -> None:
    code = TWO_STREAMS + "e = ctypes.c_void_p(0x7777000)\nfake.fake_hold(1)\ncheck(launch(f, one))\n"
    assert drained_after(program, daemon, code + no_proof) == []


@pytest.mark.parametrize(
    ("proof", "launches"),
    [
        ("check(launch(f, two)); check(cu.cuStreamSynchronize(one))", 2),
        ("check(cu.cuStreamSynchronize(two))", 1),
        ("check(cu.cuStreamDestroy_v2(one)); check(cu.cuStreamSynchronize(two))", 1),
        ("check(cu.cuMemcpyDtoH_v2(ctypes.create_string_buffer(8), ctypes.c_void_p(1), 8))", 1),
    ],
)
def test_a_wait_asks_whether_the_work_of_other_streams_is_over(
    program: Start, daemon: StartDaemon, proof: str, launches: int
) -> None:
    assert drained_after(program, daemon, TWO_STREAMS + "check(launch(f, one))\n" + proof) == [launches]


def test_a_question_asks_about_no_other_stream(program: Start, daemon: StartDaemon) -> None:
    assert drained_after(program, daemon, TWO_STREAMS + "check(launch(f, one)); check(cu.cuStreamQuery(two))") == []


@pytest.mark.parametrize(
    ("name", "wait"),
    [
        ("cuStreamSynchronize", "cu.cuStreamSynchronize(one)"),
        ("cuCtxSynchronize", "cu.cuCtxSynchronize()"),
        ("cuEventSynchronize", "cu.cuEventRecord(e, one); cu.cuEventSynchronize(e)"),
    ],
)
def test_a_drain_says_how_long_the_host_waited(program: Start, daemon: StartDaemon, name: str, wait: str) -> None:
    fikitd = daemon()
    code = TWO_STREAMS + f"e = ctypes.c_void_p(0x7777000)\nfake.fake_delay(b'{name}', 3000)\ncheck(launch(f, one))\n"
    program(code + wait, fikitd).finish()
    (drain,) = fikitd.page().of_kind(DRAINED)
    assert 3_000_000 <= drain.slot < 3_000_000_000


SLOW_THEN_FAST = """
e = ctypes.c_void_p(0x7777000)
fake.fake_delay(b"cuEventSynchronize", 3000)
fake.fake_hold(1)
for _ in range(20):
    check(launch(f, one)); check(launch(f, two))
    check(cu.cuEventRecord(e, one)); check(cu.cuEventSynchronize(e))
    {then}
"""


@pytest.mark.parametrize(
    "then",
    [
        "cu.cuStreamSynchronize(two)",
        "cu.cuCtxSynchronize()",
        "fake.fake_hold(0); cu.cuStreamQuery(two); fake.fake_hold(1)",
    ],
)
def test_waits_one_after_the_other_are_one(program: Start, daemon: StartDaemon, then: str) -> None:
    """The first one is for one stream only: not before the second is it known that all is complete."""
    fikitd = daemon()
    program(TWO_STREAMS + SLOW_THEN_FAST.format(then=then), fikitd).finish()
    drains = fikitd.page().of_kind(DRAINED)
    assert len(drains) == 20
    # Where others compute, the host does not always go on at once.
    assert max(drain.slot for drain in drains) >= 3_000_000


@pytest.mark.parametrize("between", ["__import__('time').sleep(0.001)", "check(launch(f, two))"])
def test_a_wait_after_a_pause_or_a_launch_is_its_own(program: Start, daemon: StartDaemon, between: str) -> None:
    fikitd = daemon()
    program(TWO_STREAMS + SLOW_THEN_FAST.format(then=f"{between}; cu.cuCtxSynchronize()"), fikitd).finish()
    drains = fikitd.page().of_kind(DRAINED)
    assert len(drains) == 20
    assert 0 < min(drain.slot for drain in drains) < 3_000_000


def test_a_drain_that_a_question_proves_says_nothing_of_a_wait(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    program(TWO_STREAMS + "check(launch(f, one)); cu.cuStreamQuery(one)", fikitd).finish()
    (drain,) = fikitd.page().of_kind(DRAINED)
    assert drain.slot == 0


def test_each_stream_in_turn_completes_the_proof(program: Start, daemon: StartDaemon) -> None:
    code = TWO_STREAMS + "check(launch(f, one)); check(launch(f, two))\n"
    code += "check(cu.cuStreamSynchronize(one)); check(cu.cuStreamSynchronize(two)); check(cu.cuStreamSynchronize(one))"
    assert drained_after(program, daemon, code) == [2]


def test_context_synchronisation_covers_destroyed_streams(program: Start, daemon: StartDaemon) -> None:
    code = TWO_STREAMS + "check(launch(f, one)); check(cu.cuStreamDestroy_v2(one)); check(cu.cuCtxSynchronize())"
    assert drained_after(program, daemon, code) == [1]


def test_copy_to_the_host_proves_the_default_stream_empty(program: Start, daemon: StartDaemon) -> None:
    code = "context()\nf = function('k')\ncheck(launch(f))\n"
    code += "check(cu.cuMemcpyDtoH_v2(ctypes.create_string_buffer(8), ctypes.c_void_p(1), 8))"
    assert drained_after(program, daemon, code) == [1]


def test_captured_launches_pass_ungated_and_uncounted(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    run = program(
        TWO_STREAMS
        + """
graph, exec_ = ctypes.c_void_p(), ctypes.c_void_p()
check(launch(f, one))
check(cu.cuStreamBeginCapture_v2(one, 0))
say("capturing"); pause()
for _ in range(4): check(launch(f, one))
check(cu.cuStreamEndCapture(one, ctypes.byref(graph)))
say(calls("cuEventRecord"), calls("cuEventQuery"), calls("cuLaunchKernel")); pause()
check(cu.cuGraphInstantiateWithFlags(ctypes.byref(exec_), graph, ctypes.c_ulonglong(0)))
check(cu.cuGraphLaunch(exec_, one))
""",
        fikitd,
    )
    assert run.line() == "capturing"
    page = fikitd.page()
    page.close_gate()
    run.go()
    assert run.line() == "0 0 5"
    assert page.launches() == 1
    assert page.u32("request_seq") == 0
    page.open_gate()
    run.go()
    run.finish()
    assert page.launches() == 2
    wait_for(lambda: len(fikitd.kernels) == 2, "two descriptions")
    assert fikitd.kernels[2]["name"] == "graph of 3 nodes"
    assert fikitd.kernels[2]["kind"] == 1


def test_no_marker_while_another_stream_captures(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program(
        "context()\nf = function('k')\nfake.fake_hold(1)\ncheck(launch(f))\n"
        "check(cu.cuStreamBeginCapture_v2(stream(), 0))\nbefore = calls('cuEventQuery')\n"
        "cu.cuCtxSynchronize()\nsay(calls('cuEventQuery') - before)",
        fikitd,
    )
    wait_for(lambda: fikitd.page().u32("waiting"), "request")
    fikitd.page().grant()
    assert run.finish()[0] == "0\n"


def test_every_kind_of_launch_is_counted(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    program(
        """
context()
f = function("k")
class Config(ctypes.Structure):
    _fields_ = [("dims", ctypes.c_uint * 7), ("stream", ctypes.c_void_p), ("attrs", ctypes.c_void_p), ("n", ctypes.c_uint)]
class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16)]
attribute = Attribute(2); attribute.value[0] = 1
plain = Config((ctypes.c_uint * 7)(1, 1, 1, 32, 1, 1, 64))
cooperative = Config(plain.dims, None, ctypes.addressof(attribute), 1)
check(cu.cuLaunchKernelEx(ctypes.byref(plain), f, None, None))
check(cu.cuLaunchKernelEx(ctypes.byref(cooperative), f, None, None))
check(cu.cuLaunchCooperativeKernel(f, 1, 1, 1, 32, 1, 1, 64, None, None))
check(cu.cuFuncSetBlockShape(f, 32, 1, 1))
check(cu.cuLaunchGrid(f, 7, 5))
check(cu.cuLaunchKernel_ptsz(f, 9, 1, 1, 1, 1, 1, 0, None, None, None))
""",
        fikitd,
    ).finish()
    wait_for(lambda: len(fikitd.kernels) == 4, "four descriptions")
    seen = [(k["kind"], k["grid"], k["block"], k["shared_bytes"]) for _, k in sorted(fikitd.kernels.items())]
    assert seen == [
        (0, (1, 1, 1), (32, 1, 1), 64),
        (2, (1, 1, 1), (32, 1, 1), 64),
        (0, (7, 5, 1), (32, 1, 1), 0),
        (0, (9, 1, 1), (1, 1, 1), 0),
    ]
    assert [fikitd.page().u64("slot_launches", slot) for slot in range(1, 5)] == [1, 2, 1, 1]


def test_kernel_handle_of_a_library_has_its_name(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    program(
        """
context()
library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
check(cu.cuLibraryLoadData(ctypes.byref(library), b".version 8.0", None, None, 0, None, None, 0))
check(cu.cuLibraryGetKernel(ctypes.byref(kernel), library, b"from_library"))
check(launch(kernel))
check(launch(ctypes.c_void_p(0x123400)))
""",
        fikitd,
    ).finish()
    wait_for(lambda: len(fikitd.kernels) == 2, "two descriptions")
    assert fikitd.names() == ["from_library", "unknown-1"]


def test_handle_reused_after_unload_gets_its_new_name(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    program(
        """
context()
old = function("old"); check(launch(old))
check(cu.cuModuleUnload(ctypes.c_void_p(0x200000)))
new = function("new", b".version 8.1"); check(launch(new))
assert old.value == new.value
""",
        fikitd,
    ).finish()
    wait_for(lambda: len(fikitd.kernels) == 2, "two descriptions")
    assert fikitd.names() == ["old", "new"]
    assert fikitd.kernels[1]["module"] != fikitd.kernels[2]["module"]


def launched(program: Start, fikitd: Daemon, *rounds: range) -> Page:
    """Kernels of these grids, round after round."""
    code = "context()\nf = function('k')\n"
    for grids in rounds:
        code += f"for i in {grids!r}: check(launch(f, grid=i))\n"
    program(f"{code}check(cu.cuCtxSynchronize())", fikitd).finish()
    assert fikitd.page().launches() == sum(map(len, rounds))
    return fikitd.page()


def test_thousands_of_kernels_that_run_once_leave_slots_for_those_that_come_again(
    program: Start, daemon: StartDaemon
) -> None:
    once, again = range(1, 10_001), range(20_001, 20_201)
    page = launched(program, daemon(), once, *[again] * 3)
    unnamed = page.u64("slot_launches", 0)
    assert unnamed == pytest.approx(10_000 - 3071 + 200, abs=20), (
        "all but 3,071 of those, and each of these the first time"
    )


def test_the_last_slots_are_for_kernels_that_come_often(program: Start, daemon: StartDaemon) -> None:
    """So few of those that come twice are left that many of those that come all the time may have a slot."""
    page = launched(program, daemon(), range(1, 3072), *[range(10_001, 12_001)] * 2, *[range(20_001, 20_101)] * 20)
    assert page.u64("slot_launches", 0) == pytest.approx(2000 + (2000 - 768) + 100 * 7, rel=0.1)


def test_more_identities_than_slots_share_slot_0(program: Start, daemon: StartDaemon) -> None:
    page = launched(program, daemon(), *[range(1, 5001)] * 12)
    used = [page.u64("slot_launches", slot) > 0 for slot in range(4096)]
    assert all(used)
    assert page.u64("slot_launches", 0) > 12 * (5000 - 4095)


def test_descriptions_survive_a_slow_daemon(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    run = program(
        "context()\nf = function('k')\n"
        "for i in range(1, 2001): check(launch(f, grid=i))\n"
        "say('launched')\npause()\nimport time\n"
        "for _ in range(100): check(cu.cuCtxSynchronize()); time.sleep(0.005)",
        fikitd,
    )
    run.line()
    run.go()
    wait_for(lambda: len(fikitd.kernels) == 2000, "2000 descriptions")
    run.finish()
    assert [k["grid"][0] for _, k in sorted(fikitd.kernels.items())] == list(range(1, 2001))


def test_measuring_reports_duration_and_gap_of_every_launch(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(measure=True)
    program(
        "context()\nf = function('k')\nfake.fake_hold(1)\nfor _ in range(5): check(launch(f))\n"
        "fake.fake_hold(0)\ncheck(cu.cuCtxSynchronize())",
        fikitd,
    ).finish()
    page = fikitd.page()
    assert [(e.slot, e.value) for e in page.of_kind(SAMPLE)] == [(1, 500_000)] * 5
    assert [(e.slot, e.value) for e in page.of_kind(GAP)] == [(1, 500_000)] * 4
    assert len(page.of_kind(LAUNCH)) == 5


def test_measuring_rings_and_pauses_before_the_ring_overflows(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(measure=True)
    code = "context()\nf = function('k')\nfor _ in range(1500): check(launch(f)); check(cu.cuCtxSynchronize())"
    program(code, fikitd).finish()
    page = fikitd.page()
    assert page.launches() == 1500
    samples_and_gaps = page.u64("ring_head") - 3000  # the rest is a LAUNCH and a DRAINED of each
    assert 0 < samples_and_gaps < RING_ENTRIES * 3 // 4
    assert os.eventfd_read(page.doorbell) >= 1


def test_a_synchronisation_after_a_pause_rings_and_no_other(program: Start, daemon: StartDaemon) -> None:
    """fikitd is to hear of the end of a pause before the program may have ended."""
    fikitd = daemon()
    code = """
import time
context(); f = function('k')
for pause_s in (0, 0, 0.06, 0, 0, 0.06, 0):
    time.sleep(pause_s); check(launch(f)); check(cu.cuCtxSynchronize())
"""
    program(code, fikitd).finish()
    page = fikitd.page()
    drained_ns = [entry.t_ns for entry in page.of_kind(DRAINED)]
    assert len(drained_ns) == 7
    pauses = sum(later - earlier >= PAUSE_NS for earlier, later in pairwise(drained_ns))
    assert pauses >= 2
    assert os.eventfd_read(page.doorbell) == 1 + pauses, "the first one rings too"


def test_two_devices_have_a_page_each(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    program(
        "a, b = context(0), context(1)\nf = function('k')\n"
        "for n, ctx in ((2, a), (3, b)):\n check(cu.cuCtxSetCurrent(ctx))\n for _ in range(n): check(launch(f))",
        fikitd,
    ).finish()
    assert [page.launches() for page in fikitd.pages] == [2, 3]
    assert [hello[16:32] for hello in fikitd.hellos] == [b"\x40" * 16, b"\x41" * 16]


UNSEEN = """
context()
def of_unseen_module(name, registers):
    fake.fake_needs(registers)
    handle = ctypes.c_void_p()
    check(cu.cuModuleGetFunction(ctypes.byref(handle), ctypes.c_void_p(0x987600), name))
    return handle
for registers in (32, 40, 32):
    check(launch(of_unseen_module(b"same", registers)))
"""


def test_kernels_of_one_name_in_modules_that_were_never_seen_are_told_apart(
    program: Start, daemon: StartDaemon
) -> None:
    """A module that came by an export table has no hash: what its functions need stands for it, the same in every process."""
    modules = []
    for _ in range(2):
        fikitd = daemon()
        program(UNSEEN, fikitd).finish()
        assert fikitd.names() == ["same", "same"]
        assert [fikitd.page().u64("slot_launches", slot) for slot in (1, 2)] == [2, 1]
        modules.append([kernel["module"] for kernel in fikitd.kernels.values()])
    assert modules[0] == modules[1]
    assert len({0, *modules[0]}) == 3


def test_a_driver_that_does_not_say_what_a_function_needs_leaves_it_without_a_module(
    program: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon()
    program("fake.fake_fail(b'cuFuncGetAttribute', 801)\n" + UNSEEN, fikitd).finish()
    fikitd.names()
    assert [kernel["module"] for kernel in fikitd.kernels.values()] == [0]
