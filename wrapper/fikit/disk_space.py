"""File systems that take nothing more: found, and said in one sentence."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fikitd.base.command_line import UNWRITABLE

from fikit.errors import UserError


def is_full(directory: Path) -> bool:
    """Whether nobody but root can write there for want of room; a total of 0 is one that is not counted there."""
    space = os.statvfs(directory)
    return bool((space.f_blocks and not space.f_bavail) or (space.f_files and not space.f_favail))


@contextmanager
def needed(what: str, advice: str, kind: type[UserError] = UserError) -> Iterator[None]:
    """What is done in it writes `what`: where a file system takes no more, that is `kind`, with `advice`."""
    try:
        yield
    except OSError as error:
        if (why := _why(error)) is None:
            raise
        raise kind(f"{what} could not be written: {why}; {advice}") from error


def _why(error: OSError) -> str | None:
    """What the file system says; None where the error is another."""
    if isinstance(error, shutil.Error):  # of a tree: (from, to, text) of each file that could not be copied
        texts = [str(text) for *_, text in error.args[0]]
        return next(
            (os.strerror(number) for number in UNWRITABLE for text in texts if f"[Errno {number}]" in text), None
        )
    return error.strerror if error.errno in UNWRITABLE else None
