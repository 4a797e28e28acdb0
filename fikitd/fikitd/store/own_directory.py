"""A directory of each user's own in one that many may write: reports, profiles, `fikit run`'s sockets.

In a directory like /tmp anybody may have made a name first. So a directory is a user's by its owner, never by its name, and a
user whose name somebody else has taken gets another one: `1000`, else `1000.3f9c01ab`. What is root's is believed, too.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from fikitd.store import mounts

MOST_LOOKED_AT: Final = 1_000_000  # entries of a directory; a second
LOCAL_STATE: Final = Path("/var/lib/fikit")  # of this machine, not of shared storage: it is made where it is missing

_OTHER_NAME = r"\.[0-9a-f]{8}"
_NUMBERED = re.compile(rf"(\d{{1,10}})(?:{_OTHER_NAME})?", re.ASCII)


def of(parent: Path, uid: int, name: str | None = None) -> list[Path]:
    """The directories in `parent` that are the user's, under `name` or instead of it (None: the uid). OSError: nobody can say."""
    name = str(uid) if name is None else name
    if belongs(parent / name, uid):
        return [parent / name]
    other = re.compile(re.escape(name) + _OTHER_NAME, re.ASCII)
    try:
        with os.scandir(parent) as entries:
            names = sorted(
                entry.name
                for entry in itertools.islice(entries, MOST_LOOKED_AT)
                if other.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            )
    except FileNotFoundError:
        return []
    return [parent / name for name in names if belongs(parent / name, uid)]


def everybodys(parent: Path) -> Iterator[tuple[int, Path]]:
    """Every user's directories in `parent`, with the uid. OSError: nobody can say."""
    with os.scandir(parent) as entries:
        found = ((_NUMBERED.fullmatch(e.name), e) for e in itertools.islice(entries, MOST_LOOKED_AT))
        names = sorted((int(match[1]), e.name) for match, e in found if match and e.is_dir(follow_symlinks=False))
    for uid, name in names:
        if belongs(parent / name, uid):
            yield uid, parent / name


def make(parent: Path, uid: int, name: str | None = None) -> Path:
    """The user's directory in `parent`, made where it is not there, and closed to others; for the calling thread's user.

    OSError: it cannot be had.
    """
    name = str(uid) if name is None else name
    make_parent(parent)
    for own in of(parent, uid, name):
        _close(own, uid)
        return own
    own = parent / name
    try:
        own.mkdir(mode=0o700)
    except FileExistsError:
        if belongs(own, uid):  # another node's fikitd was faster
            return own
        own = _beside(own, uid)
    if belongs(own, uid):
        return own
    own.rmdir()  # storage that gives everything to one user: there nobody could tell whose is whose
    raise PermissionError(errno.EPERM, f"what uid {uid} makes there does not belong to it (NFS with all_squash?)")


def _beside(taken: Path, uid: int) -> Path:
    """Another directory for a user whose name somebody else has."""
    own = taken.with_name(f"{taken.name}.{secrets.token_hex(4)}")
    try:
        own.mkdir(mode=0o700)
    except OSError as error:
        sentence = (
            f"{taken} belongs to uid {taken.lstat().st_uid}, not to uid {uid}, and there is no room for another: "
        )
        raise PermissionError(errno.EACCES, sentence + str(error.strerror)) from None
    return own


def make_parent(parent: Path) -> None:
    """`parent` itself and nothing above it: what is not there may be storage that is not mounted. OSError: it cannot be used."""
    if (point := mounts.missing_above(parent)) is not None:
        raise FileNotFoundError(errno.ENOENT, f"the file system of {point} is not mounted")
    if parent.parent == LOCAL_STATE:
        LOCAL_STATE.mkdir(mode=0o755, exist_ok=True)
    try:
        parent.mkdir(mode=0o755)
    except FileExistsError:
        if not parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    except FileNotFoundError:
        raise FileNotFoundError(
            errno.ENOENT, f"there is no {parent.parent}: is its file system mounted on this node?"
        ) from None


def prepare(parent: Path, uid: int, gid: int) -> None:
    """As root, make the user's directory where only root may; where that fails, `make` says what is wrong."""
    if os.geteuid() != 0:
        return
    with suppress(OSError):
        make_parent(parent)
        if open_to_users(parent):
            return  # users make their own, and could swap ours before it is theirs
        with suppress(FileExistsError):
            (parent / str(uid)).mkdir(mode=0o700)
        give(parent / str(uid), uid, gid)


def give(directory: Path, uid: int, gid: int) -> None:
    """A directory that root has just made, to a user; one that is no directory of root's is left alone."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid == 0 != uid:
            os.fchown(descriptor, uid, gid)
    finally:
        os.close(descriptor)


def open_to_users(directory: Path) -> bool:
    """Whether others than root, or the user who runs fikitd, may write there: what is in it may be a trap. OSError: nobody can say."""
    status = directory.stat()
    return status.st_uid != os.geteuid() or bool(status.st_mode & 0o022)


def belongs(path: Path, uid: int) -> bool:
    """Whether it is a directory, no link, of that user or of root."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid in (0, uid)


def _close(own: Path, uid: int) -> None:
    """Fikitds of before left it open to look into."""
    status = own.lstat()
    if status.st_uid == uid and status.st_mode & 0o077:
        with suppress(OSError):
            own.chmod(0o700)
