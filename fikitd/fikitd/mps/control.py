"""All that fikit knows of NVIDIA's MPS: its programs, their environment, what one says to them and what they answer.

Sources: nvidia-cuda-mps-control(1), and "Multi-Process Service" (docs.nvidia.com/deploy/mps). What a client does with its variables is
the driver's affair. Nothing here waits without a bound: a control daemon that hangs is killed where we are its only ones, else left.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fikitd.base.child_process import end
from fikitd.base.shares import URGENT
from fikitd.mps import programs
from fikitd.mps.programs import PROGRAM, SERVER_PROGRAM, SEVERAL_USERS
from fikitd.store.records import JobRecord, start_ticks, stat_fields

COMMAND: Final = "nvidia-cuda-mps"  # both programs' in /proc/PID/comm, which holds 15 bytes
ENV_PIPES: Final = "CUDA_MPS_PIPE_DIRECTORY"
ENV_LOGS: Final = "CUDA_MPS_LOG_DIRECTORY"
ENV_PRIORITY: Final = "CUDA_MPS_CLIENT_PRIORITY"
ENV_MEMORY: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
ENV_DEVICES: Final = "CUDA_VISIBLE_DEVICES"
SOCKET: Final = "control"  # of the daemon, in the pipe directory
LONGEST_SOCKET: Final = "control_privileged"  # and beside it
SOCKET_PATH_BYTES: Final = 107

# The driver's own memory counts against a client's limit (a context takes 200 to 600 MB), and not against --fikit-mem. The limit is there
# for programs that go around the shim: one that keeps to --fikit-mem must never meet it.
DRIVERS_OWN_BYTES: Final = 2**30
MIB: Final = 2**20

ASK_S: Final = 2.0
ACTIVE: Final = "ACTIVE"
FAULT: Final = "FAULT"
INITIALIZING: Final = "INITIALIZING"
UNKNOWN: Final = "UNKNOWN"  # ours: a control daemon of driver 535 does not know the question

# cuInit's errors of a program that cannot be a client (cuda.h).
REFUSALS: Final = {
    805: "the program does not reach the MPS server, for example because it has a /dev/shm of its own",
    806: "a call to the MPS server failed",
    807: "the MPS server was not ready",
    808: "the MPS server had no room for another client",
    809: "the GPU had no room for another client's connections",
}

# Words that NVIDIA's programs say, and a pid. Whatever else an answer holds is not looked at.
_STATES = re.compile(r"\b(ACTIVE|INITIALIZING|FAULT)\b")
_NO_COMMAND = re.compile(r"Unknown command")
_PID = re.compile(r"\d{1,10}", re.ASCII)


class MpsError(Exception):
    """MPS cannot be used now; the end of a sentence that begins "MPS ...", such as "did not answer within 2 s"."""


class NobodyListens(MpsError):
    """A command found no control daemon."""


def client_priority(priority: int) -> int:
    """CUDA_MPS_CLIENT_PRIORITY of a job of fikit's `priority`: 0 normal, 1 below normal.

    MPS has two levels, and a client keeps the one that it began with. High jobs (0 and 1) are normal; all others are below, whether a high
    one is there or not: among themselves that changes nothing, and a high one that comes later finds them below it.
    """
    return 0 if priority <= URGENT else 1


def memory_limit(mem_bytes: int) -> str:
    """CUDA_MPS_PINNED_DEVICE_MEM_LIMIT of each of a job's programs: its --fikit-mem and what the driver takes for itself.

    Device 0 is the only one that the control daemon has.
    """
    return f"0={-(-(mem_bytes + DRIVERS_OWN_BYTES) // MIB)}M"


def client_environment(record: JobRecord, pipes: Path, uuid: str) -> dict[str, str]:
    """By what a job's programs join. The GPU by its UUID: a daemon that has one GPU counts it as 0, whatever Slurm calls it."""
    said = {
        ENV_PIPES: str(pipes),
        ENV_PRIORITY: str(client_priority(record.priority)),
        ENV_DEVICES: uuid,
    }
    return {**said, ENV_MEMORY: memory_limit(record.mem_bytes)} if record.mem_bytes else said


