"""The status files of all nodes: what each fikitd wrote last into `status_dir`. Whoever reads them trusts neither their names nor their text."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fikitd.api import status_format
from fikitd.api.status_format import MOST_BYTES, SUFFIX
from fikitd.base import schema
from fikitd.base.validation import AHEAD_S, is_name, printable
from fikitd.store.storage import read_bounded, reason

MOST_FILES: Final = 16_384  # nodes
MOST_VALUES: Final = 2**16  # of one file
LATE: Final = 4  # who has not written for so many of its intervals is late: it has ended, or its node has


@dataclass(frozen=True)
class Statuses:
    """By node, in lower case, what its file says (status_format). refused: by file name, why it is not believed."""

    by_node: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def read(directory: Path | str, now_s: float) -> Statuses:
    """Every file of the directory. OSError: it cannot be read; ValueError: others than root and the caller may write there."""
    owners, found = {0, os.geteuid()}, Statuses()
    status = os.stat(directory)  # noqa: PTH116  # its errors name it
    if status.st_uid not in owners or stat.S_IMODE(status.st_mode) & 0o022:
        raise ValueError("others than root may write there, and could say anything of any node")
    with os.scandir(directory) as entries:
        names = sorted(
            entry.name for entry in entries if entry.name.endswith(SUFFIX) and not entry.name.startswith(".")
        )
    for name in names[:MOST_FILES]:
        try:
            found.by_node[_node_of(name)] = _of_file(Path(directory) / name, now_s)
        except (OSError, ValueError) as error:
            found.refused[printable(name)] = reason(error)
    return found


def is_late(status: dict[str, Any], now_s: float) -> bool:
    """Whether its fikitd should have written again by now."""
    return bool(now_s - status["written_s"] > LATE * status["every_s"])


def _node_of(name: str) -> str:
    node = name.removesuffix(SUFFIX)
    if not is_name(node):
        raise ValueError("it is not called after a node")
    return node.lower()


def _of_file(path: Path, now_s: float) -> dict[str, Any]:
    if path.lstat().st_mode & 0o022:
        raise ValueError("others than its owner may write it")
    status = status_format.checked(schema.document(read_bounded(path, MOST_BYTES, os.geteuid()), MOST_VALUES))
    if status["node"].lower() != _node_of(path.name):
        raise ValueError(f"it is about node {status['node']}")
    if status["written_s"] > now_s + AHEAD_S:
        raise ValueError("it was written by a clock that is days ahead")
    return status
