"""The processes of a sandbox: those it started itself, and those that Slurm and fikit started for it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

STOP_TIMEOUT_S = 5.0
BECOMING_S = 0.2


class Group:
    """Daemons in the order they were started; they end in the opposite order."""

    def __init__(self) -> None:
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str], env: dict[str, str], log: Path) -> None:
        with log.open("wb") as output:
            self._started[name] = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/",
                start_new_session=True,  # a terminal's Ctrl-C is for the user's command
            )  # fmt: skip

    def running(self, name: str) -> bool:
        return name in self._started and self._started[name].poll() is None

    def dead(self) -> str:
        """Names of daemons that ended by themselves."""
        return ", ".join(name for name, process in self._started.items() if process.poll() is not None)

    def stop(self) -> None:
        while self._started:
            self.end(next(reversed(self._started)))

    def end(self, name: str) -> None:
        """One of them."""
        process = self._started.pop(name)
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Process:
    """A process that is not our child, held by a pidfd so that its number cannot come to mean another."""

    def __init__(self, pid: int, command: bytes) -> None:
        self.pid = pid
        self._command = command
        self._fd = os.pidfd_open(pid)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)

    def named(self, program: str) -> bool:
        return any(Path(os.fsdecode(word)).name == program for word in self._command.split(b"\0")[:2])

    def kill(self) -> None:
        try:
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._gone(STOP_TIMEOUT_S)

    def wait_or_kill(self, timeout_s: float) -> None:
        if not self._gone(timeout_s):
            self.kill()

    def _gone(self, timeout_s: float) -> bool:
        return bool(select.select([self._fd], [], [], timeout_s)[0])


def processes_of(directory: Path) -> list[Process]:
    """Processes that name `directory` in their command line or environment, without us and our ancestors.

    A job inherits SLURM_CONF, fikitd has --run-dir: whatever the sandbox caused to run names its directory.
    """
    needle = os.fsencode(directory)
    ours = set(_ancestors())
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in ours:
            continue
        try:
            command = _command(entry)
            if needle in command or needle in (entry / "environ").read_bytes() or _is_step_of(entry, command, needle):
                found.append(Process(int(entry.name), command))
        except OSError:
            continue  # it ended while we looked
    return found


def _command(entry: Path) -> bytes:
    """Of a process. One that is just becoming another program has none for a moment, and would be overlooked."""
    deadline = time.monotonic() + BECOMING_S
    while not (command := (entry / "cmdline").read_bytes()):
        (entry / "exe").readlink()  # OSError: it is the kernel's, or has ended
        if time.monotonic() > deadline:
            break
        time.sleep(0.005)
    return command


def _is_step_of(entry: Path, command: bytes, needle: bytes) -> bool:
    """slurmstepd of Slurm 24.11 and newer writes its title over its environment; it has slurmd's log open."""
    if not command.startswith(b"slurmstepd"):
        return False
    return any(needle in os.fsencode(descriptor.readlink()) for descriptor in (entry / "fd").iterdir())


def _ancestors() -> Iterator[int]:
    pid = os.getpid()
    while pid > 1:
        yield pid
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
