"""Where fikitd keeps sockets, reports and profiles: the machine's own place and the user's personal one.

The machine's fikitd (under Slurm) is described by fikit.toml. `fikit run` needs no administrator: it uses a place of the
user's own, unless FIKIT_CONFIG names a fikit.toml.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fikitd.config import fikit_toml
from fikitd.store import mounts, own_directory

from fikit.errors import UserError


@dataclass(frozen=True)
class Place:
    """The directories of one fikitd. `config_file` is the fikit.toml that says so, or None when nobody wrote one."""

    run_dir: Path
    report_dir: Path
    profile_dir: Path
    config_file: Path | None = None


def places() -> list[Place]:
    """Every place a user's reports and profiles may be in, the most likely first."""
    return [machine()] if os.environ.get(fikit_toml.ENV_CONFIG) else [machine(), personal()]


def machine() -> Place:
    """The place of the machine's fikitd: what FIKIT_CONFIG names, else /etc/fikit/fikit.toml, else the defaults."""
    try:
        daemon = fikit_toml.load().daemon
    except fikit_toml.ConfigError as error:
        raise UserError(str(error)) from error
    file = Path(os.environ.get(fikit_toml.ENV_CONFIG) or fikit_toml.DEFAULT_PATH).absolute()
    return Place(
        Path(daemon.run_dir), Path(daemon.report_dir), Path(daemon.profile_dir), file if file.exists() else None
    )


def personal() -> Place:
    """The place of the fikitd that `fikit run` starts: sockets in XDG_RUNTIME_DIR, results in XDG_STATE_HOME."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    run_dir = _own(Path(runtime) / "fikit" if runtime else _temporary() / f"fikit-{os.getuid()}")
    named = os.environ.get("XDG_STATE_HOME")
    state = Path(named) / "fikit" if named else _state_at_home() or run_dir / "state"
    return Place(run_dir, state / "reports", state / "profiles")


def _temporary() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # it tries to write into each
        return Path("/tmp")


def _state_at_home() -> Path | None:
    """None for who has no home: neither HOME nor an entry in passwd, or a directory that is not there."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ".local" / "state" / "fikit" if home.is_dir() else None


def _own(directory: Path) -> Path:
    """`directory`, or the one that is ours because somebody else has taken its name."""
    with suppress(OSError):
        return next(iter(own_directory.of(directory.parent, os.getuid(), directory.name)), directory)
    return directory


def looked_in(directories: Iterable[Path]) -> str:
    """Where nothing was found, as the end of a sentence; what hid it, where a directory could not be read."""
    return " and ".join(f"{directory}{f' ({why})' if (why := closed(directory)) else ''}" for directory in directories)


def closed(directory: Path) -> str:
    """Why nobody can say what is in it; empty where it can be read, or is not there."""
    try:
        os.scandir(directory).close()
    except FileNotFoundError:
        point = mounts.missing_above(directory)
        return "" if point is None else f"the file system of {point} is not mounted"
    except OSError as error:
        return f"which could not be read: {error.strerror}"
    return ""


def make_private(directory: Path) -> None:
    """Make `directory` with mode 0700, or another one where it is another user's. Raises OSError, also for one of ours that
    somebody else could have prepared.
    """
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700, parents=True)
    if directory.lstat().st_uid not in (0, os.getuid()):
        directory = own_directory.make(directory.parent, os.getuid(), directory.name)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(
            f"{directory} is not a directory that only you can write: remove it or set XDG_RUNTIME_DIR to a private one"
        )


def elsewhere(jobid: str, program: str) -> str:
    """Where else a job of Slurm's may be known, as the end of a sentence: while it runs, by its own node's fikitd alone."""
    if "_" in jobid or "+" in jobid:
        return "; Slurm does not know its own number, with which the line at the end of its output begins"
    if not jobid.isdecimal():
        return ""
    return f"; while it runs, its node knows more: srun --overlap --jobid={jobid} {program} {jobid}"
