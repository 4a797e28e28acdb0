"""A program that fikitd did not answer at once becomes managed while it runs, without a thread and without waiting."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import Daemon, Layout, refusal, wait_for
from shim_program import Program

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]
# Launches until it is told to end.
LAUNCH_ON = """
import select, time
context()
f = function("k")
check(launch(f)); say("launched")
while not select.select([sys.stdin], [], [], 0)[0]:
    check(launch(f)); time.sleep(0.002)
say(calls("cuLaunchKernel"))
"""
FIRST = "it runs without priorities until it does."


def lines(run: Program) -> list[str]:
    run.go()
    return run.finish()[1].splitlines()


def test_a_program_that_begins_before_fikitd_is_managed_later(
    program: Start, page_layout: Layout, tmp_path: Path
) -> None:
    path = tmp_path / "later.sock"
    run = program(LAUNCH_ON, FIKIT_SOCKET=str(path))
    assert run.line() == "launched"
    fikitd = Daemon(path, page_layout)
    page = fikitd.page()
    wait_for(lambda: page.launches() > 10, "launches in the page")
    assert wait_for(lambda: fikitd.kernels, "names")
    first, second = lines(run)
    assert first.endswith(FIRST)
    assert second == "fikit: fikitd manages this program from now on."
    fikitd.stop()


def test_a_program_that_was_refused_asks_again(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(answer=refusal("uid 5 connects too often"))
    run = program(LAUNCH_ON, fikitd)
    assert run.line() == "launched"
    wait_for(lambda: len(fikitd.hellos) > 1, "second hello")
    fikitd.answer = None
    fikitd.page()
    assert "uid 5 connects too often" in lines(run)[0]


def test_an_answer_that_comes_late_is_taken(program: Start, daemon: StartDaemon) -> None:
    """The node is so busy that fikitd accepts only after the program has given up waiting."""
    fikitd = daemon(late=True)
    run = program(LAUNCH_ON, fikitd)
    assert run.line() == "launched"
    fikitd.thread.start()
    page = fikitd.page()
    wait_for(lambda: page.launches() > 1, "launches in the page")
    assert len(fikitd.hellos) == 1
    assert lines(run)[1] == "fikit: fikitd manages this program from now on."


def test_streams_and_threads_that_were_there_before_are_managed_too(
    program: Start, page_layout: Layout, tmp_path: Path
) -> None:
    path = tmp_path / "later.sock"
    run = program(
        """
import threading, time
ctx = context()
f = function("k")
check(launch(f))
end = threading.Event()
def work():
    check(cu.cuCtxSetCurrent(ctx))
    while not end.is_set():
        check(launch(f)); time.sleep(0.002)
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]
say("launched"); pause(); end.set()
[t.join() for t in threads]
""",
        FIKIT_SOCKET=str(path),
    )
    assert run.line() == "launched"
    fikitd = Daemon(path, page_layout)
    page = fikitd.page()
    page.close_gate(0.3)
    wait_for(lambda: page.u32("waiting"), "a launch that waits at the gate")
    page.open_gate()
    wait_for(lambda: page.launches() > 30, "launches in the page")
    lines(run)
    fikitd.stop()


def test_a_child_of_a_fork_asks_for_itself(program: Start, page_layout: Layout, tmp_path: Path) -> None:
    path = tmp_path / "later.sock"
    run = program(
        """
import time
context()
f = function("k")
check(launch(f)); say("launched"); pause()
if os.fork() == 0:
    context(); f = function("k")
    for _ in range(400):
        check(launch(f)); time.sleep(0.002)
    os._exit(0)
for _ in range(400):
    check(launch(f)); time.sleep(0.002)
say(os.wait()[1])
""",
        FIKIT_SOCKET=str(path),
    )
    assert run.line() == "launched"
    fikitd = Daemon(path, page_layout)
    run.go()
    wait_for(lambda: len(set(fikitd.pids)) == 2, "two managed processes")
    assert run.finish()[0] == "0\n"
    fikitd.stop()


def test_a_users_own_socket_is_taken_before_everybodys(program: Start, page_layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    own = Daemon(tmp_path / "users" / f"{os.geteuid()}.sock", page_layout)
    everybodys = Daemon(tmp_path / "fikitd.sock", page_layout)
    run = program(LAUNCH_ON, everybodys)
    assert run.line() == "launched"
    assert len(own.hellos) == 1
    assert everybodys.hellos == []
    assert lines(run) == []
    own.stop()
    again = program(LAUNCH_ON, everybodys)
    assert again.line() == "launched"
    assert len(everybodys.hellos) == 1
    assert lines(again) == []
    everybodys.stop()


@pytest.mark.parametrize("socket_path", ["", "x" * 300])
def test_who_has_nobody_to_ask_does_not_ask_again(program: Start, socket_path: str) -> None:
    run = program(LAUNCH_ON, FIKIT_SOCKET=socket_path)
    assert run.line() == "launched"
    said = lines(run)
    assert len(said) == bool(socket_path)
