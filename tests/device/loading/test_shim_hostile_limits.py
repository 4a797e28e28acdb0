"""Descriptors, limits, sandboxes, other roots: what is taken from the program, the shim does without."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import EXPIRED, Daemon
from shim_hostile import LIMIT_S, build, outcome, without_shim

pytest_plugins = ["shim_fixtures"]

Compile = Callable[..., Path]
Environment = Callable[..., dict[str, str]]
StartDaemon = Callable[..., Daemon]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
HABITS = ["close everything", "little stack", "RLIMIT_MEMLOCK", "no futex", "old sandbox", "kill", "descriptors later"]
# Whether these can still be managed is for the system to say; if not, one line says so.
CRAMPED = ["no descriptor", "one descriptor", "RLIMIT_AS", "no sockets", pytest.param("RLIMIT_NPROC", marks=needs_root)]


@pytest.fixture(scope="module")
def program(cc: Compile, fake_cuda: Path) -> Path:
    return build(cc, "shim_hostile_limits.c", fake_cuda)


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("options", [{}, {"measure": True}, {"closed": True, "lease_s": 0.2}], ids=str)
def test_program_goes_on_managed(
    habit: str, options: dict[str, object], program: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    env = shim_env(FIKIT_SOCKET=str(daemon(**options).path))
    alone = outcome([program, habit], without_shim(env))
    assert alone.stdout.endswith("end\n")
    assert outcome([program, habit], env) == alone


@pytest.mark.parametrize("habit", CRAMPED)
def test_program_goes_on_without_being_managed(
    habit: str, program: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    env = shim_env(FIKIT_SOCKET=str(daemon().path))
    alone, done = outcome([program, habit], without_shim(env)), outcome([program, habit], env)
    assert alone.stdout.endswith("end\n")
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    lines = done.stderr.splitlines()
    assert all(line.startswith("fikit: ") and "it runs without priorities" in line for line in lines)
    assert len(lines) <= 1


CALLS = ["socket", "setsockopt", "connect", "sendto", "recvmsg", "fcntl", "lseek", "fstat", "newfstatat", "write", "ppoll",
         "rt_sigtimedwait", "sched_yield", "futex", "nanosleep", "futex and nanosleep"]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_program_whose_sandbox_refuses_a_system_call_of_ours_goes_on(
    call: str, program: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    for options in ({}, {"closed": True, "lease_s": 0.1}):
        for when in ("before", "after"):
            for number in (errno.EPERM, errno.ENOSYS, errno.EACCES):
                env = shim_env(FIKIT_SOCKET=str(daemon(**options).path))
                command: list[str | Path] = [program, "refuse", call, str(number), when]
                alone, done = outcome(command, without_shim(env)), outcome(command, env)
                assert alone.stdout.endswith("end\n")
                assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
                lines = done.stderr.splitlines()
                assert len(lines) <= 1, lines
                assert all(line.startswith("fikit: ") for line in lines)


def test_launch_at_a_closed_gate_in_a_sandbox_without_futex_waits(
    program: Path, shim_env: Environment, daemon: StartDaemon
) -> None:
    fikitd = daemon(closed=True, lease_s=0.2)
    outcome([program, "no futex"], shim_env(FIKIT_SOCKET=str(fikitd.path)))
    assert fikitd.page().of_kind(EXPIRED)


def test_line_at_a_file_size_limit_does_not_end_the_program(
    program: Path, shim_env: Environment, tmp_path: Path
) -> None:
    errors = tmp_path / "errors"
    errors.write_text("so far\n")
    done = outcome([program, "full file", errors], shim_env(FIKIT_SOCKET=str(tmp_path / "nobody.sock")))
    assert (done.returncode, done.stdout) == (0, "end\n")
    assert errors.read_text() == "so far\n"


def test_line_into_a_broken_pipe_does_not_end_the_program(program: Path, shim_env: Environment, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    env = shim_env(FIKIT_SOCKET=str(tmp_path / "nobody.sock"))
    done = subprocess.run(
        [program, "broken pipe"], env=env, stdout=subprocess.PIPE, stderr=writing, timeout=LIMIT_S, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stdout) == (0, b"end\n")


def test_line_into_a_full_pipe_does_not_stop_the_program(program: Path, shim_env: Environment, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    size = fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)
    os.write(writing, b"x" * size)
    env = shim_env(FIKIT_SOCKET=str(tmp_path / "nobody.sock"))
    done = subprocess.run(
        [program, "broken pipe"], env=env, stdout=subprocess.PIPE, stderr=writing, timeout=LIMIT_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"end\n")
    os.close(reading)
    os.close(writing)


def test_data_file_in_place_of_standard_error_gets_no_line(
    program: Path, shim_env: Environment, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    env = shim_env(FIKIT_SOCKET=str(tmp_path / "nobody.sock"))
    done = outcome([program, "standard error reused", data], env)
    assert (done.returncode, done.stdout) == (0, "data file is 2\nend\n")
    assert data.read_bytes() == b""


@needs_root
def test_program_in_an_empty_root_has_its_driver(
    program: Path, shim_env: Environment, daemon: StartDaemon, tmp_path: Path
) -> None:
    (tmp_path / "root").mkdir()
    env = shim_env(FIKIT_SOCKET=str(daemon().path))
    alone = outcome([program, "chroot", tmp_path / "root"], without_shim(env))
    done = outcome([program, "chroot", tmp_path / "root"], env)
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout) == (0, "end\n")
    assert "runs without priorities" in done.stderr


@needs_root
def test_program_in_a_container_with_the_socket_mounted_is_managed(
    program: Path, shim_env: Environment, daemon: StartDaemon, tmp_path: Path
) -> None:
    (tmp_path / "root").mkdir()
    fikitd = daemon()
    env = shim_env(FIKIT_SOCKET=str(fikitd.path))
    done = outcome([program, "container", tmp_path / "root", fikitd.path], env)
    if "container: errno" in done.stdout:
        pytest.skip(f"no mount namespaces here: {done.stdout}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
    assert fikitd.page().launches() == 3
