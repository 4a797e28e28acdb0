"""The directory of a daemon, RUN_DIR: that nobody else may write there, and that one daemon has it."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import Final

from fikitd.gpus import switches
from fikitd.jobs import ledger
from fikitd.jobs.gpu_use import CANDIDATES
from fikitd.mps import notes
from fikitd.store import changed_priorities, records

LOCK_NAME: Final = "fikitd.lock"
NOTES: Final = (
    records.DIRECTORY, CANDIDATES, ledger.DIRECTORY, changed_priorities.DIRECTORY, switches.DIRECTORY, notes.DIRECTORY,
)  # fmt: skip
"""Where root's hooks and fikitd write files that are there whole or not at all."""


class CannotServe(Exception):
    """The daemon cannot start; one sentence."""


class AlreadyServed(Exception):
    """Another fikitd has this run_dir; one sentence."""


def prepare(run_dir: Path) -> None:
    """Make it, as far as it is not there. CannotServe: it cannot be made, or is somebody else's to write."""
    try:
        run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        (run_dir / records.DIRECTORY).mkdir(mode=0o755, exist_ok=True)
        status = run_dir.stat()
    except OSError as error:
        raise CannotServe(f"run_dir {run_dir} cannot be used: {error.strerror}") from None
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
        raise CannotServe(
            f"run_dir {run_dir} must belong to uid {os.geteuid()} and be writable by nobody else, "
            "because whoever writes there decides over priorities"
        )


def lock(run_dir: Path) -> int:
    """A descriptor that has it until it is closed, also by the end of the process. AlreadyServed: another daemon has it."""
    held = os.open(run_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise AlreadyServed(f"another fikitd serves {run_dir} already") from None
    return held
