"""Launches that go through a closed gate without asking, as far as fikitd's page says; and a fikitd that does not know of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from shim_daemon import DONE, GRANTED, MARK_GRANT, Daemon, Page, wait_for
from shim_program import FOUR_THREADS, Program

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]

# Launches, one after the other, and says so; the device takes its time (fake_hold).
LAUNCHES = """
context()
f = function("k")
fake.fake_hold(1)
for n in range({count}):
    check(launch(f))
    say(n)
"""
STEPS = """
context()
f = function("k")
fake.fake_hold(1)
while True:
    pause()
    check(launch(f))
    say("launched")
"""


def asks(page: Page, request: int) -> None:
    wait_for(lambda: page.u32("waiting") and page.u32("request_seq") == request, f"request {request}")


def grant_run(page: Page, launches: int) -> None:
    """The request that waits, and those that follow it, as the dispatcher does it: what goes between its two stores says
    that it was of the grant before."""
    request = page.u32("request_seq")
    page.knows_all()
    page.set_u64("run_until", page.u64("launch_seq") + launches)
    page.set_u32("grant_seq", request)
    page.wake()


def test_a_run_goes_without_asking_and_its_last_launch_is_marked(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program(LAUNCHES.format(count=6), fikitd)
    page = fikitd.page()
    asks(page, 1)
    grant_run(page, 4)
    asks(page, 2)
    assert page.u64("launch_seq") == 4
    assert {e.value for e in page.of_kind(GRANTED)} <= {0, 1}
    assert len(page.of_kind(GRANTED)) == 4
    assert page.u64("marker_count") == 1
    grant_run(page, 2)
    run.finish()
    assert len(page.of_kind(GRANTED)) == 6
    assert page.u64("marker_count") == 2
    assert page.u64("wait_count") == 2


def test_a_run_that_is_allowed_while_a_launch_waits_lets_it_go(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program(LAUNCHES.format(count=3), fikitd)
    page = fikitd.page()
    asks(page, 1)
    page.run(3)
    run.finish()
    assert page.u64("launch_seq") == 3
    assert page.u32("request_seq") == 1
    assert page.u32("waiting") == 0


def test_threads_that_queue_for_the_request_go_with_the_run(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program(FOUR_THREADS, fikitd)
    page = fikitd.page()
    asks(page, 1)
    time.sleep(0.05)  # the others come to queue
    grant_run(page, 4)
    run.finish()
    assert page.u64("launch_seq") == 4


# Three launches of a run, and two that have to ask, the first of them to a stream of its own.
ENDED = """
fake.fake_memory_operations({marks})
context()
f = function("k")
first, second = stream(), stream()
fake.fake_hold({hold})
pause()
for _ in range(3):
    check(launch(f, first))
