"""The spool of all nodes' outcomes as a JobHistory that is kept, and read again only where a node has written."""

from __future__ import annotations

import logging
import os
import pwd
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from fikitd.api import outcomes
from fikitd.api.outcomes import Outcome
from fikitd.config.fikit_toml import DaemonConfig
from fikitd.history.known import JobHistory
from fikitd.store.storage import reason

_log = logging.getLogger("fikitd")

FRESH_S: Final = 30.0

Version = tuple[int, int, int]  # inode, when written, bytes: fikitd replaces a file as a whole


class SpoolHistory:
    """What `directory` (outcomes_dir) says, "": nothing. May be used by several threads."""

    def __init__(
        self,
        directory: Path | str,
        trusted: Iterable[int] = (),
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`trusted`: uids, beside root and the caller, whose files are believed: SlurmUser. `fresh_s`: how long an answer is not asked again."""
        self._directory, self._owners = str(directory), {0, os.geteuid(), *trusted}
        self._fresh_s, self._clock = fresh_s, clock
        self._files: dict[Path, tuple[Version, list[Outcome]]] = {}
        self._latest, self._read_at, self._complained = JobHistory(), -1e18, ""
        self._lock = threading.Lock()

    @classmethod
    def of(cls, site: DaemonConfig) -> SpoolHistory:
        """Of the site's outcomes_dir, whose files belong to its outcomes_user."""
        try:
            trusted = [pwd.getpwnam(site.outcomes_user).pw_uid]
        except KeyError:
            trusted = []
        return cls(site.outcomes_dir, trusted)

    @property
    def latest(self) -> JobHistory:
        """What was read last, without a look at any file: for an event loop whose thread calls history() now and then."""
        return self._latest

    def history(self) -> JobHistory:
        """At most `fresh_s` old. Reads files, which on shared storage may take long: not on an event loop. Never raises: what cannot be read
        is a line in the log, and then what was known before stays."""
        with self._lock:
            if self._directory and self._clock() - self._read_at >= self._fresh_s:
                try:
                    self._read()
                    self._complained = ""
                except (OSError, ValueError) as error:
                    self._complain(f"the history of runs in {self._directory} cannot be read: {reason(error)}")
                self._read_at = self._clock()
            return self._latest

    def _read(self) -> None:
        paths = outcomes.files(self._directory, self._owners)
        files: dict[Path, tuple[Version, list[Outcome]]] = {}
        for path in paths:
            try:
                status = path.lstat()
                version = status.st_ino, status.st_mtime_ns, status.st_size
                known = self._files.get(path)
                files[path] = known if known and known[0] == version else (version, self._runs(path))
            except FileNotFoundError:
                continue
        changed = files.keys() != self._files.keys() or any(files[path] is not self._files[path] for path in files)
        if changed:
            self._files = files
            self._latest = JobHistory(each for _, runs in files.values() for each in runs)

    def _runs(self, path: Path) -> list[Outcome]:
        """None of a file that is none, which is said once for each form of it."""
        try:
            return outcomes.of_file(path, self._owners)
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            _log.warning("%s is not read: %s", path, reason(error))
            return []

    def _complain(self, sentence: str) -> None:
        if sentence != self._complained:
            self._complained = sentence
            _log.warning("%s", sentence)
