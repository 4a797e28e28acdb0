"""A program whose job was told to join MPS asks fikitd before the driver begins; whatever comes, it begins and runs."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from shim_daemon import JOIN, MAY_JOIN, Daemon, refusal, wait_for
from shim_program import Program

pytest_plugins = ["shim_fixtures"]

Start = Callable[..., Program]
StartDaemon = Callable[..., Daemon]

MAY = struct.pack("<II", JOIN, 8)
RUN = """
def libc_says():
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    return (libc.getenv(b"CUDA_MPS_PIPE_DIRECTORY") or b"").decode()
context()
check(launch(function('k')))
fake.fake_pipes_at_init.restype = ctypes.c_char_p
say(fake.fake_pipes_at_init().decode() or "-", libc_says() or "-", calls('cuLaunchKernel'))
"""


def told(daemon: Daemon) -> dict[str, str]:
    """What fikitd and the plugin tell a job's programs."""
    return {"CUDA_MPS_PIPE_DIRECTORY": str(daemon.path.parent / "mps" / "0123")}


def outside(daemon: Daemon) -> str:
    return str(daemon.path.parent / "mps" / "outside")


def purposes(daemon: Daemon) -> list[int]:
    return [struct.unpack_from("<H", hello, 12)[0] & 0xFF for hello in daemon.hellos]