def joined(environment: Mapping[str, str], said: Mapping[str, str], directory: Path) -> dict[str, str]:
    """A program's environment with what fikitd `said` to its job (`fikit run`; fikit_mps.c does the same for Slurm's tasks).

    `directory`: where that fikitd's pipe directories are. What was inherited from another of its jobs is left behind; a user's own MPS is left alone. With one GPU, `0` means the same in MPS
    and outside, and every program understands it; there are some that take a UUID for a fault.
    """
    ours = environment.get(ENV_PIPES, "").startswith(f"{directory}/")
    stale = (ENV_PIPES, ENV_PRIORITY, ENV_MEMORY) if ours else ()
    left = {name: value for name, value in environment.items() if name not in stale}
    if ENV_PIPES in left or ENV_PIPES not in said:
        return left
    return {**left, **said, ENV_DEVICES: "0" if left.get(ENV_DEVICES) == "0" else said[ENV_DEVICES]}


def driver_refused(refusal: int, outside: int) -> str:
    """The sentence of a report about a program that the driver did not let into MPS: CUDA's error, and that of the try outside MPS (0: none)."""
    if refusal == 0:
        return "a program of it runs outside MPS, in time slices of its own: the driver found no MPS server, as in a container without fikit's pipe directories"  # fmt: skip
    then = "it runs outside MPS, in time slices of its own" if outside == 0 else f"CUDA did not start outside MPS either (error {outside})"  # fmt: skip
    return f"the driver refused a program of it as a client of MPS (CUDA error {refusal}: {REFUSALS[refusal]}): {then}"


def socket_path_fits(pipes: Path) -> bool:
    """Whether the daemon's sockets can have a path in that directory: unix(7), sun_path."""
    return len(os.fsencode(pipes / LONGEST_SOCKET)) <= SOCKET_PATH_BYTES


