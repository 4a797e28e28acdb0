"""Several contexts on one GPU, and contexts that end: nothing is said of one by another, and nothing asked about one that ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from shim_daemon import DONE, DRAINED, LAUNCH, MARK, Daemon, wait_for
from shim_program import Program

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]

TWO = """
import threading, time
one = context()
f = function('k')
two = ctypes.c_void_p(one.value + 0x800)  # on the same GPU
"""


def test_synchronising_one_context_says_nothing_of_the_other(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
check(launch(f))
check(cu.cuCtxSetCurrent(two)); check(launch(f))
check(cu.cuCtxSynchronize())
say("two"); pause()
check(cu.cuCtxSetCurrent(one)); check(cu.cuCtxSynchronize())
"""
    run = program(TWO + code, fikitd)
    assert run.line() == "two"
    assert fikitd.page().of_kind(DRAINED) == []
    run.go()
    run.finish()
    assert [entry.value for entry in fikitd.page().of_kind(DRAINED)] == [2]


@pytest.mark.parametrize("launch", ["launch(f)", "launch(f, stream())", "launch(f, ctypes.c_void_p(2))"])
def test_green_contexts_are_synchronised_with_their_primary_one(
    launch: str, program: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon()
    code = """
green = ctypes.c_void_p(one.value + 0xc00)
check(launch(f))
check(cu.cuCtxSetCurrent(green)); check({launch})
check(cu.cuCtxSetCurrent(one)); check(cu.cuCtxSynchronize())
"""
    program(TWO + code.format(launch=launch), fikitd).finish()
    assert [entry.value for entry in fikitd.page().of_kind(DRAINED)] == [2]


def test_a_green_context_says_nothing_of_its_primary_one(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
check(launch(f))
check(cu.cuCtxSetCurrent(ctypes.c_void_p(one.value + 0xc00))); check(launch(f)); check(cu.cuCtxSynchronize())
"""
    program(TWO + code, fikitd).finish()
    assert fikitd.page().of_kind(DRAINED) == []


def test_events_of_a_green_context_end_with_it(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    code = """
fake.fake_hold(1)
green = ctypes.c_void_p(one.value + 0xc00)
check(cu.cuCtxSetCurrent(green)); check(launch(f)); say("launched"); pause()
check(cu.cuGreenCtxDestroy(green))
check(cu.cuCtxSetCurrent(one))
for _ in range(3): check(cu.cuStreamSynchronize(None)); check(launch(f))
say("strays", fake.fake_strays())
"""
    run = program(TWO + code, fikitd)
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "request")
    page.grant()
    assert run.line() == "launched"
    page.open_gate()
    run.go()
    assert run.line() == "strays 0"
    run.finish()
    assert [entry.value for entry in page.of_kind(DONE)] == [1]


def test_all_streams_beyond_the_table_are_drained_with_their_context(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
check(cu.cuCtxSetCurrent(two)); check(launch(f)); check(cu.cuCtxSynchronize())
for each in (one, two):
    check(cu.cuCtxSetCurrent(each))
    for _ in range(300): check(launch(f, stream()))
check(cu.cuCtxSynchronize())
say("two"); pause()
check(cu.cuCtxSetCurrent(one)); check(cu.cuCtxSynchronize())
"""
    run = program(TWO + code, fikitd)
    assert run.line() == "two"
    assert [entry.value for entry in fikitd.page().of_kind(DRAINED)] == [1]
    run.go()
    run.finish()
    assert [entry.value for entry in fikitd.page().of_kind(DRAINED)] == [1, 601]
    assert len(fikitd.page().of_kind(LAUNCH)) == 601


def test_a_stream_that_is_given_the_handle_of_one_that_is_being_destroyed_is_another(
    program: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon()
    code = """
s = stream()
check(launch(f, s)); check(cu.cuStreamSynchronize(s))
fake.fake_delay(b"cuStreamDestroy_v2", 300000)
thread = threading.Thread(target=lambda: check(cu.cuStreamDestroy_v2(s))); thread.start()
while not calls("cuStreamDestroy_v2"): time.sleep(0.001)
check(launch(f, s))  # in the driver the handle is free
thread.join()
check(cu.cuStreamSynchronize(s))
"""
    program(TWO + code, fikitd).finish()
    assert [entry.value for entry in fikitd.page().of_kind(DRAINED)] == [1, 2]


# The context is being destroyed for a while, in which the other thread goes on looking.
DESTROY = """
fake.fake_delay(b"cuCtxDestroy_v2", 50000)
check(cu.cuCtxDestroy_v2(one))
before = calls("cuEventQuery")
time.sleep(0.02)
say("strays", fake.fake_strays(), "looks", calls("cuEventQuery") - before); pause()
"""


def test_a_thread_at_the_gate_leaves_a_context_alone_that_another_destroys(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    code = """
fake.fake_hold(1)
check(launch(f))
def work():
    check(cu.cuCtxSetCurrent(two)); check(launch(f))
thread = threading.Thread(target=work); thread.start()
seen = calls("cuEventQuery")
while calls("cuEventQuery") < seen + 3: time.sleep(0.001)  # it looks whether the first launch is complete
"""
    run = program(TWO + code + DESTROY + "thread.join()", fikitd)
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "request")
    page.grant()
    assert run.line() == "strays 0 looks 0"
    assert [entry.value for entry in page.of_kind(DONE)] == [1]  # over with its context
    page.open_gate()
    run.go()
    run.finish()


def test_a_thread_that_synchronises_leaves_a_context_alone_that_another_destroys(
    program: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon(measure=True)
    code = """
fake.fake_hold(1)
check(launch(f))
over = False
def work():
    check(cu.cuCtxSetCurrent(two))
    while not over: check(cu.cuStreamSynchronize(None))
thread = threading.Thread(target=work); thread.start()
seen = calls("cuEventQuery")
while calls("cuEventQuery") < seen + 3: time.sleep(0.001)
"""
    run = program(TWO + code + DESTROY + "over = True; thread.join()", fikitd)
    assert run.line() == "strays 0 looks 0"
    run.go()
    run.finish()


def test_a_capture_that_ended_with_its_context_is_over(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon()
    code = """
fake.fake_memory_operations(1)
check(launch(f)); say("ready"); pause()
check(cu.cuStreamBeginCapture_v2(stream(), 0))
check(launch(f))
check(cu.cuCtxDestroy_v2(one))
context(); f = function('k')
check(launch(f))
"""
    run = program(TWO + code, fikitd)
    run.line()
    fikitd.page().set_u32("marker_interval", 1)
    run.go()
    run.finish()
    assert len(fikitd.page().of_kind(MARK)) == 1


@pytest.mark.parametrize("question", ["cuEventQuery", "cuStreamQuery"])
def test_a_question_of_the_shims_breaks_no_capture_that_begins_meanwhile(
    question: str, program: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon(closed=True)
    code = """
fake.fake_hold(1)
check(launch(f)); say("launched"); pause()
graph = ctypes.c_void_p()
fake.fake_delay(b"{question}", 50000)
seen = calls("{question}")
def work():
    check(cu.cuCtxSetCurrent(one)); check(launch(f))
thread = threading.Thread(target=work); thread.start()
while calls("{question}") == seen: time.sleep(0.001)
side = stream()
check(cu.cuStreamBeginCapture_v2(side, 0))  # in global mode
time.sleep(0.1)
say(cu.cuStreamEndCapture(side, ctypes.byref(graph)))
thread.join()
"""
    run = program(TWO + code.format(question=question), fikitd)
    page = fikitd.page()
    wait_for(lambda: page.u32("waiting"), "request")
    if question == "cuStreamQuery":  # of a run that fikitd ends: was its last launch complete?
        page.grant_run(10)
    else:
        page.grant()
    assert run.line() == "launched"
    if question == "cuStreamQuery":
        page.run(0)
    run.go()
    assert run.line() == "0"
    page.open_gate()
    run.finish()
