"""Run a program in the foreground as if it had been started directly: its signals, its exit code."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

FORWARDED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # a shell's exit codes
SENT_BY_PROGRAM = 0  # si_code of a signal that the kernel itself sent (a terminal's Ctrl-C) is greater


def run(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Run `argv` and return its exit code, 128 + N when signal N ended it. Raises OSError when it cannot be started.

    A signal sent to us goes on to the program. One that the terminal sent has reached the program already, because we
    share its process group; sending it again would be two Ctrl-C.
    """
    watched = FORWARDED | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        # setsigdef: Python ignores these two, a program expects them at their defaults.
        pid = os.posix_spawnp(
            argv[0], list(argv), env, setsigmask=before, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ]
        )  # fmt: skip
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            received = signal.sigwaitinfo(watched)
            if received.si_signo != signal.SIGCHLD and received.si_code <= SENT_BY_PROGRAM:
                os.kill(pid, received.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
