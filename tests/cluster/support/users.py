"""Commands as other users."""

from __future__ import annotations

import pwd
import subprocess
import sys


def as_user(name: str) -> list[str]:
    """What goes before a command so that the user runs it, in the user's own group and no other."""
    user = pwd.getpwnam(name)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def can_run_fikit(name: str) -> bool:
    """Whether the user may enter the directory of this Python: root's home is closed to others."""
    return subprocess.run([*as_user(name), sys.executable, "-c", ""], capture_output=True, check=False).returncode == 0
