"""The kit runs in a child of this process, and this process ends all that the child leaves behind.

A daemon leaves its process group, and its parent may crash. PR_SET_CHILD_SUBREAPER (prctl(2)) makes this process the new parent of all
such orphans.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

from bench.gpu import processes

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
END_S = 5.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def guarded(run: Callable[[], int]) -> int:
    """Runs `run` in a child, ends all its descendants, and returns its exit code. Signals to this process reach the child."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        os.setpgid(0, 0)  # a terminal's Ctrl-C comes by the parent, once
        code = 1
        try:
            code = run()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    for number in SIGNALS:
        signal.signal(number, lambda sent, _: _pass_on(child, sent))
    code = _wait(child)
    for pid in end_descendants():
        print(f"bench.gpu: process {pid} could not be ended", file=sys.stderr)
    return code


def _pass_on(child: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, number)


def _wait(child: int) -> int:
    """Reaps whoever ends until the child does."""
    while True:
        with suppress(ChildProcessError):
            pid, status = os.wait()
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code


def end_descendants() -> list[int]:
    """Kills all descendants of this process. Returns those that are still there after END_S."""
    deadline = time.monotonic() + END_S
    while left := processes.family(os.getpid())[1:]:
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if time.monotonic() > deadline:
            return left
        time.sleep(0.01)
    return []
