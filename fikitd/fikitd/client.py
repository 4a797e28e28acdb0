"""Control: the other side of RUN_DIR/control.sock, for the command line and for tests. Blocking, one connection per call."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from fikitd.protocol import CONTROL_NAME

_PACKET_BYTES = 65536


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
        return self._ask("ping").rstrip("\n")

    def jobs(self) -> list[dict[str, Any]]:
        """Report records of the running jobs that the caller may see."""
        answer: list[dict[str, Any]] = json.loads(self._ask("jobs"))
        return answer

    def job(self, job: str) -> dict[str, Any]:
        """Report record of one running job; ControlError when fikitd has none or the caller may not see it."""
        answer: dict[str, Any] = json.loads(self._ask("job", job))
        return answer

    def trace(self, job: str) -> dict[str, Any]:
        """What fikitd remembers of a running job's schedule; ControlError as for `job`, or when it remembers nothing."""
        answer: dict[str, Any] = json.loads(self._ask("trace", job))
        return answer

    def node(self) -> dict[str, Any]:
        """Who uses this node's GPUs now, as far as the caller may see it (docs/design/contracts.md, "Control socket")."""
        answer: dict[str, Any] = json.loads(self._ask("node"))
        return answer

    def summary(self, job: str, step: str = "0") -> str:
        """The report line of a job, empty when nothing of it was managed."""
        return self._ask("summary", job, step).rstrip("\n")

    def end(self, job: str) -> str:
        """The job is over: finish and store its report. Its report line, as `summary`."""
        return self._ask("end", job).rstrip("\n")

    def shutdown(self) -> None:
        """Stop the daemon."""
        self._ask("shutdown")

    def _ask(self, *words: str) -> str:
        packets = []
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.settimeout(self._timeout_s)
                connection.connect(str(self.path))
                with suppress(
                    BrokenPipeError
                ):  # a fikitd without descriptors refuses unheard; its answer is there all the same
                    connection.send(" ".join(words).encode())
                while packet := connection.recv(_PACKET_BYTES):
                    packets.append(packet)
        except OSError as error:
            why = error.strerror or "it did not answer in time"
            raise DaemonUnreachable(f"fikitd does not answer at {self.path}: {why}; is it running?") from None
        status, _, payload = b"".join(packets).decode().partition("\n")
        if status == "ok":
            return payload
        if not status:
            raise DaemonUnreachable(f"fikitd at {self.path} closed the connection without an answer; did it just stop?")
        sentence = status.removeprefix("error ")
        if sentence.startswith(f'verb "{words[0]}" is not known'):
            sentence = (
                f'the fikitd at {self.path} is older than this program and does not know "{words[0]}"; '
                "restart it (systemctl restart fikitd): running jobs go on with the next one"
            )
        raise ControlError(sentence)


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
