"""A process with one user's rights, in which fikitd has done what costs as much as that user likes; and the one that starts them.

fikitd starts `python -m fikitd.worker FD LIMIT...` once (`workers/pool.py`). That process, the nursery, is small, has no threads and all modules
loaded, so a worker is a fork of it: milliseconds. A worker takes a user's rights and limits for good, and then one request
after the other from its socket until that is closed. It dies with the nursery, and the nursery with fikitd.
"""

from __future__ import annotations

import array
import ctypes
import errno
import gc
import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

LIFE_CPU_S: Final = 300
FILES: Final = 64
FILE_BYTES: Final = 256 * 2**20  # that it writes
NICENESS: Final = 5  # behind the programs of the node, and behind fikitd
OOM_SCORE: Final = "800"  # before any of these when memory is short

MAX_HEAD_BYTES: Final = 256 * 1024
MAX_CHUNK_BYTES: Final = 64 * 2**20
LENGTH: Final = struct.Struct("<I")
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_MAX_DESCRIPTORS: Final = 2


class Limits(NamedTuple):
    """What one worker may use."""

    memory_bytes: int = 512 * 2**20  # of address space, a Python and its libraries among it
    cpu_s: int = 10  # for one request


class Connection:
    """A stream of frames, each a length and so many bytes: a request's or an answer's head (JSON), its chunks, an empty frame."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._descriptors: list[int] = []

    def head(self) -> dict[str, Any] | None:
        """The next request; None when there is none any more."""
        frame = self._frame(MAX_HEAD_BYTES)
        return None if frame is None else dict(json.loads(frame))

    def chunks(self) -> Iterator[bytes]:
        """What follows the head, to its end."""
        while frame := self._frame(MAX_CHUNK_BYTES):
            yield frame

    def descriptors(self) -> list[int]:
        """Those that came with the request; the caller's to close."""
        taken, self._descriptors = self._descriptors, []
        return taken

    def send(self, head: dict[str, Any], chunks: Iterator[bytes]) -> None:
        self._send(json.dumps(head).encode())
        for chunk in chunks:
            if chunk:
                self._send(chunk)
        self._send(b"")

    def _send(self, frame: bytes) -> None:
        self._stream.sendall(LENGTH.pack(len(frame)))
        self._stream.sendall(frame)

    def _frame(self, most: int) -> bytes | None:
        length = self._exactly(LENGTH.size)
        if not length:
            return None
        (size,) = LENGTH.unpack(length)
        if size > most:
            raise ValueError(f"a frame of {size} bytes")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        """So many bytes, none when the stream has ended."""
        data = bytearray()
        while len(data) < size:
            room = socket.CMSG_SPACE(_MAX_DESCRIPTORS * array.array("i").itemsize)
            part, control, _, _ = self._stream.recvmsg(min(size - len(data), 2**20), room, socket.MSG_CMSG_CLOEXEC)
            for _, _, rights in control:
                self._descriptors += array.array("i", rights)
            if not part:
                return b""
            data += part
        return bytes(data)


def serve(stream: socket.socket, limits: Limits) -> None:
    """Do what is asked for, until nobody asks any more."""
    from fikitd.workers import user_work  # noqa: PLC0415  # the nursery has it loaded

    connection = Connection(stream)
    while (request := connection.head()) is not None:
        _limit_cpu(limits.cpu_s)
        descriptors = connection.descriptors()
        chunks = connection.chunks()
        try:
            result, answer = user_work.do(str(request["work"]), request["arguments"], chunks, descriptors)
            head = {"result": result}
        except MemoryError:
            head, answer = _failure(MemoryError(f"it takes more than {limits.memory_bytes >> 20} MiB of memory")), ()
        except (OSError, ValueError) as error:
            head, answer = _failure(error), ()
        finally:
            for fd in descriptors:
                os.close(fd)
        for _ in chunks:  # what nobody wanted
            pass
        connection.send(head, iter(answer))


def _failure(error: Exception) -> dict[str, Any]:
    code = error.errno if isinstance(error, OSError) else None
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return {"errno": code or (errno.ENOMEM if isinstance(error, MemoryError) else 0), "error": text[:1000]}


def _limit_cpu(more_s: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + 1 + more_s
    resource.setrlimit(resource.RLIMIT_CPU, (min(soft, LIFE_CPU_S), LIFE_CPU_S))


def become(uid: int, gid: int, limits: Limits) -> None:
    """Take a user's rights, for good, and what a worker may use at most. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(OOM_SCORE)
    with suppress(OSError):
        os.nice(NICENESS)
    for kind, most in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))
    _limit_cpu(limits.cpu_s)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
            raise PermissionError(errno.EPERM, f"could not become uid {uid}")
    for option, value in ((_PR_SET_NO_NEW_PRIVS, 1), (_PR_SET_PDEATHSIG, int(signal.SIGKILL))):
        if libc.prctl(option, value, 0, 0, 0) != 0:  # after the change of rights, which takes PDEATHSIG back
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Nursery:
    """Starts workers as fikitd says on its socket, one packet for each word, and says when they have ended."""

    def __init__(self, control: socket.socket, limits: Limits) -> None:
        self._control = control
        self._limits = limits
        self._nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._alive: set[int] = set()

    def run(self) -> None:
        """Until fikitd hangs up; then no worker stays."""
        signal.signal(signal.SIGCHLD, lambda *_: self._reap())
        while True:
            try:
                packet, descriptors, _, _ = socket.recv_fds(self._control, 4096, 1)
            except ConnectionResetError:  # it had not read all that it was told
                packet = b""
            if not packet:
                os._exit(0)
            verb, *numbers = packet.decode("ascii").split()
            if verb == "start":
                self._start(int(numbers[0]), int(numbers[1]), descriptors[0])
                os.close(descriptors[0])
            elif int(numbers[0]) in self._alive:  # and not reaped: no other process can have its pid
                with suppress(OSError):
                    os.kill(int(numbers[0]), signal.SIGKILL)

    def _start(self, uid: int, gid: int, fd: int) -> None:
        nursery = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            pid = os.fork()
            if pid == 0:
                self._become_worker(uid, gid, fd, nursery)
            self._alive.add(pid)
            self._tell(f"started {pid}")
        except OSError as error:
            self._tell(f"failed {error.errno}")
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

    def _become_worker(self, uid: int, gid: int, fd: int, nursery: int) -> None:
        """In the child; does not return."""
        code = 1
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            self._control.close()
            for standard in range(3):  # fikitd's log is not for its users to write
                os.dup2(self._nothing, standard)
            become(uid, gid, self._limits)
            if os.getppid() == nursery:  # else it ended before it could take us along
                with socket.socket(fileno=fd) as stream:
                    serve(stream, self._limits)
                code = 0
        except (OSError, ValueError, KeyError, MemoryError):
            pass  # fikitd sees that it has ended
        finally:
            os._exit(code)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._alive.discard(pid)
                self._tell(f"ended {pid} {os.waitstatus_to_exitcode(status)}")

    def _tell(self, words: str) -> None:
        try:
            self._control.send(words.encode("ascii"))
        except OSError:
            os._exit(0)


def main() -> None:
    """The nursery."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for fikitd, which hangs up
    from fikitd.workers import user_work  # noqa: F401, PLC0415  # loaded once for all workers

    gc.collect()
    gc.freeze()
    fd, *limits = map(int, sys.argv[1:])
    Nursery(socket.socket(fileno=fd), Limits(*limits)).run()


if __name__ == "__main__":
    main()
