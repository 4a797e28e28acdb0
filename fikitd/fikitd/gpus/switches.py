"""How long each GPU takes to go to another process, as the dispatchers measured it: RUN_DIR/switches/<UUID>, for the fikitd after this one.

The newest value of each user counts, and of these values the median: no user alone decides what others' jobs are reckoned with. A value that rests on reports of
low jobs does not count where there is one that rests on higher jobs, and never for jobs above those that reported it (D20). The directory belongs to the
daemon and is gone after a reboot, which may bring another driver: then the switch is measured anew.
"""

from __future__ import annotations

import json
import logging
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from fikitd.base import schema
from fikitd.base.schema import whole
from fikitd.gpus import devices
from fikitd.store.storage import read_bounded, reason, write_atomic

_log = logging.getLogger("fikitd")

DIRECTORY: Final = "switches"
VERSION: Final = 1
MAX_USERS: Final = 64
MAX_BYTES: Final = 16384
LONGEST_NS: Final = 5_000_000  # SwitchMeter::kAtMostNs
MOST: Final = 63  # SwitchMeter::kWindow: samples of one client


@dataclass(frozen=True)
class Switch:
    """Measured in so many changes of the process; the true one is probably no further away than the spread.

    priority: of the least important job whose programs' reports say so.
    """

    switch_ns: int
    spread_ns: int
    count: int
    priority: int


_SWITCH = schema.fields(
    {
        "switch_ns": whole(0, LONGEST_NS),
        "spread_ns": whole(0, 2 * LONGEST_NS),
        "count": whole(1, 2**31),
        "priority": whole(0, 9),
    }
)
_FILE = schema.fields({"version": whole(VERSION, VERSION), "users": schema.good_ones(
    schema.fields({"uid": whole(0, 2**32 - 1), "said": _SWITCH}), MAX_USERS)})  # fmt: skip


def _that_count(words: Iterable[Switch]) -> tuple[list[Switch], Switch]:
    """Of all that was said what jobs of the highest priority say, and the one in the middle."""
    ordered = sorted(words, key=lambda word: (word.priority, word.switch_ns))
    count = [word for word in ordered if word.priority == ordered[0].priority]
    return count, count[(len(count) - 1) // 2]


class Switches:
    """Only the event loop touches it: the directory is a local one, and small."""

    def __init__(self, run_dir: Path) -> None:
        self._directory = run_dir / DIRECTORY
        self._known: dict[str, dict[int, Switch]] = {}  # by GPU, by user, the newest last

    def of(self, place: str) -> Switch | None:
        """Of the GPU that is shared under this name; None: nobody has measured it, or its name is no UUID."""
        users = self._users(place)
        if not users:
            return None
        words, middle = _that_count(users.values())
        spread = max(round(statistics.median(abs(w.switch_ns - middle.switch_ns) for w in words)), middle.spread_ns)
        return Switch(middle.switch_ns, spread, sum(w.count for w in words), middle.priority)

    def learnt(self, place: str, words: Sequence[tuple[int, Switch]]) -> None:
        """What clients of these users show."""
        users = self._users(place)
        if users is None:
            return
        by_user: dict[int, list[Switch]] = {}
        for uid, said in words:
            by_user.setdefault(uid, []).append(said)
        before = dict(users)
        for uid, own in by_user.items():
            users.pop(uid, None)
            users[uid] = _that_count(own)[1]
        while len(users) > MAX_USERS:
            del users[next(iter(users))]
        if users != before:
            self._store(place, users)

    def _users(self, place: str) -> dict[int, Switch] | None:
        if not devices.is_uuid(place):
            return None
        if place not in self._known:
            self._known[place] = self._read(self._directory / place)
        return self._known[place]

    def _read(self, path: Path) -> dict[int, Switch]:
        try:
            said = _FILE(schema.document(read_bounded(path, MAX_BYTES)), "the file")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            _log.warning("%s is left out, and measured anew: %s", path, reason(error))
            return {}
        return {entry["uid"]: Switch(**entry["said"]) for entry in said["users"]}

    def _store(self, place: str, users: Mapping[int, Switch]) -> None:
        document: dict[str, Any] = {
            "version": VERSION,
            "users": [{"uid": uid, "said": asdict(said)} for uid, said in users.items()],
        }
        try:
            with suppress(FileExistsError):
                self._directory.mkdir(mode=0o700)
            write_atomic(self._directory / place, json.dumps(document).encode(), mode=0o600)
        except OSError as error:
            _log.warning("the switch of %s could not be noted, it will be measured again: %s", place, reason(error))
