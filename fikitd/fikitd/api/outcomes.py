"""What the controller may know of a run: numbers, and nothing else (docs/admin.md).

fikitd writes them into a spool that SlurmUser alone reads, a file per node, or into the job's AdminComment (admin_comment.py). Who
reads them trusts neither: a file that somebody else may write is none, and a line that is not as it should be is left out.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pwd
import stat
import threading
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Final

from fikitd.api.report_format import Report
from fikitd.base.validation import is_name, printable
from fikitd.store import temporary
from fikitd.store.storage import read_bounded, write_atomic

_log = logging.getLogger("fikitd")

SUFFIX: Final = ".runs"
HEAD: Final = "fikit-runs 2"
HEADS: Final = ("fikit-runs 1", HEAD)  # that is read: the first without the last two numbers
MOST: Final = 4096  # runs of a node; older ones go
MOST_OF_NAME: Final = 64  # of one user and name: as many as anybody goes by
MOST_BYTES: Final = 2**20
MOST_FILES: Final = 4096  # nodes
NAME_BYTES: Final = 128  # of a job's name in its record
UNKNOWN: Final = -1.0
_LARGEST: Final = 1e15


def name_key(name: str) -> int:
    """A job's name as a number, the same everywhere: history by (uid, name) needs to know it again, and no more."""
    return int.from_bytes(hashlib.sha256(name.encode(errors="surrogateescape")).digest()[:6], "big")


def recorded_name(name: str) -> str:
    """A job's name as Slurm has it, as its record has it and therefore its outcome: without control characters, what is no text as `?`, so many
    bytes (slurm_plugin: fikit_printable)."""
    kept, used = [], 0
    for char in name:
        shown = "?" if "\udc80" <= char <= "\udcff" else char
        used += len(shown.encode(errors="replace"))
        if used > NAME_BYTES:
            break
        if unicodedata.category(char) not in ("Cc", "Zl", "Zp"):
            kept.append(shown)
        else:
            used -= len(char.encode())
    return printable("".join(kept))


@dataclass(frozen=True)
class Outcome:
    """One run on one node. Times in seconds, `ended_s` since 1970; what is not known is UNKNOWN.

    `busy`: share of its time alone in which the device worked for it. `slowdown`: elapsed / alone. `given_s`: what it cost other jobs of
    the node, as far as these had said by then. `emulated`: 1 where the GPU was. `gpu`: name_key() of its UUID, 0: not known; with
    `priority` it says who was beside whom (fikitd.history.pairs).
    """

    job: int
    uid: int
    name: int  # name_key()
    ended_s: int
    elapsed_s: float
    busy: float
    peak_mib: int
    slowdown: float
    given_s: float
    emulated: int
    gpu: int = 0
    priority: int = 5

    def text(self) -> str:
        return " ".join(f"{value:.4f}" if isinstance(value, float) else str(value) for value in astuple(self))

    @classmethod
    def parse(cls, text: str) -> Outcome:
        """ValueError for a line that `text` did not write."""
        words = text.split(" ")
        if len(words) not in (len(fields(cls)) - 2, len(fields(cls))):
            raise ValueError("it has another number of numbers")
        numbers: list[Any] = []
        for field, word in zip(fields(cls), words, strict=False):
            whole = field.type == "int"
            if not word.isascii() or not word.removeprefix("-").replace(".", "", 0 if whole else 1).isdecimal():
                raise ValueError(f"{field.name} is not a number")
            number = int(word) if whole else float(word)
            if not (0 <= number <= _LARGEST or (number == UNKNOWN and not whole)):
                raise ValueError(f"{field.name} cannot be {word}")
            numbers.append(number)
        return cls(*numbers)


def of_report(report: Report, given_s: float, ended_s: int) -> Outcome | None:
    """None of a job that is not Slurm's, or launched nothing."""
    if not str(report["job"]).isdecimal() or not report["kernels"]:
        return None
    alone_s, gpu_s, slowdown = report["alone_s"], report["gpu_time_s"], report["slowdown"]
    return Outcome(
        job=int(report["job"]),
        uid=report["uid"],
        name=name_key(report["name"]),
        ended_s=ended_s,
        elapsed_s=float(report["elapsed_s"]),
        busy=UNKNOWN if gpu_s is None or not alone_s else min(gpu_s / alone_s, 1.0),
        peak_mib=report["memory"]["peak_bytes"] >> 20,
        slowdown=UNKNOWN if slowdown is None else float(slowdown),
        given_s=float(given_s),
        emulated=int(report["device"]["emulated"]),
        gpu=name_key(uuid) if (uuid := report["device"].get("uuid")) else 0,
        priority=report["priority"],
    )