say("launched"); pause()
check(launch(f, {then}))
say("over"); pause()
check(launch(f, first))
"""


def ended(
    program: Start, daemon: StartDaemon, *, hold: int = 1, then: str = "first", marks: int = 1
) -> tuple[Program, Page]:
    """A program whose run fikitd has ended; it has come to the gate again."""
    fikitd = daemon(closed=True)
    run = program(ENDED.format(hold=hold, then=then, marks=marks), fikitd)
    page = fikitd.page()
    page.set_u32("grant_seq", 7)
    page.run(100)
    run.go()
    assert run.line() == "launched"
    assert page.of_kind(MARK_GRANT) == page.of_kind(DONE) == []
    page.run(0)
    run.go()
    asks(page, 1)
    return run, page


def test_a_run_that_was_ended_is_marked_when_its_process_asks_again(program: Start, daemon: StartDaemon) -> None:
    run, page = ended(program, daemon)
    assert [entry.value for entry in page.of_kind(MARK_GRANT)] == [7]
    assert page.of_kind(DONE) == []
    page.grant()
    assert run.line() == "over"
    assert [entry.value for entry in page.of_kind(MARK_GRANT)] == [7, 1]  # once


def test_an_ended_run_is_marked_once_also_when_it_is_asked_twice_without_a_grant(
    program: Start, daemon: StartDaemon
) -> None:
    run, page = ended(program, daemon)
    page.close_gate(lease_s=0)
    assert run.line() == "over"
    page.close_gate()
    run.go()
    asks(page, 2)
    assert [entry.value for entry in page.of_kind(MARK_GRANT)] == [7]
    assert page.of_kind(DONE) == []


def test_of_an_ended_run_that_is_complete_it_is_said_at_once(program: Start, daemon: StartDaemon) -> None:
    _, page = ended(program, daemon, hold=0)
    assert [entry.value for entry in page.of_kind(DONE)] == [7]
    assert page.of_kind(MARK_GRANT) == []


def test_what_another_stream_has_of_an_ended_run_is_not_marked(program: Start, daemon: StartDaemon) -> None:
    _, page = ended(program, daemon, then="second")
    assert page.of_kind(MARK_GRANT) == page.of_kind(DONE) == []


def test_where_the_device_writes_no_marks_an_event_is_put_behind_an_ended_run(
    program: Start, daemon: StartDaemon
) -> None:
    _, page = ended(program, daemon, marks=0)
    assert page.of_kind(MARK_GRANT) == []
    wait_for(lambda: page.u64("marker_count") == 1, "marker")


def test_what_is_taken_back_has_to_be_asked_for(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(closed=True)
    run = program(STEPS, fikitd)
    page = fikitd.page()
    page.run(100)
    for _ in range(3):
        run.go()
        assert run.line() == "launched"
    page.run(0)
    run.go()
    asks(page, 1)
    page.run(10)
    assert run.line() == "launched"
    run.go()
    assert run.line() == "launched"
    assert page.u32("request_seq") == 1
    run.process.kill()


def test_a_kernel_of_unknown_length_asks_within_a_run_and_has_a_mark_of_its_own(
    program: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon(closed=True)
    run = program(STEPS, fikitd)
    page = fikitd.page()
    run.go()
    asks(page, 1)
    grant_run(page, 10)
    assert run.line() == "launched"
    page.set_u32("known_slots", 0)
    run.go()
    asks(page, 2)
    assert page.u64("launch_seq") == 1
    assert page.u64("marker_count") == 1  # of what came before it: to ask is to leave the run
    grant_run(page, 1)
    assert run.line() == "launched"
    assert page.u64("marker_count") == 2
    run.process.kill()


def test_the_launch_after_which_the_rest_is_taken_back_says_that_it_was_the_last(
    program: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon(closed=True)
    code = STEPS.replace("fake.fake_hold(1)\n", "").replace(
        'say("launched")', 'say("launched"); check(cu.cuCtxSynchronize())'
    )
    run = program(code, fikitd)
    page = fikitd.page()
    run.go()
    asks(page, 1)
    grant_run(page, 10)
    assert run.line() == "launched"
    assert page.of_kind(DONE) == []
    page.run(1)
    run.go()
    assert run.line() == "launched"
    assert [e.value for e in wait_for(lambda: page.of_kind(DONE), "DONE")] == [1]
    run.process.kill()


def test_a_refused_launch_of_a_run_gives_back_nothing_that_others_may_still_use(
    program: Start, daemon: StartDaemon
) -> None:
    fikitd = daemon(closed=True)
    run = program(
        """
context()
f = function("k")
check(launch(f))
fake.fake_fail(b"cuLaunchKernel", 701)
say(launch(f))
fake.fake_fail(b"cuLaunchKernel", 0)
check(launch(f))
check(cu.cuCtxSynchronize())
""",
        fikitd,
    )
    page = fikitd.page()
    asks(page, 1)
    grant_run(page, 2)
    assert run.finish()[0] == "701\n"
    assert page.u64("launch_seq") == 2
    assert len(page.of_kind(DONE)) == 1  # of the last one


@pytest.mark.parametrize("threads", [1, 4])
def test_at_most_one_launch_per_thread_goes_beyond_the_end_of_a_run(
    program: Start, daemon: StartDaemon, threads: int
) -> None:
    fikitd = daemon(closed=True, lease_s=60.0)
    run = program(
        f"""
import threading
ctx = context()
f = function("k")
def work():
    check(cu.cuCtxSetCurrent(ctx))
    while True: check(launch(f))
workers = [threading.Thread(target=work, daemon=True) for _ in range({threads})]
say(); pause()
[w.start() for w in workers]
pause()
""",
        fikitd,
    )
    run.line()
    page = fikitd.page()
    page.run(50)
    until = page.u64("run_until")
    run.go()
    asks(page, 1)
    assert until <= page.u64("launch_seq") <= until + threads - 1
    page.run(50)
    until = page.u64("run_until")
    # A thread that looked before may still have asked, and gone on.
    wait_for(lambda: page.u32("waiting") and page.u64("launch_seq") >= until, "another request")
    assert page.u64("launch_seq") <= until + threads - 1
    run.process.kill()


def test_a_fikitd_of_version_2_is_asked_for_every_launch(program: Start, daemon: StartDaemon) -> None:
    """Of its page the word for runs is padding, which stays 0."""
    fikitd = daemon(closed=True, version=2)
    run = program(LAUNCHES.format(count=3), fikitd)
    page = fikitd.page()
    assert page.u32("version") == 2
    for number in range(1, 4):
        asks(page, number)
        assert page.u64("launch_seq") == number - 1
        page.grant()
    out, err = run.finish()
    assert (out, err) == ("0\n1\n2\n", "")
    assert page.u64("marker_count") == 3