def test_who_may_join_begins_with_the_pipe_directory_that_it_was_told(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(join=MAY)
    pipes = told(fikitd)["CUDA_MPS_PIPE_DIRECTORY"]
    out, err = program(RUN, fikitd, **told(fikitd)).finish()
    assert (out, err) == (f"{pipes} {pipes} 1\n", "")
    assert purposes(fikitd) == [MAY_JOIN, 0], "it asks before it works, and once"


@pytest.mark.parametrize(
    "answer",
    [
        b"x",
        b"\0" * 8,
        b"\xff" * 2048,
        struct.pack("<II", JOIN, 9),
        struct.pack("<III", JOIN, 8, 0),
        struct.pack("<II", JOIN, 2**32 - 1),
        struct.pack("<II", 2, 8),
        struct.pack("<II", 3, 8),
        refusal(""),
        None,
    ],
    ids=["one byte", "zeros", "as long as any", "another size", "too long", "huge", "welcome", "refused unsaid", "refused without a reason", "fikitd of before"],
)  # fmt: skip
def test_whatever_is_answered_instead_the_program_runs_outside_with_one_line(
    program: Start, daemon: StartDaemon, answer: bytes | None
) -> None:
    fikitd = daemon(join=answer)
    out, err = program(RUN, fikitd, **told(fikitd)).finish()
    assert out == f"{outside(fikitd)} {told(fikitd)['CUDA_MPS_PIPE_DIRECTORY']} 1\n"
    assert "runs outside MPS, in time slices of its own: " in err
    assert err.count("\n") == 1
    assert not err.endswith(": .\n")
    assert purposes(fikitd)[-1] == 0, "it is managed all the same"


def test_a_refusal_is_said_with_fikitds_reason(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(join=refusal("it has 36 of 48 MPS clients on this GPU"))
    out, err = program(RUN, fikitd, **told(fikitd)).finish()
    assert out.startswith(outside(fikitd))
    assert (
        err
        == "fikit: this program runs outside MPS, in time slices of its own: it has 36 of 48 MPS clients on this GPU.\n"
    )


def test_a_fikitd_that_says_nothing_costs_seconds_and_no_more(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(join=b"")
    timed = "import time\nt = time.monotonic()\n" + RUN + "say(time.monotonic() - t)\n"
    out, err = program(timed, fikitd, **told(fikitd)).finish()
    said, seconds = out.splitlines()
    assert said.startswith(outside(fikitd))
    assert 4 < float(seconds) < 9
    assert "runs outside MPS" in err


def test_without_fikitd_the_program_runs_outside(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(join=MAY)
    fikitd.stop()
    out, err = program(RUN, fikitd, **told(fikitd)).finish()
    assert out.startswith(outside(fikitd))
    assert err.count("\n") == 2, "neither MPS nor priorities"


@pytest.mark.parametrize("pipes", ["", "/tmp/nvidia-mps", "{directory}/mpsx/0123", "{directory}/mps"])
def test_who_was_told_nothing_of_fikits_mps_asks_nothing(program: Start, daemon: StartDaemon, pipes: str) -> None:
    fikitd = daemon(join=MAY)
    pipes = pipes.format(directory=fikitd.path.parent)
    out, err = program(RUN, fikitd, **({"CUDA_MPS_PIPE_DIRECTORY": pipes} if pipes else {})).finish()
    assert (out, err) == (f"{pipes or '-'} {pipes or '-'} 1\n", "")
    assert purposes(fikitd) == [0]


def test_a_pipe_directory_too_long_for_any_path_is_left_as_it_is(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(join=refusal("no"))
    long = f"{fikitd.path.parent}/mps/{'x' * 5000}"
    out, _ = program(RUN, fikitd, CUDA_MPS_PIPE_DIRECTORY=long).finish()
    assert out.split()[0] == outside(fikitd)
    assert out.split()[1] == long


REFUSALS = [805, 806, 807, 808, 809]
BEGIN = (
    RUN.replace("context()", "begins = cu.cuInit(0)")
    .replace("check(launch(function('k')))", "")
    .replace("calls('cuLaunchKernel')", "begins, calls('cuInit')")
)


@pytest.mark.parametrize("error", REFUSALS)
def test_who_is_refused_by_the_driver_begins_outside_with_one_line_and_gives_its_place_up(
    program: Start, daemon: StartDaemon, error: int
) -> None:
    fikitd = daemon(join=MAY)
    child = program(RUN + "pause()\n", fikitd, **told(fikitd), FAKE_CUDA_INIT=f"{error} 0")
    pipes = told(fikitd)["CUDA_MPS_PIPE_DIRECTORY"]
    assert child.line() == f"{outside(fikitd)} {pipes} 1", "the variable is as before, and the program works"
    wait_for(lambda: len(fikitd.connections) == 1, "end of its connection to MPS")
    assert fikitd.outside == [(error, 0)]
    assert purposes(fikitd) == [MAY_JOIN, 0]
    child.go()
    _, err = child.finish()
    assert err == (
        "fikit: this program runs outside MPS, in time slices of its own: the driver refused it as a client of MPS "
        f"(CUDA error {error}).\n"
    )


@pytest.mark.parametrize("second", [*REFUSALS, 3, 100])
def test_a_driver_that_refuses_a_second_time_gives_the_program_its_first_error(
    program: Start, daemon: StartDaemon, second: int
) -> None:
    fikitd = daemon(join=MAY)
    child = program(BEGIN + "pause()\n", fikitd, **told(fikitd), FAKE_CUDA_INIT=f"807 {second}")
    assert child.line() == f"{outside(fikitd)} {told(fikitd)['CUDA_MPS_PIPE_DIRECTORY']} 807 2"
    wait_for(lambda: not fikitd.connections, "end of its connection to MPS")
    assert fikitd.outside == [(807, second)]
    child.go()
    _, err = child.finish()
    assert err == (
        "fikit: the driver refused this program as a client of MPS (CUDA error 807), and did not start outside MPS either "
        f"(CUDA error {second}): the program gets the first error.\n"
    )


def test_who_was_refused_for_good_stays_outside_however_often_it_begins(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(join=MAY)
    code = "first = cu.cuInit(0)\n" + BEGIN
    out, err = program(code, fikitd, **told(fikitd), FAKE_CUDA_INIT="805 805 0").finish()
    assert out == f"{outside(fikitd)} {told(fikitd)['CUDA_MPS_PIPE_DIRECTORY']} 0 3\n"
    assert err.count("\n") == 1
    assert purposes(fikitd) == [MAY_JOIN]


@pytest.mark.parametrize("error", [1, 3, 100, 804, 810, 999])
def test_any_other_error_is_the_programs_and_its_place_stays(program: Start, daemon: StartDaemon, error: int) -> None:
    fikitd = daemon(join=MAY)
    pipes = told(fikitd)["CUDA_MPS_PIPE_DIRECTORY"]
    child = program(BEGIN + "pause()\n", fikitd, **told(fikitd), FAKE_CUDA_INIT=f"{error} 0")
    assert child.line() == f"{pipes} {pipes} {error} 1"
    assert len(fikitd.connections) == 1
    child.go()
    assert child.finish()[1] == ""
    assert fikitd.outside == []


@pytest.mark.parametrize("pipes", ["", "/tmp/nvidia-mps", "{directory}/mps/outside"])
def test_a_program_that_was_not_let_into_fikits_mps_has_no_second_try(
    program: Start, daemon: StartDaemon, pipes: str
) -> None:
    fikitd = daemon(join=MAY)
    pipes = pipes.format(directory=fikitd.path.parent)
    env = {"CUDA_MPS_PIPE_DIRECTORY": pipes} if pipes else {}
    out, err = program(BEGIN, fikitd, **env, FAKE_CUDA_INIT="805 0").finish()
    assert (out, err) == (f"{pipes or '-'} {pipes or '-'} 805 1\n", "")
    assert purposes(fikitd) == []


def test_who_was_refused_by_fikitd_has_no_second_try(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(join=refusal("no"))
    out, err = program(BEGIN, fikitd, **told(fikitd), FAKE_CUDA_INIT="805 0").finish()
    assert out == f"{outside(fikitd)} {told(fikitd)['CUDA_MPS_PIPE_DIRECTORY']} 805 1\n"
    assert err.count("\n") == 1


def test_who_may_join_and_finds_no_server_says_so_and_gives_its_place_up(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(join=MAY)
    pipes = told(fikitd)["CUDA_MPS_PIPE_DIRECTORY"]
    child = program(RUN + "pause()\n", fikitd, **told(fikitd), FAKE_CUDA_NO_SERVER="1")
    assert child.line() == f"{pipes} {pipes} 1"
    wait_for(lambda: len(fikitd.connections) == 1, "end of its connection to MPS")
    assert fikitd.outside == [(0, 0)]
    child.go()
    assert child.finish()[1] == (
        "fikit: this program runs outside MPS, in time slices of its own: the driver found no MPS server in the directory of "
        "CUDA_MPS_PIPE_DIRECTORY.\n"
    )


def test_threads_that_begin_together_get_one_answer(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(join=MAY)
    code = """
import threading
together, answers = threading.Barrier(8), []
def begin():
    together.wait()
    answers.append(cu.cuInit(0))
threads = [threading.Thread(target=begin) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
say(*answers)
"""
    out, err = program(code, fikitd, **told(fikitd), FAKE_CUDA_INIT="805 0").finish()
    assert out == "0 0 0 0 0 0 0 0\n"
    assert err.count("\n") == 1
    assert purposes(fikitd) == [MAY_JOIN]
    assert fikitd.outside == [(805, 0)]


def test_a_child_of_a_fork_asks_for_a_place_of_its_own(program: Start, daemon: StartDaemon) -> None:
    fikitd = daemon(join=MAY)
    code = """
import os, sys
check(cu.cuInit(0))
child = os.fork()
if child == 0:
    cu.cuInit(0)
    os._exit(0)
say(os.waitpid(child, 0)[1])
"""
    assert program(code, fikitd, **told(fikitd)).finish() == ("0\n", "")
    assert purposes(fikitd) == [MAY_JOIN, MAY_JOIN]
