"""What stops a process and lets it go on: a signal, a frozen control group, a debugger."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from control_groups import control_group

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_libc = ctypes.CDLL(None, use_errno=True)

FUTEX = {"202", "98"}  # the system call's number on x86-64 and aarch64


@contextmanager
def by_signal(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    while state(pid) != "T":
        time.sleep(0.001)
    yield
    os.kill(pid, signal.SIGCONT)


@contextmanager
def by_freezer(pid: int) -> Iterator[None]:
    with control_group("freezer", pid) as group:
        group.freeze()
        yield
        group.thaw()


@contextmanager
def by_debugger(pid: int) -> Iterator[None]:
    """Every thread of it, as gdb does it; threads that end or begin meanwhile too. It has to be a child of this process."""
    stopped: list[int] = []
    looked_at: set[int] = set()
    try:
        while new := {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()} - looked_at:
            looked_at |= new
            stopped += [thread for thread in new if _stop(thread)]
        yield
    finally:
        for thread in stopped:
            _ptrace(_DETACH, thread)


def _stop(thread: int) -> bool:
    """False: it has ended."""
    try:
        _ptrace(_SEIZE, thread)
        _ptrace(_INTERRUPT, thread)
    except ProcessLookupError:
        return False
    _, status = os.waitpid(thread, 0x40000000)  # __WALL
    return os.WIFSTOPPED(status)


def _ptrace(request: int, thread: int) -> None:
    if _libc.ptrace(ctypes.c_long(request), ctypes.c_long(thread), None, None) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}: {os.strerror(ctypes.get_errno())}")


STOPS: dict[str, Callable[[int], object]] = {"SIGSTOP": by_signal, "freezer": by_freezer, "debugger": by_debugger}


def state(pid: int) -> str:
    """As ps(1) has it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def sleeps_on_a_futex(pid: int) -> bool:
    """Its first thread: of the programs of these tests, at the gate and nowhere else."""
    return Path(f"/proc/{pid}/syscall").read_text().split()[0] in FUTEX
