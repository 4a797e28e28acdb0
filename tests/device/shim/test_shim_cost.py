"""What the shim costs, in units that a busy machine does not change: instructions per launch, resident memory."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import Daemon
from shim_hostile import build, outcome, without_shim

pytest_plugins = ["shim_fixtures"]

Compile = Callable[..., Path]
Environment = Callable[..., dict[str, str]]
StartDaemon = Callable[..., Daemon]

# Instructions of the shim's own code per launch through an open gate, neither sampled nor marked, as the compiler named here
# makes them. A change of the launch path changes the figure here, in the same commit; see shim/README.md.
INSTRUCTIONS = 263
COPY_INSTRUCTIONS = 53
PUSH_AND_POP = 28  # around a launch, whose stream is found at once all the same
UPDATE_OF_A_NODE = 148  # cuGraphExecUpdate
ARGUMENTS_OF_A_NODE = 280  # cuGraphExecKernelNodeSetParams
COMPILER = "GCC: (Debian 12.2.0"
OTHER_COMPILERS = 1.25  # how much more the code of another one may be


@pytest.fixture(scope="module")
def program(cc: Compile, fake_cuda: Path) -> Path:
    return build(cc, "shim_count.c", fake_cuda)


def own_instructions(profile: Path, library: str) -> int:
    """Instructions executed in `library` itself, not in what it calls, by a callgrind file without compression."""
    total, here, call = 0, False, False
    for line in profile.read_text().splitlines():
        if line.startswith("ob="):
            here = library in line
        elif line.startswith("calls="):
            call = True  # the line after it is the callee's cost
        elif re.match(r"[+*\-0-9]", line):
            if here and not call:
                total += int(line.split()[-1])
            call = False
    return total


def count(program: Path, env: dict[str, str], launches: int, out: Path, what: str = "launch_many") -> int:
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no"]
    command += ["--compress-pos=no", f"--toggle-collect={what}", str(program), str(launches)]
    done = outcome([*command], env)
    assert done.returncode == 0, done.stderr
    return own_instructions(out, "libfikit_shim.so")


def test_instructions_of_a_launch_through_an_open_gate(
    program: Path, shim: Path, shim_env: Environment, daemon: StartDaemon, tmp_path: Path
) -> None:
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    env = shim_env(FIKIT_SOCKET=str(daemon().path))
    few, many = (count(program, env, launches, tmp_path / f"{launches}.out") for launches in (100, 1100))
    built_by = subprocess.run(["readelf", "-p", ".comment", shim], capture_output=True, text=True, check=True).stdout
    allowed = INSTRUCTIONS if COMPILER in built_by else INSTRUCTIONS * OTHER_COMPILERS
    assert (many - few) % 1000 == 0, "not the same for every launch"
    assert 0 < (many - few) / 1000 <= allowed


def test_instructions_of_a_copy_of_a_job_that_is_alone(
    program: Path, shim: Path, shim_env: Environment, daemon: StartDaemon, tmp_path: Path
) -> None:
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    env = shim_env(FIKIT_SOCKET=str(daemon().path))
    few, many = (count(program, env, copies, tmp_path / f"{copies}.out", "copy_many") for copies in (100, 1100))
    assert 0 < (many - few) / 1000 <= COPY_INSTRUCTIONS * OTHER_COMPILERS, (many - few) / 1000


@pytest.fixture
def beside_launches(native: Path, emulator_env: Environment, shim: Path, tmp_path: Path) -> Callable[[str, str], float]:
    """Instructions of the shim's own for each of so many, in a function of shim/bench/calls_bench.c; its driver is the emulated one."""
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    out = tmp_path / "out"
    env = emulator_env(LD_PRELOAD=str(shim))
    calls, nodes, rounds = 300, 400, 2  # of rounds, one is for warming up

    def each(function: str, times: int) -> float:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no"]
        command += ["--compress-pos=no", f"--toggle-collect={function}"]
        bench = native / "bin" / "fikit-calls-bench"
        done = outcome([*command, bench, "1", str(calls), str(nodes)], env)
        assert done.returncode == 0, done.stderr
        return own_instructions(out, "libfikit_shim.so") / (rounds * times)

    return lambda function, by: each(function, {"calls": calls, "nodes": nodes}[by])


def test_a_context_pushed_around_a_launch_costs_nothing_at_the_launch(
    beside_launches: Callable[[str, str], float],
) -> None:
    alone, pushed = (beside_launches(function, "calls") for function in ("launch_alone", "launch_pushed"))
    assert 0 < pushed - alone <= PUSH_AND_POP * OTHER_COMPILERS


def test_an_update_of_a_graph_looks_at_each_node_once_where_only_arguments_change(
    beside_launches: Callable[[str, str], float],
) -> None:
    assert 0 < beside_launches("update_graph", "nodes") <= UPDATE_OF_A_NODE * OTHER_COMPILERS


@pytest.mark.parametrize(("function", "times"), [("set_arguments", 1), ("set_grids", 2)])
def test_a_changed_node_costs_the_same_however_many_have_changed(
    function: str, times: int, beside_launches: Callable[[str, str], float]
) -> None:
    assert 0 < beside_launches(function, "nodes") / times <= 1.2 * ARGUMENTS_OF_A_NODE * OTHER_COMPILERS


@pytest.mark.parametrize("kernels", [1, 4000])
@pytest.mark.parametrize("options", [{}, {"sample_every": 64}, {"measure": True}, {"deaf": True}], ids=str)
def test_resident_memory_is_below_two_mib(
    kernels: int, options: dict[str, object], program: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    env = shim_env(FIKIT_SOCKET=str(daemon(**options).path))
    command: list[str | Path] = [program, "1000", str(kernels)]
    alone, managed = (min(int(outcome(command, e).stdout) for _ in range(2)) for e in (without_shim(env), env))
    assert managed - alone <= 2048