class Spool:
    """fikitd's side: the file of its node in a directory of the site's, which nobody but SlurmUser reads."""

    def __init__(self, directory: str, user: str, node: str) -> None:
        """`directory` "": there is none."""
        self._directory, self._user, self._node = directory, user, node
        self._complained = self._began = False
        self._lock = threading.Lock()  # several jobs end at a time

    def add(self, outcome: Outcome) -> None:
        """At once and as a whole, by whatever thread. Never raises; the first failure is a line in the log."""
        if self._directory:
            with self._lock:
                self._add(outcome)

    def _add(self, outcome: Outcome) -> None:
        path = Path(self._directory) / (self._node + SUFFIX)
        try:
            uid = pwd.getpwnam(self._user).pw_uid
            _check(os.stat(self._directory), {0, uid, os.geteuid()}, self._directory)  # noqa: PTH116
            if not self._began:
                temporary.remove_of(path)
            self._began = True
            runs: list[Outcome] = []
            with suppress(FileNotFoundError):
                runs = list(_of_file(path, {uid, os.geteuid()}))
            lines = [each.text() for each in bounded([*runs, outcome])]
            write_atomic(path, "".join(f"{line}\n" for line in (HEAD, *lines)).encode(), mode=0o400)
            if uid != os.geteuid():
                os.chown(path, uid, -1)
            self._complained = False
        except (OSError, ValueError, KeyError) as error:
            if not self._complained:
                why = f"there is no user {self._user}" if isinstance(error, KeyError) else error
                _log.warning("what jobs used cannot be put into %s for the controller: %s", self._directory, why)
            self._complained = True


def bounded(runs: list[Outcome]) -> list[Outcome]:
    """So many as a node keeps, of which the last is the newest: the newest of each name, and then of the user who has most the oldest go, so
    that nobody's many runs push others' out."""
    name = runs[-1].uid, runs[-1].name
    same = [index for index, each in enumerate(runs) if (each.uid, each.name) == name]
    gone = set(same[:-MOST_OF_NAME])
    while len(runs) - len(gone) > MOST:
        left = [(index, each.uid) for index, each in enumerate(runs) if index not in gone]
        [(most, _)] = Counter(uid for _, uid in left).most_common(1)
        gone.add(next(index for index, uid in left if uid == most))
    return [each for index, each in enumerate(runs) if index not in gone]


def read(directory: Path | str, trusted: Iterable[int] = ()) -> list[Outcome]:
    """The runs of all nodes, the newest first. Files of others than root, the caller and `trusted` uids, or that others may write, are left
    out with a line in the log, and so are lines that are none. Raises OSError where the directory cannot be read."""
    owners, found = {0, os.geteuid(), *trusted}, []
    for path in files(directory, owners):
        try:
            found += of_file(path, owners)
        except (OSError, ValueError) as error:
            _log.warning("%s is not read: %s", path, error)
    return sorted(found, key=lambda each: -each.ended_s)


def files(directory: Path | str, owners: set[int]) -> list[Path]:
    """Each node's file. Raises OSError where the directory cannot be read, ValueError where others than `owners` may write there."""
    _check(os.stat(directory), owners, str(directory))  # noqa: PTH116
    return sorted(Path(directory).glob(f"*{SUFFIX}"))[:MOST_FILES]


def of_file(path: Path, owners: set[int]) -> list[Outcome]:
    """The runs of one node, the newest last. Raises OSError and ValueError for a file that is none."""
    latest = time.time() + 86_400  # a node with a wrong clock must not be the newest for years
    return [each for each in _of_file(path, owners) if each.ended_s < latest]


def history(outcomes: Iterable[Outcome], most: int = 16) -> dict[tuple[int, int], list[Outcome]]:
    """By (uid, name_key), at most so many of each, in the order given."""
    by_name: dict[tuple[int, int], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if len(known := by_name[outcome.uid, outcome.name]) < most:
            known.append(outcome)
    return dict(by_name)


def _of_file(path: Path, owners: set[int]) -> Iterator[Outcome]:
    if not is_name(path.name):
        raise ValueError("it is not called after a node")
    _check(path.lstat(), owners, str(path))
    head, *lines = read_bounded(path, MOST_BYTES).decode(errors="replace").splitlines() or [""]
    if head not in HEADS:
        raise ValueError(f'it does not begin with "{HEAD}"')
    for line in lines[-MOST:]:
        with suppress(ValueError):
            yield Outcome.parse(line)


def _check(status: os.stat_result, owners: set[int], what: str) -> None:
    if status.st_uid not in owners or stat.S_IMODE(status.st_mode) & 0o022:
        raise ValueError(f"{what} may be written by others")
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise ValueError(f"{what} is neither a file nor a directory")
