"""Whether a program sees the shared memory of an MPS server. A job may have a /dev/shm of its own (Slurm's job_container/tmpfs, a container).

Some drivers' servers make a file there and need their clients to see it: /dev/shm/cuda.shm.0.52.1 of root's server 0x52
(NVIDIA/k8s-device-plugin issues 467 and 1118). Others make an anonymous region (driver 580: bottlerocket-kernel-kit pull request 415).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fikitd.store.storage import read_bounded

PLACE: Final = "/dev/shm"
MOST_BYTES: Final = 2**20
NUMBERS: Final = range(4)  # of a server's regions; the one that was seen is 1


def hidden(proc: Path, server: int, uid: int, pid: int, shm: Path = Path(PLACE)) -> bool:
    """Whether the server (of `uid`) keeps a file in a /dev/shm that the process `pid` does not have.

    By the tables of mounts: a look through /proc/PID/root may hang in a file system of the user's. What is not known is not hidden.
    """
    if not any((shm / f"cuda.shm.{uid}.{server:x}.{number}").exists() for number in NUMBERS):
        return False
    try:
        return _mounted(proc, server) != _mounted(proc, pid)
    except (OSError, ValueError):
        return False


def _mounted(proc: Path, pid: int) -> list[str]:
    """Device and directory of what the process has at /dev/shm: the newest mount there, proc_pid_mountinfo(5)."""
    lines = read_bounded(proc / str(pid) / "mountinfo", MOST_BYTES).decode(errors="replace").splitlines()
    mounts = [line.split(" ")[2:5] for line in lines]
    return next((mount for mount in reversed(mounts) if mount[2:] == [PLACE]), [])
