"""For each user with a job on this node a socket of the user's own: nobody else can connect to it, so nobody else can fill it (D19).

`RUN_DIR/users/<uid>.sock` belongs to the user and has mode 0600; connect(2) asks for the right to write. What is said there is the same as
at `fikitd.sock`, which stays for shims of before and for users whom fikitd knows under another number (user namespaces).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from fikitd.base.protocol import USERS_DIRECTORY
from fikitd.daemon.listener import Listener
from fikitd.store import changes
from fikitd.store.records import JobRecords
from fikitd.store.storage import reason

_log = logging.getLogger("fikitd")

MOST: Final = 1024


class UserSockets:
    """Follows the job records. Only the event loop touches it."""

    def __init__(
        self, run_dir: Path, records: JobRecords, listen: Callable[[Path], Listener], then: Callable[[], None]
    ) -> None:
        """`listen` makes a socket in the place that it is told, for root alone; `then` follows each look at the records."""
        self._directory, self._records, self._listen = run_dir / USERS_DIRECTORY, records, listen
        self._listeners: dict[int, Listener] = {}
        self._then = then
        self._changes = -1

    def begin(self) -> None:
        """Raises OSError where the directory cannot be made."""
        self._directory.mkdir(mode=0o755, exist_ok=True)
        self._directory.chmod(0o755)
        for left in self._directory.iterdir():  # by a fikitd that was killed
            left.unlink()
        self._changes = changes.watch(self._records.directory)
        if self._changes >= 0:
            asyncio.get_running_loop().add_reader(self._changes, self._changed)
        self.refresh()

    def refresh(self) -> None:
        """A socket for everybody with a record and for the daemon's own user, and for nobody else."""
        users = self._records.users(fresh=True) | {os.geteuid()}
        for uid in users - self._listeners.keys():
            if len(self._listeners) < MOST:
                self._open(uid)
        for uid in self._listeners.keys() - users:
            self._listeners.pop(uid).close()
        self._then()

    def close(self) -> None:
        if self._changes >= 0:
            asyncio.get_running_loop().remove_reader(self._changes)
            os.close(self._changes)
            self._changes = -1
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()

    def _changed(self) -> None:
        changes.take(self._changes)
        self.refresh()

    def _open(self, uid: int) -> None:
        path = self._directory / f"{uid}.sock"
        try:
            listener = self._listen(path)
        except OSError as error:
            _log.warning("uid %d gets no socket of its own: %s", uid, reason(error), extra={"uid": uid})
            return
        self._listeners[uid] = listener
        with suppress(OSError):  # then everybody's is there
            os.chown(path, uid, -1, follow_symlinks=False)
