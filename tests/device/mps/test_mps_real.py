"""fikitd's MPS with NVIDIA's own control daemons, of every driver that Debian has; and the stand-in compared with them, answer by answer.

Without a GPU a server of NVIDIA's ends at once. A script in its place lives, and the daemon has it for a server that still starts.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import nvidia_mps
import pytest
from daemon_process import eventually
from fikit.checks import mps as doctor
from fikitd.mps import control, notes, programs, servers
from fikitd.mps.control import MpsError, began
from fikitd.mps.servers import Server

UUID = "GPU-1a2b3c4d-0000-0000-0000-000000000000"
NOBODY = 65534
LIVES = "#!/bin/sh\nexec sleep 60\n"


@pytest.fixture(params=sorted(nvidia_mps.SUITES))
def driver(request: pytest.FixtureRequest) -> str:
    found = nvidia_mps.unpacked(request.param)
    if isinstance(found, str):
        pytest.skip(f"NVIDIA's control daemon of driver {request.param} cannot be had: {found}")
    return str(request.param)


@pytest.fixture
def root() -> Iterator[Path]:
    """Short, because sockets have short paths, and everybody's to enter."""
    with tempfile.TemporaryDirectory(prefix="mps-", dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def directories(driver: str) -> list[str]:
    return [str(path) for path in nvidia_mps.unpacked(driver)]


def living_server(root: Path) -> Path:
    """The directory of a program that is called as NVIDIA's server, and lives."""
    made = root / "bin"
    made.mkdir(exist_ok=True)
    (made / programs.SERVER_PROGRAM).write_text(LIVES)
    (made / programs.SERVER_PROGRAM).chmod(0o755)
    return made


# ---------------------------------------------------------------------- fikitd's classes


@pytest.fixture
def path(driver: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """NVIDIA's two programs are in it."""
    made = os.pathsep.join([*directories(driver), os.environ["PATH"]])
    monkeypatch.setenv("PATH", made)
    return made


@pytest.fixture
def served(root: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> Path:
    """A server that is begun lives. The directory that fikitd has for MPS."""
    monkeypatch.setenv("PATH", f"{living_server(root)}:{path}")
    return root


def a_server(directory: Path, owner: int | None = None) -> Server:
    server = Server(UUID, directory, lambda: None, lambda: False)
    server.give_to(owner)
    return server


async def ended(server: Server) -> None:
    pids = list(server.processes)
    begun = time.monotonic()
    await server.end()
    assert time.monotonic() - begun < 2 * servers.QUIT_S + 2
    eventually(lambda: not any(map(began, pids)))


def test_a_server_that_ends_at_once_is_an_error_and_is_not_announced(
    path: str, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fikitd")

    async def ensure() -> None:
        server = a_server(root, os.geteuid())
        with pytest.raises(MpsError, match=r"each of 5 ended as soon as it began: see .*\.log"):
            await server.ensure()
        assert not server.processes
        server.leave()

    asyncio.run(ensure())
    assert "MPS serves" not in caplog.text
    assert "exited with status 1" in (notes.places(root, UUID).logs / "control.out").read_text()


def test_where_the_driver_says_no_state_a_server_that_lives_serves_and_else_one_that_says_it_is_ready(
    driver: str, served: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fikitd")

    async def ensure() -> None:
        server = a_server(served, os.geteuid())
        try:
            if driver == "535":
                await server.ensure()
                assert server.ready
                assert await server.control.clients(server.server) == []
                assert await server.control.status(server.server) == control.UNKNOWN
            else:
                with pytest.raises(MpsError, match="was not there within 2 s"):
                    await server.ensure(timeout_s=2)
        finally:
            await ended(server)

    asyncio.run(ensure())
    assert ("MPS serves" in caplog.text) == (driver == "535")
    assert caplog.text.count("says no server's state") == (1 if driver == "535" else 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="begins a server of another user")
def test_its_server_is_the_one_users_for_whom_it_is_begun(
    driver: str, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "_look_whether_it_serves", as_if_it_served)

    async def ensure() -> None:
        server = a_server(served, NOBODY)
        assert not server.several_users
        await server.ensure()
        try:
            status = Path(f"/proc/{server.server}/status").read_text()
            assert re.findall(r"^Uid:\t(\d+)", status, re.M) == [str(NOBODY)]
            places = server.pipes.parent.glob(f"{server.pipes.name}/*")
            modes = {each.name: each.lstat().st_mode for each in places}
            assert server.pipes.stat().st_mode & 0o7777 == 0o755, "NVIDIA's daemon leaves it as it was made"
            assert modes["control"] & 0o777 == 0o666
            for number in range(2):  # one that nobody uses makes room for another user's
                await server.end()
                server.give_to(number)
                await server.ensure()
        finally:
            await ended(server)

    asyncio.run(ensure())


async def as_if_it_served(self: Server, _timeout_s: float = 0) -> None:
    self._serving = self.server


def test_option_for_several_users_is_not_known_to_it_as_doctor_says(path: str, driver: str, root: Path) -> None:
    check = doctor.programs()
    assert check.status == "warn"
    assert "does not know -multiuser-server: MPS serves one user's jobs at a time" in check.found

    async def start() -> None:
        server = a_server(root)
        server._make_directories()
        server.pid = server.control.start(several_users=True)
        server.started = began(server.pid)
        with pytest.raises(MpsError, match="ended at once"):
            async with asyncio.timeout(10):
                await server._until_it_serves()

    asyncio.run(start())


def test_programs_that_are_not_in_path_are_found_by_fikitd_and_by_the_daemon(
    driver: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = living_server(root)
    (beside / programs.PROGRAM).symlink_to(Path(directories(driver)[0]) / programs.PROGRAM)
    monkeypatch.setattr(programs, "DRIVERS_OWN", str(beside))
    monkeypatch.setattr(Server, "_look_whether_it_serves", as_if_it_served)

    async def ensure() -> None:
        server = a_server(root, os.geteuid())
        await server.ensure()
        await ended(server)

    asyncio.run(ensure())


# ---------------------------------------------------------------------- the stand-in beside it


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


class Daemon:
    """A control daemon by its program, with directories of its own."""

    def __init__(self, program: Path, directory: Path, env: dict[str, str]) -> None:
        self.program, self.pipes, self.logs = program, directory / "pipes", directory / "logs"
        places = {"CUDA_MPS_PIPE_DIRECTORY": str(self.pipes), "CUDA_MPS_LOG_DIRECTORY": str(self.logs)}
        self.env = {**env, **places, "CUDA_VISIBLE_DEVICES": UUID}
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self, *, umask: int = -1) -> None:
        self.process = subprocess.Popen(
            [self.program, "-f"], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, umask=umask
        )
        eventually(lambda: self.ask("get_server_list").code == 0)

    def run(self, *options: str, given: str = "") -> Said:
        done = subprocess.run(
            [self.program, *options], env=self.env, input=given, capture_output=True, text=True, timeout=20, check=False
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def ask(self, command: str) -> Said:
        return self.run(given=f"{command}\n")

    def server(self) -> str:
        return self.ask("get_server_list").out.strip()

    def modes(self) -> dict[str, tuple[str, int]]:
        """Type and mode of each file; what the stand-in has for itself is left out."""
        places = [self.pipes, *(file for file in self.pipes.iterdir() if not file.name.startswith("emulated_"))]
        return {
            place.name: (stat.filemode(mode)[0], mode & 0o777) for place in places for mode in [place.lstat().st_mode]
        }

    def close(self) -> None:
        if self.process is not None:
            for pid in control.children(self.process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()


@pytest.fixture
def both(driver: str, native: Path, root: Path) -> Iterator[tuple[Daemon, Daemon]]:
    """NVIDIA's daemon, whose servers stay in their start; and the stand-in as the same driver's, with such a server."""
    real, standing_in = root / "real", root / "standing_in"
    for directory in (real, standing_in):
        directory.mkdir()
    base = {"PATH": os.pathsep.join([str(living_server(root)), *directories(driver), os.environ["PATH"]])}
    fault = {"EMUCUDA_MPS_DRIVER": driver, "EMUCUDA_MPS_FAULTS": "late 60"}
    daemons = (
        Daemon(Path(directories(driver)[0]) / programs.PROGRAM, real, base),
        Daemon(native / "emulator" / programs.PROGRAM, standing_in, {**base, **fault}),
    )
    yield daemons
    for daemon in daemons:
        daemon.close()


def same(both: tuple[Daemon, Daemon], *commands: str) -> None:
    """Every answer, its exit status, and where it is printed. Processes have other numbers."""
    for command in commands:
        said = [daemon.ask(command.replace("SERVER", daemon.server())) for daemon in both]
        plain = [Said(s.code, *(re.sub(r"\b\d{2,}\b(?!\.)", "N", text) for text in (s.out, s.err))) for s in said]
        assert plain[0] == plain[1], command


def test_stand_in_takes_the_same_options_and_files_have_the_same_modes(both: tuple[Daemon, Daemon]) -> None:
    for options in ((), ("-x",), ("-f", "-x"), ("-multiuser-server",), ("-f", "-multiuser-server"), ("-v",)):
        real, standing_in = (daemon.run(*options) for daemon in both)
        assert real == standing_in, options
    for daemon in both:
        daemon.begin(umask=0o077)
    assert both[0].modes() == both[1].modes()
    assert both[0].modes()["pipes"] == ("d", 0o777), "a directory of its own"
    for options in (("-f",), ("-d",), ("-x",)):
        assert both[0].run(*options) == both[1].run(*options), options
    same(both, "quit")
    for daemon in both:
        assert daemon.process is not None
        daemon.process.wait(10)
    assert both[0].modes() == both[1].modes(), "what it leaves behind"
    assert [list(daemon.logs.iterdir()) for daemon in both] == [[], []]


def test_stand_in_answers_as_the_real_one(both: tuple[Daemon, Daemon]) -> None:
    for daemon in both:
        daemon.begin()
    same(
        both, "", "nonsense", "GET_SERVER_LIST", "  get_server_list  ", "get_server_status 123", "get_server_status",
        "get_client_list 123", "get_client_list", "get_client_list x",
        "terminate_client 123 4", "terminate_client", "shutdown_server 123", "shutdown_server",
        "get_default_client_priority", "set_default_client_priority 1", "get_default_client_priority",
        "set_default_client_priority", "set_default_client_priority 7", "set_default_client_priority x",
        "get_default_active_thread_percentage", "set_default_active_thread_percentage 50",
        "set_default_active_thread_percentage", "set_default_active_thread_percentage 150", "start_server", "start_server -uid",
        "start_server -uid x", "start_server 5",
    )  # fmt: skip
    same(both, f"start_server -uid {os.geteuid()}")
    for daemon in both:
        eventually(daemon.server)
    same(
        both, "get_server_list", "get_server_status SERVER", "get_client_list SERVER", "terminate_client SERVER 4",
        f"start_server -uid {os.geteuid()}", "get_server_list",
    )  # fmt: skip
    if os.geteuid() == 0:
        same(both, f"start_server -uid {NOBODY}", "get_server_list", "shutdown_server SERVER -f")
        for daemon in both:
            eventually(lambda daemon=daemon: whose(daemon.server()) == NOBODY)  # it was begun after the other one's end
    for daemon in both:
        assert daemon.ask("quit -t 0").out == ""  # the real one's exit status differs from time to time


def whose(pid: str) -> int | None:
    with suppress(OSError, ValueError):
        return Path(f"/proc/{int(pid)}").stat().st_uid
    return None


def test_a_server_that_ends_at_once_is_on_nobodys_list(both: tuple[Daemon, Daemon], driver: str) -> None:
    both[0].env["PATH"] = os.pathsep.join([*directories(driver), os.environ["PATH"]])
    both[1].env["EMUCUDA_MPS_FAULTS"] = "stillborn;late 0"
    for daemon in both:
        daemon.begin()
    same(both, f"start_server -uid {os.geteuid()}")
    for daemon in both:
        eventually(lambda daemon=daemon: daemon.server() == "")
    same(both, "get_server_list", "get_server_status 123")
