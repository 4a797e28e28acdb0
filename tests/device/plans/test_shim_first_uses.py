"""What a launch is the first to touch of memory that the program has taken anew, in stream order: it is brought at its allocation where a plan says so, and
nowhere else; every byte stays right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from anew_program import ANEW, FIRST, LAUNCHES, TAKES, Account, brought, faults, moves
from plan_program import AHEAD, BUFFERS, CHUNKS, ROUNDS, begin_rounds, planned, ready, right, rounds, used_first
from shim_daemon import NONE, Daemon, PlanMove
from shim_program import Program

pytest_plugins = ["plan_fixtures"]

Start = Callable[..., Program]

OWN = "s = stream()\nbuffers.go_round = lambda: pass_(s, names[None])\n"
STREAMS = {
    "its own stream": OWN,
    "default stream": "buffers.go_round = lambda: pass_(None, names[None])\n",
    "per-thread default stream": "buffers.go_round = lambda: pass_(None, per_thread)\n",
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
def test_a_launch_finds_what_it_is_the_first_to_touch(
    stream: str, start_in_order: Start, roomy: Daemon, account: Account
) -> None:
    run, page = ready(start_in_order, roomy, TAKES + stream)
    planned(page, moves(), launches=LAUNCHES)
    rounds(run, 2)
    assert faults(run, account) == BUFFERS * CHUNKS, "each of what comes anew"
    planned(page, moves(), number=2, launches=LAUNCHES, uses=used_first(FIRST))
    rounds(run, 2)
    assert faults(run, account) == 0
    assert brought(run, page) == BUFFERS
    assert page.moves()["resident_bytes"] == AHEAD * CHUNKS * 2 * 2**20, "of what the program has between two rounds"
    assert right(run)


ELSEWHERE = {
    "by the launch behind": (OWN, {2 * i + 1: [ANEW] for i in range(BUFFERS)}),
    "of other memory": (OWN, {2 * i: [0, ANEW + 1, 4095] for i in range(BUFFERS)}),
    "taken in another stream": (
        "s, t = stream(), stream()\nbuffers.go_round = lambda: pass_(s, names[None], t)\n",
        FIRST,
    ),
}


@pytest.mark.parametrize(("code", "first"), ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_what_a_plan_does_not_have_there_is_not_brought(
    code: str, first: dict[int, list[int]], start_in_order: Start, roomy: Daemon
) -> None:
    run, page = ready(start_in_order, roomy, TAKES + code)
    planned(page, moves(), launches=LAUNCHES, uses=used_first(first))
    rounds(run, 2)
    assert brought(run, page) == 0
    assert right(run)


def test_what_is_beyond_the_memory_is_not_brought(start_in_order: Start, roomy: Daemon) -> None:
    run, page = ready(start_in_order, roomy, TAKES + OWN)
    beyond = [PlanMove(0, 2 * i, chunk, ANEW, CHUNKS, NONE) for i in range(BUFFERS) for chunk in (1, 2**32 - 1)]
    planned(page, moves(), launches=LAUNCHES, uses=beyond)
    rounds(run, 2)
    assert brought(run, page) == 0
    assert right(run)


def test_a_plan_that_names_everything_brings_what_was_taken(
    start_in_order: Start, roomy: Daemon, account: Account
) -> None:
    """Of a fikitd that means ill: all memory by all launches, again and again."""
    run, page = ready(start_in_order, roomy, TAKES + OWN)
    often = {launch: list(range(BUFFERS + 2)) * 80 for launch in range(LAUNCHES)}
    planned(page, moves(), launches=LAUNCHES, uses=used_first(often))
    rounds(run, 2)
    assert faults(run, account) == 0
    assert brought(run, page) == 80 * BUFFERS
    assert right(run)


def test_nothing_is_brought_while_it_is_the_turn_of_others(start_in_order: Start, roomy: Daemon) -> None:
    code = """
s = stream()
def round():
    at = take(s, "cuMemAllocAsync")
    say("taken")
    pause()
    check(cu.cuMemFreeAsync(ctypes.c_uint64(at), s))
    pass_(s, names[None])
buffers.go_round = round
"""
    run = start_in_order(TAKES + code + ROUNDS, roomy)
    page = roomy.page()
    assert run.line() == "ready"
    planned(page, moves(), launches=LAUNCHES, uses=used_first(FIRST))
    counts = []
    for turn in ("own", "others", "a run of its own", "own"):
        if turn != "own":
            page.close_gate(60)
        page.run(LAUNCHES if turn == "a run of its own" else 0)
        before = page.planned()["carried_out"]
        begin_rounds(run, 1)
        assert run.line() == "taken"
        counts.append(page.planned()["carried_out"] - before)
        page.open_gate()
        page.run(0)
        run.go()
        assert run.line() == "round"
    assert counts[1:] == [0, 1, 1], "the first time the plan is not known"
    assert page.planned()["skipped"] == 0
    assert right(run)


def test_what_the_driver_refuses_is_counted_and_not_tried_again(
    start_in_order: Start, roomy: Daemon, account: Account
) -> None:
    """The third prefetch: behind the first buffer's moves comes what the launch behind is the first to touch."""
    rule = "call=cuMemPrefetchAsync_v2 nth=3 times=1 error=1"
    run, page = ready(start_in_order, roomy, TAKES + OWN, EMUCUDA_FAULTS=rule)
    planned(page, moves(), launches=LAUNCHES, uses=used_first(FIRST))
    rounds(run, 2)
    assert (page.planned()["refused"], page.planned()["skipped"]) == (0, 1)
    assert brought(run, page) == 0
    assert faults(run, account) == BUFFERS * CHUNKS
    planned(page, moves(), number=2, launches=LAUNCHES, uses=used_first(FIRST))
    rounds(run, 2)
    assert brought(run, page) == BUFFERS, "the next plan is another try"
    assert right(run)