class Control:
    """One control daemon, that of `uuid`, by its directories. It need not be there."""

    def __init__(self, uuid: str, pipes: Path, logs: Path) -> None:
        self.uuid, self.pipes, self.logs = uuid, pipes, logs
        self._process: subprocess.Popen[bytes] | None = None
        self._program: Path | None = None
        self._path = ""

    def start(self, several_users: bool) -> int:
        """Begin a control daemon in the foreground, in a session of its own; its pid. It outlives us. MpsError when it cannot be begun.

        `several_users`: with SEVERAL_USERS, without which a client of a second user waits until all of the first one's have ended. A
        process of ours, not `-d`: so we know which it is, and see at once when it ends.
        """
        program = self._find()
        several = [SEVERAL_USERS] if several_users else []
        try:
            with (self.logs / "control.out").open("ab") as out:
                self._process = subprocess.Popen(
                    [program, "-f", *several], env=self._environment(), cwd="/",
                    stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            raise MpsError(f"could not be started: {error.strerror}") from None
        return self._process.pid

    def _find(self) -> Path:
        """NVIDIA's program. MpsError: it is not there."""
        if self._program is None or not self._program.exists():
            self._program = programs.find(PROGRAM)
            if self._program is None:
                raise MpsError(f"is not there: no {PROGRAM} {programs.PLACES}")
            self._path = programs.path_for(self._program)
        return self._program

    def _environment(self) -> dict[str, str]:
        """Of its programs: ours, without what a job or a shell may have left there."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("FIKIT_", "CUDA_", "LD_PRELOAD", "NOTIFY_SOCKET"))
        }
        places = {ENV_DEVICES: self.uuid, ENV_PIPES: str(self.pipes), ENV_LOGS: str(self.logs)}
        return {**kept, "PATH": self._path, **places}

    @property
    def listens(self) -> bool:
        """Whether the daemon is so far that it can be asked, or will be in a moment: the socket is there before it listens."""
        return (self.pipes / SOCKET).exists()

    def reap(self) -> None:
        """If it was ours to wait for and has ended."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None

    async def ask(self, *command: str, timeout_s: float = ASK_S) -> str:
        """The daemon's answer to one command. MpsError: there is none."""
        program = self._find()
        try:
            child = await asyncio.create_subprocess_exec(
                program, env=self._environment(), cwd="/", stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
        except OSError as error:
            raise MpsError(f"could not be asked: {error.strerror}") from None
        try:
            async with asyncio.timeout(timeout_s):
                out, _ = await child.communicate(f"{' '.join(command)}\n".encode())
        except TimeoutError:
            raise MpsError(f"did not answer within {timeout_s:g} s: its control daemon hangs") from None
        finally:
            await end(child)
        answer = out[:65536].decode("utf-8", "replace")
        if child.returncode or "Cannot find MPS control daemon" in answer:
            raise NobodyListens("does not answer: its control daemon is gone")
        return answer

    async def servers(self, timeout_s: float = ASK_S) -> list[int]:
        return _pids(await self.ask("get_server_list", timeout_s=timeout_s))

    async def start_server(self, uid: int, timeout_s: float) -> None:
        """Have a server begun for a user's programs. The daemon answers before the server lives, and whether or not it will."""
        await self.ask("start_server", "-uid", str(uid), timeout_s=timeout_s)

    async def status(self, server: int, timeout_s: float = ASK_S) -> str:
        """ACTIVE, INITIALIZING or FAULT; UNKNOWN where the daemon does not know the question; "" where it says something else."""
        answer = await self.ask("get_server_status", str(server), timeout_s=timeout_s)
        if found := _STATES.search(answer):
            return found.group(1)
        return UNKNOWN if _NO_COMMAND.search(answer) else ""

    async def clients(self, server: int) -> list[int]:
        return _pids(await self.ask("get_client_list", str(server)))

    async def terminate(self, server: int, client: int) -> None:
        """End what a client has on the GPU, wherever its program is."""
        await self.ask("terminate_client", str(server), str(client))

    async def quit(self, timeout_s: float) -> None:
        """The daemon ends, with its servers."""
        await self.ask("quit", timeout_s=timeout_s)


def _pids(answer: str) -> list[int]:
    """A pid a line; lines that hold something else are a message."""
    return [int(line) for line in map(str.strip, answer.splitlines()) if _PID.fullmatch(line)]


def began(pid: int) -> int:
    """When the process began, in clock ticks after the boot; 0 when it is not there, or has ended and nobody has taken note."""
    try:
        fields = stat_fields(pid)
        return 0 if fields[0] in "ZX" else start_ticks(fields)
    except (OSError, ValueError, IndexError):
        return 0


def children(pid: int) -> list[int]:
    """Of a process; none where the kernel does not tell."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []


def is_server(proc: Path, pid: int) -> bool:
    """Whether the process runs a program that is called as NVIDIA's server and that no user can have put there."""
    try:
        program = proc / str(pid) / "exe"
        return program.readlink().name == SERVER_PROGRAM and program.stat().st_uid == 0
    except OSError:
        return False


def daemons(proc: Path) -> list[int]:
    """Every control daemon on the machine, whoever began it."""
    return sorted(int(entry.name) for entry in proc.glob("[1-9]*") if _is_control(entry))


def _is_control(process: Path) -> bool:
    """By what everybody may read of another's process. Command lines have a NUL behind each word."""
    try:
        if (process / "comm").read_text().rstrip("\n") != COMMAND:
            return False
        return Path(os.fsdecode((process / "cmdline").read_bytes().partition(b"\0")[0])).name == PROGRAM
    except (OSError, UnicodeDecodeError):
        return False
