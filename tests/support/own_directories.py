"""A session's temporary directories lie in one of its own, and not in /tmp/pytest-of-USER: each start of pytest closes that one to other users,
also a start beside this session, or inside it, while a test has let other users in.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import pytest

PREFIX: Final = "fikit-tests-"


class OwnDirectories:
    """Of one session. Those of a session that has failed stay until the next one begins."""

    def __init__(self, config: pytest.Config) -> None:
        for earlier in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            _remove_unless_in_use(earlier)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.path.chmod(0o711)
        self._in_use = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)  # closed by the session's end
        fcntl.flock(self._in_use, fcntl.LOCK_EX)
        self.path.mkdir(mode=0o711, exist_ok=True)  # another session may have begun just before the lock
        config.option.basetemp = str(self.path / "t")  # short: sockets are below it

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            _remove(self.path)


def _remove(directory: Path) -> None:
    """Unless a test has left something mounted there."""
    if f" {directory}/" not in Path("/proc/self/mounts").read_text():
        shutil.rmtree(directory, ignore_errors=True)


def _remove_unless_in_use(directory: Path) -> None:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # another user's, or just removed
        return
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(directory)
    except BlockingIOError:
        pass
    finally:
        os.close(descriptor)


def has_none(config: pytest.Config) -> bool:
    """Workers of xdist have theirs in the session's, and who names a directory wants that one."""
    return not hasattr(config, "workerinput") and config.option.basetemp is None
