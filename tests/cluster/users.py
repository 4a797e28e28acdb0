"""Commands as other users."""

from __future__ import annotations

import pwd


def as_user(name: str) -> list[str]:
    """What goes before a command so that the user runs it, in the user's own group and no other."""
    user = pwd.getpwnam(name)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
