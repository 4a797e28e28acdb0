"""What systemd does for a service with a file descriptor store: keeps what it is sent, hands it to the next process."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

# Puts the descriptors where sd_listen_fds(3) says, and becomes the program.
START = """
import fcntl, os, sys
fds = [int(fd) for fd in sys.argv[1].split(",") if fd]
high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3 + len(fds)) for fd in fds]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i)
os.closerange(3 + len(fds), os.sysconf("SC_OPEN_MAX"))
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


class Systemd:
    """One service's notification socket and store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.store: list[tuple[str, int]] = []
        self.changing = threading.Lock()
        self.forgets = True  # when it is told to; it is not told by a service that was killed before
        threading.Thread(target=self._read, daemon=True).start()  # few datagrams may wait

    def _read(self) -> None:
        while True:
            select.select([self.socket], [], [])
            with self.changing:
                message, fds, _, _ = socket.recv_fds(self.socket, 4096, 8)
                facts = dict(line.split("=", 1) for line in message.decode().splitlines())
                if "FDSTORE" in facts:
                    self.store += [(facts["FDNAME"], fd) for fd in fds]
                elif "FDSTOREREMOVE" in facts and self.forgets:
                    for name, fd in [entry for entry in self.store if entry[0] == facts["FDNAME"]]:
                        os.close(fd)
                        self.store.remove((name, fd))

    def empty(self) -> bool:
        return not self.store

    def start(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        while select.select([self.socket], [], [], 0)[
            0
        ]:  # systemd, too, reads what a service said before it starts it anew
            time.sleep(0.001)
        with self.changing:
            store = list(self.store)
        fds = [fd for _, fd in store]
        env = {
            **os.environ, "NOTIFY_SOCKET": str(self.path), "FIKIT_KEEP": "1", "LISTEN_FDS": str(len(fds)),
            "LISTEN_FDNAMES": ":".join(name for name, _ in store),
        }  # fmt: skip
        with log.open("ab") as err:
            start = [sys.executable, "-c", START, ",".join(map(str, fds)), *command]
            return subprocess.Popen(start, stderr=err, env=env, pass_fds=fds, cwd="/")

    def stop(self) -> None:
        """The service is stopped: nothing is kept any more."""
        for _, fd in self.store:
            os.close(fd)
        self.store.clear()
