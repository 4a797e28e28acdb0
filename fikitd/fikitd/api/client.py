"""Control: the other side of RUN_DIR/control.sock, for the command line and for tests. Blocking, one connection per call.

Where the socket is, a variable of the environment may say, and in a directory like /tmp anybody may have made one first. So
only root and the caller's own user are believed, and what they answer is bounded and checked like a file.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fikitd.api import node_format, report_format, trace_format
from fikitd.base import schema
from fikitd.base.peer import Peer
from fikitd.base.protocol import CONTROL_NAME, HOOKS_DIRECTORY
from fikitd.base.validation import printable

_PACKET_BYTES: Final = 65536
MAX_BYTES: Final = 2**24  # of an answer: a report has some KB
MAX_JOBS: Final = 2**16
MAX_TRACE_BYTES: Final = 2**27
WAIT_S: Final = 0.005  # for room
TRANSFER_S: Final = 30.0  # for an answer that has begun


class DaemonUnreachable(Exception):
    """No fikitd answers for that run_dir; one sentence."""


class ControlError(Exception):
    """fikitd answered that it will not or cannot; its sentence."""


class Control:
    """Asks the fikitd of `run_dir`. Every method raises DaemonUnreachable, and ControlError for a refused request."""

    def __init__(self, run_dir: Path | str, timeout_s: float = 5.0) -> None:
        self.path = Path(run_dir) / CONTROL_NAME
        self._timeout_s = timeout_s

    def ping(self) -> str:
        """`fikitd <version>+<build> <policy>`."""
        answer = printable(self._ask("ping").rstrip("\n"))
        if len(answer.split()) != 3:
            raise DaemonUnreachable(f"what fikitd at {self.path} says is no answer to ping: {answer[:80]}")
        return answer

    def jobs(self) -> list[dict[str, Any]]:
        """Report records of the running jobs that the caller may see."""
        check = schema.good_ones(lambda value, _: report_format.checked(value), MAX_JOBS)
        answer: list[dict[str, Any]] = self._checked(lambda value: check(value, "the answer"), "jobs")
        return answer

    def job(self, job: str) -> dict[str, Any]:
        """Report record of one running job; ControlError when fikitd has none or the caller may not see it."""
        answer: dict[str, Any] = self._checked(report_format.checked, "job", job)
        return answer

    def trace(self, job: str) -> dict[str, Any]:
        """What fikitd remembers of a running job's schedule; ControlError as for `job`, or when it remembers nothing."""
        answer: dict[str, Any] = self._checked(trace_format.checked, "trace", job)
        return answer

    def node(self) -> dict[str, Any]:
        """Who uses this node's GPUs now, as far as the caller may see it (docs/design/contracts.md, "Control socket")."""
        answer: dict[str, Any] = self._checked(node_format.checked, "node")
        return answer

    def summary(self, job: str, step: str = "0") -> str:
        """The report line of a job, empty when nothing of it was managed."""
        return printable(self._ask("summary", job, step).rstrip("\n"))

    def end(self, job: str) -> str:
        """The job is over: finish and store its report. Its report line, as `summary`."""
        return printable(self._ask("end", job).rstrip("\n"))

    def priority(self, job: str, priority: int | str) -> int:
        """The job has this priority from now on, 0 (highest) to 9, or "auto": fikitd chooses it again; which it has then. ControlError: the
        caller may not, or nobody approved a range."""
        answer = self._ask("priority", job, str(priority)).strip()
        if answer not in map(str, range(10)):
            raise DaemonUnreachable(
                f"what fikitd at {self.path} says is no answer to priority: {printable(answer)[:80]}"
            )
        return int(answer)

    def mps(self, job: str) -> dict[str, str]:
        """The variables by which the job's programs become clients of MPS on their GPU; none where they do not."""
        pairs = (line.partition("=") for line in self._ask("mps", job).splitlines())
        return {name: value for name, _, value in pairs if name.startswith("CUDA_") and value}

    def no_host_memory(self, job: str) -> str:
        """Why none of the job's memory may lie in host memory, though it asked for that, as the end of a sentence; else empty."""
        return printable(self._ask("host", job).rstrip("\n"))

    def shutdown(self) -> None:
        """Stop the daemon."""
        self._ask("shutdown")

    def _checked(self, check: Callable[[Any], Any], *words: str) -> Any:
        trace = words[0] == "trace"
        answer = self._ask(*words, limit=MAX_TRACE_BYTES if trace else MAX_BYTES)
        try:
            most = trace_format.MAX_VALUES if trace else schema.MAX_VALUES
            return check(schema.document(answer.encode(), most, lambda _nan: None))
        except ValueError as error:
            raise DaemonUnreachable(f"what fikitd at {self.path} says is no answer to {words[0]}: {error}") from None

    def _ask(self, *words: str, limit: int = MAX_BYTES) -> str:
        status, _, payload = self._answer(" ".join(words), limit).decode("utf-8", "replace").partition("\n")
        if status == "ok":
            return payload
        if not status:
            raise DaemonUnreachable(f"fikitd at {self.path} closed the connection without an answer; did it just stop?")
        sentence = printable(status.removeprefix("error "))
        if sentence.startswith(f'verb "{words[0]}" is not known'):
            sentence = (
                f'the fikitd at {self.path} is older than this program and does not know "{words[0]}"; '
                "restart it (systemctl restart fikitd): running jobs go on with the next one"
            )
        raise ControlError(sentence)

    def _connected(self) -> socket.socket:
        """At the socket for root and the daemon's own user, which nobody else can fill, or else at everybody's."""
        deadline = time.monotonic() + self._timeout_s
        with suppress(OSError):
            return _connect(self.path.parent / HOOKS_DIRECTORY / CONTROL_NAME, deadline)
        return _connect(self.path, deadline)

    def _answer(self, request: str, limit: int) -> bytes:
        answer = bytearray()
        try:
            with self._connected() as connection:
                connection.settimeout(self._timeout_s)
                if (uid := Peer.of(connection).uid) not in (0, os.geteuid()):
                    raise DaemonUnreachable(
                        f"what listens at {self.path} belongs to uid {uid}, neither to root nor to you: it is not asked"
                    )
                with suppress(
                    BrokenPipeError
                ):  # a fikitd without descriptors refuses unheard; its answer is there all the same
                    connection.send(request.encode())
                deadline = time.monotonic() + self._timeout_s + TRANSFER_S
                while packet := connection.recv(_PACKET_BYTES):
                    answer += packet
                    if len(answer) > limit:
                        raise DaemonUnreachable(f"fikitd at {self.path} answered with more than {limit} bytes")
                    if (left_s := deadline - time.monotonic()) <= 0:
                        raise TimeoutError
                    connection.settimeout(min(self._timeout_s, left_s))
        except OSError as error:
            why = error.strerror or "it did not answer in time"
            none = ", so none runs here" if error.errno in (errno.ENOENT, errno.ECONNREFUSED) else ""
            raise DaemonUnreachable(f"fikitd does not answer at {self.path}: {why}{none}") from None
        return bytes(answer)


def _connect(path: Path, deadline: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        while True:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                connection.connect(str(path))
            except BlockingIOError:  # too many wait there already, and a socket with a timeout does not wait for room
                if time.monotonic() > deadline:
                    raise
                time.sleep(WAIT_S)
            else:
                return connection
    except BaseException:
        connection.close()
        raise


def wait_until_there(run_dir: Path | str, process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Until a fikitd answers: the one that was started as `process`, or one that was faster and holds the lock, for then this one
    ends with exit code 0. Raises DaemonUnreachable: it failed, or nobody answered in time.
    """
    control = Control(run_dir)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            control.ping()
        except (DaemonUnreachable, ControlError):
            if process.poll():
                raise DaemonUnreachable(f"fikitd ended with exit code {process.returncode}") from None
            if time.monotonic() > deadline:
                raise DaemonUnreachable(f"fikitd did not answer within {patience_s:g} s") from None
            time.sleep(0.01)
        else:
            return
