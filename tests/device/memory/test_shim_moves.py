"""The thread at the closed gate moves its process's memory where fikitd wants it; whatever happens meanwhile, every byte stays right."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator_tools import stats
from shim_daemon import CLOSED, Daemon, Page, wait_for
from shim_program import Program

pytest_plugins = ["memory_fixtures"]

MIB = 2**20
ALL = 2**64 - 1
StartDaemon = Callable[..., Daemon]
Start = Callable[..., Program]

TOOLS = """
import os, threading, time
def pattern(i): return bytes((i * 37 + j) % 251 for j in range(251)) * (16 * MIB // 251 + 1)
def fill(p, i, n=16 * MIB): check(cu.cuMemcpyHtoD_v2(ctypes.c_uint64(p), pattern(i)[:n], ctypes.c_size_t(n)))
def right(p, i, n=16 * MIB):
    out = ctypes.create_string_buffer(n)
    check(cu.cuMemcpyDtoH_v2(out, ctypes.c_uint64(p), ctypes.c_size_t(n)))
    return out.raw == pattern(i)[:n]
PTX = b".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry k()\\n{\\n ret;\\n}\\n\\0"
def kernel():
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(cu.cuModuleLoadData(ctypes.byref(module), PTX))
    check(cu.cuModuleGetFunction(ctypes.byref(function), module, b"k"))
    return function
def launch(f, stream=None): return cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, None, None)
ctx = context()
k = kernel()
"""
FOUR = "buffers = [made(alloc(16 * MIB)) for _ in range(4)]\nfor i, p in enumerate(buffers): fill(p, i)\n"
EIGHT = FOUR.replace("range(4)", "range(8)")
RIGHT = "say(all(right(p, i) for i, p in enumerate(buffers)))\n"
LAUNCH = "say('ready')\npause()\nsay(launch(k))\n"


@pytest.fixture
def start(on_gpu: Start, tmp_path: Path) -> Start:
    """A program on a GPU of 256 MiB whose link takes its time."""
    config = tmp_path / "gpu.toml"
    config.write_text('[device]\nmemory = "256MiB"\ncontext_memory = 0\n')

    def begin(code: str, daemon: Daemon, **env: str) -> Program:
        return on_gpu(TOOLS + code, daemon, **{"EMUCUDA_CONFIG": str(config), **env})

    return begin


@pytest.fixture
def allowed(daemon: StartDaemon) -> Daemon:
    return daemon(limit_bytes=128 * MIB, host_bytes=128 * MIB)


@pytest.fixture
def account(native: Path, emulator_env: Callable[..., dict[str, str]]) -> Callable[[], dict[str, Any]]:
    """What the device says of its newest process."""

    def look() -> dict[str, Any]:
        (device,) = stats(native, emulator_env())
        return dict(device["processes"][-1])

    return look


def reached(page: Page, goal: int) -> dict[str, int]:
    wait_for(lambda: page.u32("moves.reached") == goal, "the goal is reached")
    return page.moves()


def at_gate(run: Program, page: Page) -> None:
    """The program launches, and waits."""
    assert run.line() == "ready"
    page.close_gate(60)
    run.go()
    wait_for(lambda: page.u32("waiting"), "a request")


def test_memory_leaves_at_the_gate_and_is_back_before_the_grant(
    start: Start, allowed: Daemon, account: Callable[[], dict[str, Any]]
) -> None:
    run = start(f"{FOUR}{LAUNCH}{RIGHT}", allowed)
    page = allowed.page()
    at_gate(run, page)
    assert page.moves() | {"moving_ns": 0} == {
        "movable_bytes": 64 * MIB, "resident_bytes": 64 * MIB, "in_bytes": 0, "out_bytes": 0, "missed_bytes": 0, "moving_ns": 0,
        "reached": 0, "turns": 0, "failures": 0,
    }  # fmt: skip
    gone = reached(page, page.want(0))
    assert account()["resident_bytes"] == 0
    assert (gone["resident_bytes"], gone["out_bytes"], gone["turns"]) == (0, 64 * MIB, 0)
    part = reached(page, page.want(24 * MIB))
    assert account()["resident_bytes"] == part["resident_bytes"] == 24 * MIB
    back = reached(page, page.want(ALL))
    assert account()["resident_bytes"] == 64 * MIB
    assert (back["in_bytes"], back["out_bytes"], back["turns"], back["missed_bytes"]) == (64 * MIB, 64 * MIB, 1, 0), (
        "in two parts"
    )
    reached(page, page.want(24 * MIB))
    assert reached(page, page.want(ALL))["turns"] == 2
    assert back["moving_ns"] > 0
    page.grant()
    assert run.line() == "0"
    page.open_gate()
    assert run.finish() == ("True\n", "")


def test_what_is_no_multiple_of_a_chunk_moves_in_whole_ones(start: Start, allowed: Daemon) -> None:
    """Allocations and goals: in the end no more than the goal is there, less than 2 MiB is missing, and nothing goes to and fro."""
    odd = FOUR.replace("alloc(16 * MIB)", "alloc(16 * MIB + 12345)")
    run = start(f"{odd}{LAUNCH}{RIGHT}", allowed)
    page = allowed.page()
    at_gate(run, page)
    held = 4 * (16 * MIB + 12345)
    for goal in (held - 1, 33 * MIB, 1, 3 * MIB + 5, 47 * MIB + 1, held):
        moves = reached(page, page.want(goal))
        assert goal - 2 * MIB < moves["resident_bytes"] <= goal
    assert moves["failures"] == 0
    assert moves["in_bytes"] == moves["out_bytes"] <= 2 * held
    page.grant()
    assert run.line() == "0"
    page.open_gate()
    assert run.finish() == ("True\n", "")


def test_pieces_ask_as_copies_where_copies_ask(start: Start, allowed: Daemon) -> None:
    """So they wait while a job above is expected to copy; for 64 MiB at a time, whatever allocations they are of."""
    run = start(f"{EIGHT}{LAUNCH}{RIGHT}", allowed)
    page = allowed.page()
    for word in range(2):  # one for each direction
        page.set_u64("copies_ask_from", MIB, word)
    assert run.line() == "ready"
    page.close_gate(60)
    goal = page.want(16 * MIB)
    run.go()
    wait_for(lambda: page.u32("waiting") and page.u32("request_copy") == 2, "pieces that ask")
    assert (page.u64("request_bytes"), page.moves()["out_bytes"]) == (64 * MIB, 0)
    asked = page.u32("request_seq")
    page.grant()
    wait_for(lambda: page.u32("waiting") and page.u32("request_seq") != asked, "the last ones")
    assert (page.u64("request_bytes"), page.moves()["out_bytes"]) == (48 * MIB, 64 * MIB)
    page.grant()
    assert reached(page, goal)["resident_bytes"] == 16 * MIB
    wait_for(lambda: page.u32("waiting") and page.u32("request_copy") == 0, "the launch")
    page.grant()
    assert run.line() == "0"
    page.open_gate()
    assert run.finish() == ("True\n", "")


def test_work_that_may_go_on_does_not_wait_for_the_rest_of_a_move(start: Start, allowed: Daemon) -> None:
    run = start(f"{FOUR}{LAUNCH}{RIGHT}", allowed)
    page = allowed.page()
    at_gate(run, page)
    reached(page, page.want(0))
    page.set_u64("copies_ask_from", MIB)  # nobody answers the first piece
    goal = page.want(ALL)
    wait_for(lambda: page.u32("request_copy") == 1 and page.u32("waiting"), "a piece that asks")
    page.open_gate()
    assert run.line() == "0"
    assert page.u32("moves.reached") == goal
    assert page.moves()["missed_bytes"] == 64 * MIB
    assert page.moves()["in_bytes"] == 0
    assert run.finish() == ("True\n", "")


def test_a_grant_in_the_middle_of_a_move_is_used_after_the_pieces_that_are_under_way(
    start: Start, allowed: Daemon, tmp_path: Path
) -> None:
    slow = tmp_path / "slow.toml"
    slow.write_text('[device]\nmemory = "256MiB"\ncontext_memory = 0\n[copy]\nh2d_gbps = 0.04\n')
    run = start(f"{EIGHT}{LAUNCH}{RIGHT}", allowed, EMUCUDA_CONFIG=str(slow))
    page = allowed.page()
    at_gate(run, page)
    reached(page, page.want(0))
    goal = page.want(ALL)
    wait_for(lambda: page.moves()["in_bytes"] >= 64 * MIB, "the first pieces")
    page.grant()
    assert run.line() == "0"
    said = page.moves()
    assert said["reached"] == goal
    assert said["in_bytes"] == 64 * MIB
    assert said["missed_bytes"] == 64 * MIB
    page.open_gate()
    assert run.finish() == ("True\n", "")


def test_a_lease_that_ends_ends_the_moving(start: Start, allowed: Daemon) -> None:
    run = start(f"{FOUR}{LAUNCH}{RIGHT}", allowed)
    page = allowed.page()
    assert run.line() == "ready"
    page.set_u64("copies_ask_from", MIB)
    page.close_gate(0.5)
    page.want(0)
    run.go()
    assert run.line() == "0"
    assert run.finish() == ("True\n", "")


def test_nothing_moves_at_an_open_gate_or_in_another_job(start: Start, daemon: StartDaemon, allowed: Daemon) -> None:
    run = start(f"{FOUR}{LAUNCH}{RIGHT}", allowed)
    allowed.page().want(0)
    run.line()
    run.go()
    assert run.finish() == ("0\nTrue\n", "")
    assert allowed.page().moves()["out_bytes"] == 0
    other = daemon(limit_bytes=128 * MIB)
    run = start(f"{FOUR}{LAUNCH}{RIGHT}", other, EMUCUDA_LOG="1")
    page = other.page()
    at_gate(run, page)
    reached(page, page.want(0))
    page.grant()
    assert run.line() == "0"
    page.open_gate()
    out, err = run.finish()
    assert out == "True\n"
    assert "cuMemPrefetchAsync" not in err
    assert "cuStreamCreate" not in err


def test_small_pieces_follow_each_other_on_the_link_without_a_pause(
    start: Start, allowed: Daemon, native: Path, emulator_env: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """The driver has the next ones before it has moved the first."""
    slow = tmp_path / "slow.toml"
    slow.write_text('[device]\nmemory = "256MiB"\ncontext_memory = 0\n[copy]\nd2h_gbps = 0.04\n')
    code = "for i in range(16): fill(made(alloc(2 * MIB)), i, 2 * MIB)\n" + LAUNCH
    run = start(code, allowed, EMUCUDA_CONFIG=str(slow))
    page = allowed.page()
    at_gate(run, page)
    emuctl = native / "bin/emuctl"
    subprocess.run([emuctl, "trace", "--on"], env=emulator_env(), check=True, capture_output=True)
    reached(page, page.want(0))
    said = subprocess.run([emuctl, "trace", "--json"], env=emulator_env(), check=True, capture_output=True).stdout
    events = json.loads(said)["events"]
    out = sorted((each["enqueue_ns"], each["end_ns"]) for each in events if each["kind"] == "copy_out")
    assert len(out) == 16
    assert all(later[0] < out[0][1] for later in out), out
    page.open_gate()
    assert run.line() == "0"


@pytest.mark.parametrize(
    ("rule", "failed"),
    [("call=cuMemPrefetchAsync* nth=2 times=all error=1", 1), ("call=cuStreamCreate nth=1 times=all error=2", 1)],
)
def test_an_error_of_the_driver_ends_the_moving_and_nothing_else(
    rule: str, failed: int, start: Start, allowed: Daemon
) -> None:
    run = start(f"{FOUR}{LAUNCH}{RIGHT}", allowed, EMUCUDA_FAULTS=rule)
    page = allowed.page()
    at_gate(run, page)
    assert reached(page, page.want(0))["failures"] == failed
    assert reached(page, page.want(ALL))["failures"] == failed, "nothing is known to be away"
    page.grant()
    assert run.line() == "0"
    page.open_gate()
    out, err = run.finish()
    assert out == "True\n"
    assert "fikit:" not in err


CAPTURE = f"""
stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
check(cu.cuStreamCreate(ctypes.byref(stream), 1))
{FOUR}
say('ready'); pause()
def wait(): check(cu.cuCtxSetCurrent(ctx)); say(launch(k))
check(cu.cuStreamBeginCapture_v2(stream, 0))
check(launch(k, stream))
waiter = threading.Thread(target=wait)
waiter.start()
pause()
check(launch(k, stream))
say(cu.cuStreamEndCapture(stream, ctypes.byref(graph)))
waiter.join()
pause()
say(launch(k))
{RIGHT}"""


def test_nothing_moves_while_a_stream_captures_and_the_capture_is_whole(start: Start, allowed: Daemon) -> None:
    run = start(CAPTURE, allowed)
    page = allowed.page()
    assert run.line() == "ready"
    page.close_gate(60)
    goal = page.want(0)
    run.go()
    wait_for(lambda: page.u32("waiting"), "the other thread")
    page.wake()
    page.grant()
    assert run.line() == "0"
    assert page.moves()["out_bytes"] == 0
    assert page.u32("moves.reached") != goal
    run.go()
    assert run.line() == "0", "the capture ended as without fikit"
    run.go()
    assert reached(page, goal)["out_bytes"] == 64 * MIB, "the next one at the gate moves"
    page.grant()
    assert run.line() == "0"
    page.open_gate()
    assert run.finish() == ("True\n", "")


CHURN = f"""
{FOUR}
from churn_child import Others, allocations, contexts, forks
others = Others(ctx, lambda goes_on: allocations(goes_on, 16), contexts, forks)
say('ready'); pause()
say(launch(k))
others.end()
{RIGHT}"""


def test_frees_contexts_that_end_and_forks_in_the_middle_of_moves(start: Start, allowed: Daemon) -> None:
    run = start(CHURN, allowed)
    page = allowed.page()
    assert run.line() == "ready"
    page.close_gate(100)
    run.go()
    for turn in range(12):
        reached(page, page.want(0 if turn % 2 == 0 else ALL))
    page.grant()
    page.open_gate()
    assert run.line() == "0"
    assert run.finish() == ("True\n", "")
    assert page.moves()["failures"] == 0, "what is freed is not moved"


def test_a_process_that_is_killed_in_the_middle_of_a_move_leaves_the_gpu_to_others(
    start: Start, daemon: StartDaemon, allowed: Daemon, account: Callable[[], dict[str, Any]]
) -> None:
    run = start(f"{FOUR}{LAUNCH}{RIGHT}", allowed)
    page = allowed.page()
    page.set_u64("copies_ask_from", 0)
    at_gate(run, page)
    page.want(0)
    run.process.kill()
    run.process.wait()
    other = start(f"{FOUR}{RIGHT}", daemon(limit_bytes=128 * MIB, host_bytes=128 * MIB))
    assert other.finish() == ("True\n", "")


def test_a_killed_fikitd_ends_the_moving_and_opens_the_gate(start: Start, allowed: Daemon) -> None:
    run = start(f"{FOUR}{LAUNCH}{RIGHT}", allowed)
    page = allowed.page()
    at_gate(run, page)
    page.set_u64("copies_ask_from", MIB)
    reached(page, page.want(0))
    page.want(ALL)
    allowed.stop()
    out, err = run.finish()
    assert out == "0\nTrue\n"
    assert page.u32("gate") in {0, CLOSED}
    assert err.count("\n") <= 1
