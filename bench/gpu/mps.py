"""An MPS control daemon of the run's own: started, and ended for certain.

NVIDIA's documentation of MPS: `nvidia-cuda-mps-control -d` starts it, "quit" ends it, programs find it by
CUDA_MPS_PIPE_DIRECTORY, and one whose CUDA_MPS_CLIENT_PRIORITY is 1 is below the others.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.gpu import processes
from bench.gpu.place import Place
from bench.record import BenchError

COMMAND = "nvidia-cuda-mps-control"
LIMIT_S = 15.0
BELOW_NORMAL = {"CUDA_MPS_CLIENT_PRIORITY": "1"}


def _command(library: str) -> str:
    beside = [str(Path(library).parent), "/usr/local/nvidia/bin", "/usr/bin"]
    found = shutil.which(COMMAND) or shutil.which(COMMAND, path=os.pathsep.join(beside))
    if found is None:
        raise BenchError(f"there is no MPS here: {COMMAND} is not on PATH, nor beside the driver")
    return found


def _pids(directory: Path) -> list[int]:
    """The control daemon and the servers whose files are in the pipe directory."""
    found = []
    for path in directory.glob("*.pid"):
        with suppress(OSError, ValueError):
            found.append(int(path.read_text().split()[0]))
    return found


def _is_mps(pid: int) -> bool:
    with suppress(OSError):
        return b"mps" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@contextmanager
def server(place: Place, library: str) -> Iterator[dict[str, str]]:
    """The environment of a program that shares the GPU by MPS; BenchError where there is none to be had."""
    command = _command(library)
    pipe, log = place.directory / "mps", place.directory / "mps-log"
    for directory in (pipe, log):
        directory.mkdir(exist_ok=True)
    env = {**place.env, "CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(log)}
    try:
        processes.run(COMMAND, [command, "-d"], env, place.directory, LIMIT_S, leaves_daemon=True)
        with suppress(BenchError):  # NVIDIA's begins a server for its first client by itself, too
            processes.run(COMMAND, [command], env, place.directory, LIMIT_S, f"start_server -uid {os.geteuid()}\n")
        yield env
    finally:
        servers = ""
        with suppress(BenchError):
            servers = processes.run(COMMAND, [command], env, place.directory, LIMIT_S, "get_server_list\n")
        with suppress(BenchError):
            processes.run(COMMAND, [command], env, place.directory, LIMIT_S, "quit\n")
        pids = [*_pids(pipe), *(int(word) for word in servers.split() if word.isdecimal())]
        for pid in set(pids):
            if pid > 1 and _is_mps(pid):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
