"""MPS control daemons of the kit's own: started, asked, and ended for certain.

NVIDIA's documentation of MPS: `nvidia-cuda-mps-control -f` starts a daemon, "quit" ends it, programs find it by
CUDA_MPS_PIPE_DIRECTORY, and one whose CUDA_MPS_CLIENT_PRIORITY is 1 is below the others.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.gpu import processes
from bench.gpu.place import Place
from bench.gpu.processes import Program
from bench.record import BenchError

COMMAND = "nvidia-cuda-mps-control"
LIMIT_S = 10.0  # of a command to a daemon
START_S = 5.0  # until a daemon listens
BELOW_NORMAL = {"CUDA_MPS_CLIENT_PRIORITY": "1"}
HALF = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}


def command_path(library: str) -> str:
    """The control daemon's program: on PATH or beside the driver. BenchError where there is none."""
    beside = [str(Path(library).parent), str(Path(library).parent.parent / "bin"), "/usr/local/nvidia/bin", "/usr/bin"]
    found = shutil.which(COMMAND) or shutil.which(COMMAND, path=os.pathsep.join(beside))
    if found is None:
        raise BenchError(f"there is no MPS here: {COMMAND} is not on PATH, nor beside the driver")
    return found


def with_mps_on_path(env: Mapping[str, str], library: str) -> dict[str, str]:
    """The environment in which fikitd, and a control daemon in search of its server, find NVIDIA's programs; unchanged where there are none."""
    with suppress(BenchError):
        return {**env, "PATH": os.pathsep.join([env.get("PATH", ""), str(Path(command_path(library)).parent)])}
    return dict(env)


class Daemon:
    """A control daemon in the foreground, with a pipe directory of its own below the run's directory."""

    def __init__(  # noqa: PLR0917
        self, place: Place, library: str, name: str, flags: Sequence[str] = (), wrap: Sequence[str] = (), mode: int = 0o755,
    ) -> None:  # fmt: skip
        """`wrap`: a command in front; `mode`: the pipe directory's. A daemon that ends at once is no error here: see `tail`."""
        self.command = command_path(library)
        self.pipe = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=place.directory))
        self.pipe.chmod(mode)
        self._log = Path(tempfile.mkdtemp(prefix=f"{name}-log-", dir=place.directory))
        self.env = {"CUDA_MPS_PIPE_DIRECTORY": str(self.pipe)}
        self._all = {**with_mps_on_path(place.env, library), **self.env, "CUDA_MPS_LOG_DIRECTORY": str(self._log)}
        self._directory = place.directory
        self._servers: set[int] = set()
        shell = ["/bin/sh", "-c", 'exec "$@" >&2 </dev/null', "sh"]  # its output is its log
        self.program = Program(name, [*wrap, *shell, self.command, "-f", *flags], self._all, place.directory)
        deadline = time.monotonic() + START_S
        while not (self.pipe / "control").exists() and self.alive() and time.monotonic() < deadline:
            time.sleep(0.01)

    def alive(self) -> bool:
        return self.program.process.poll() is None

    def ask(self, text: str, limit_s: float = LIMIT_S) -> str:
        """What the daemon answers; BenchError when it refuses or says nothing in time."""
        return processes.run(COMMAND, [self.command], self._all, self._directory, limit_s, f"{text}\n").strip()

    def servers(self, limit_s: float = LIMIT_S) -> list[int]:
        found = [int(word) for word in self.ask("get_server_list", limit_s).split() if word.isdecimal()]
        self._servers |= set(found)
        return found

    def tail(self, lines: int = 6) -> list[str]:
        """The last of what daemon and server have said."""
        said = self.program.errors.read_text(errors="replace").splitlines()
        with suppress(OSError):
            for path in self._log.glob("*.log"):
                said += path.read_text(errors="replace").splitlines()
        return [line[-160:] for line in said[-lines:]]

    def end(self, limit_s: float = LIMIT_S) -> None:
        """Asks it to quit, then kills daemon and servers."""
        if self.alive():
            with suppress(BenchError):
                self.servers(limit_s / 2)
            with suppress(BenchError):
                self.ask("quit", limit_s / 2)
        self._servers |= set(processes.family(self.program.process.pid))
        self.program.finish(time.monotonic() + (1.0 if self.alive() else 0.0))
        for pid in self._servers:
            if pid > 1 and is_mps(pid):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


def clients(place: Place, pipes: str) -> set[int]:
    """Whom the servers of the control daemon of that pipe directory have; nobody where no daemon answers."""
    env = {**place.env, "CUDA_MPS_PIPE_DIRECTORY": pipes}

    def ask(text: str) -> list[int]:
        answer = processes.run(COMMAND, [COMMAND], env, place.directory, LIMIT_S, f"{text}\n")
        return [int(word) for word in answer.split() if word.isdecimal()]

    with suppress(BenchError):
        return {client for server in ask("get_server_list") for client in ask(f"get_client_list {server}")}
    return set()


def is_mps(pid: int) -> bool:
    """Whether it is one of MPS's programs: a pid may be another's by now."""
    with suppress(OSError):
        return b"mps" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@contextmanager
def server(place: Place, library: str) -> Iterator[dict[str, str]]:
    """The environment of a program that shares the GPU by plain MPS; BenchError where there is none to be had."""
    daemon = Daemon(place, library, "mps")
    try:
        if not daemon.alive():
            raise BenchError(daemon.program.last_words())
        with suppress(BenchError):  # NVIDIA's begins a server for its first client by itself, too
            daemon.ask(f"start_server -uid {os.geteuid()}")
        yield {**place.env, **daemon.env}
    finally:
        daemon.end()
