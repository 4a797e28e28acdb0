"""Who is at the other end of a Unix socket: what the kernel noted when it connected."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

_UCRED: Final = struct.Struct("3i")
_SO_PEERPIDFD: Final = 77  # Linux 6.5; Python 3.11 has no name for it


@dataclass(frozen=True)
class Peer:
    pid: int
    uid: int
    gid: int

    @classmethod
    def of(cls, connection: socket.socket) -> Peer:
        pid, uid, gid = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        return cls(pid, uid & 0xFFFFFFFF, gid & 0xFFFFFFFF)


def still_there(connection: socket.socket) -> bool:
    """Whether the process that connected is alive, so that its pid cannot mean another one.

    Kernels before 6.5 cannot tell; there the start times compared by `identify` must do.
    """
    try:
        pidfd = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        # ENOPROTOOPT: an older kernel. Anything else (ESRCH, EINVAL): the process is gone already.
        return error.errno == errno.ENOPROTOOPT
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    try:
        return not poll.poll(0)
    finally:
        with suppress(OSError):
            os.close(pidfd)
