"""Every program that the run starts: in a group of its own, with a deadline, and ended for certain.

A driver may hang where nobody here has seen it: nothing waits without a limit, and what does not end is killed with all that
it started. What even that does not end (a process that the kernel does not let go) is left behind and said.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bench.record import BenchError

END_S = 5.0
_running: dict[int, subprocess.Popen[bytes]] = {}
stuck: list[str] = []  # what could not be ended


def _kill(process: subprocess.Popen[bytes], name: str) -> None:
    """The whole group, also where its leader has ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        stuck.append(f"{name} (process {process.pid})")
    _running.pop(process.pid, None)


def end_all() -> None:
    """What still runs ends now."""
    for process in list(_running.values()):
        _kill(process, "a program")


def family(pid: int) -> list[int]:
    """The process and all that descend from it, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[1-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            number, _, rest = entry.read_text().partition(" (")
            children.setdefault(int(rest.rpartition(")")[2].split()[1]), []).append(int(number))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


class Program:
    """A started program whose lines are read one by one."""

    def __init__(self, name: str, command: Sequence[str | Path], env: Mapping[str, str], directory: Path) -> None:
        self.name = name
        descriptor, path = tempfile.mkstemp(dir=directory, prefix=f"{name}-", suffix=".err")
        self.errors = Path(path)
        try:
            self.process = subprocess.Popen(
                [str(word) for word in command], env=dict(env), start_new_session=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=descriptor, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            raise BenchError(f"{name} did not start: {error}") from error
        finally:
            os.close(descriptor)
        _running[self.process.pid] = self.process
        self._read = bytearray()

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
        except (OSError, ValueError):  # it has ended, or was ended
            raise BenchError(self.last_words()) from None

    def line(self, deadline: float) -> str:
        """The next line; BenchError with its last words when it ends, or when the moment (time.monotonic) passes."""
        assert self.process.stdout is not None
        while b"\n" not in self._read:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise BenchError(f"{self.name} took too long and was ended")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(1)
                raise BenchError(self.last_words())
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")

    def finish(self, deadline: float) -> None:
        """Waits for its end; it is killed when the moment passes."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        _kill(self.process, self.name)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def last_words(self) -> str:
        lines = [line.strip() for line in self.errors.read_text(errors="replace").splitlines() if line.strip()]
        code = self.process.poll()
        how = f" (exit code {code})" if code else ""
        return f"{self.name}: {lines[-1][:400] if lines else 'it ended without a word'}{how}"


def run(  # noqa: PLR0917
    name: str, command: Sequence[str | Path], env: Mapping[str, str], directory: Path, limit_s: float,
        words: str = "", leaves_daemon: bool = False) -> str:  # fmt: skip
    """What a program prints; BenchError with its last words when it fails or takes longer. What it started ends with it,
    unless it ended well and `leaves_daemon`."""
    with tempfile.TemporaryFile(dir=directory) as out, tempfile.TemporaryFile(dir=directory) as err:
        try:
            process = subprocess.Popen(
                [str(word) for word in command], env=dict(env), start_new_session=True, stdin=subprocess.PIPE,
                stdout=out, stderr=err,
            )  # fmt: skip
        except OSError as error:
            raise BenchError(f"{name} did not start: {error}") from error
        _running[process.pid] = process
        try:
            assert process.stdin is not None
            with suppress(OSError), process.stdin:
                process.stdin.write(words.encode())
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{name} took longer than {limit_s:.0f} s and was ended") from None
        finally:
            if leaves_daemon and process.returncode == 0:
                _running.pop(process.pid, None)
            else:
                _kill(process, name)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            said = (err.read() or out.read()).decode(errors="replace").strip().splitlines()
            raise BenchError(
                f"{name}: {said[-1][:400] if said else 'it failed without a word'} (exit code {process.returncode})"
            )
        return out.read().decode(errors="replace")
