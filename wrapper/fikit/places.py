"""Where fikitd keeps sockets, reports and profiles: the machine's own place and the user's personal one.

The machine's fikitd (under Slurm) is described by fikit.toml. `fikit run` needs no administrator: it uses a place of the
user's own, unless FIKIT_CONFIG names a fikit.toml.
"""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fikit.errors import UserError
from fikitd import config

SITE_CONFIG = Path("/etc/fikit/fikit.toml")


@dataclass(frozen=True)
class Place:
    """The directories of one fikitd. `config_file` is the fikit.toml that says so, or None when nobody wrote one."""

    run_dir: Path
    report_dir: Path
    profile_dir: Path
    config_file: Path | None = None


def places() -> list[Place]:
    """Every place a user's reports and profiles may be in, the most likely first."""
    if os.environ.get("FIKIT_CONFIG"):
        return [named()]
    return [site(), personal()]


def named() -> Place:
    """The place that FIKIT_CONFIG names."""
    return _place_of(Path(os.environ["FIKIT_CONFIG"]).absolute())


def site() -> Place:
    """The place of the machine's fikitd: /etc/fikit/fikit.toml, or the defaults where that file does not exist."""
    if SITE_CONFIG.exists():
        return _place_of(SITE_CONFIG)
    daemon = config.Config().daemon
    return Place(Path(daemon.run_dir), Path(daemon.report_dir), Path(daemon.profile_dir))


def personal() -> Place:
    """The place of the fikitd that `fikit run` starts: sockets in XDG_RUNTIME_DIR, results in XDG_STATE_HOME."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    run_dir = Path(runtime) / "fikit" if runtime else Path(tempfile.gettempdir()) / f"fikit-{os.getuid()}"
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "fikit"
    return Place(run_dir, state / "reports", state / "profiles")


def make_private(directory: Path) -> None:
    """Make `directory` with mode 0700; refuse one that somebody else made for us in a shared directory."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
    except OSError as error:
        raise UserError(f"cannot make the directory {directory}: {error.strerror}; set XDG_RUNTIME_DIR") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise UserError(
            f"{directory} must be a directory that belongs to you and only you can write; "
            "remove it or set XDG_RUNTIME_DIR to a private directory"
        )


def _place_of(path: Path) -> Place:
    try:
        daemon = config.load(path).daemon
    except config.ConfigError as error:
        raise UserError(str(error)) from error
    return Place(Path(daemon.run_dir), Path(daemon.report_dir), Path(daemon.profile_dir), path)
