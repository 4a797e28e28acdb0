"""A job's trace, made up: events of two clients, and the stored trace that fikitd makes of them."""

from __future__ import annotations

import json
import struct
from typing import Any

from daemon_fakes import journal_of
from fikitd._core import JOURNAL_KINDS, REASONS
from fikitd.api.held import Owners
from fikitd.api.traces import Story, begin, block, pieces
from fikitd.store.records import JobRecord

MS = 1_000_000
ABOUT = {
    "job": "12", "name": "train", "uid": 7, "node": "n1", "priority": 8, "policy": "paper", "state": "ended",
    "device": {"name": "GPU of the test", "uuid": "GPU-0", "memory_bytes": 1, "emulated": True},
}  # fmt: skip


def event(
    kind: str, t_ns: int, length_ns: int = 0, predicted_ns: int = 0, *, slot: int = 0, reason: str = "none", by: int = 0
) -> bytes:
    kinds = JOURNAL_KINDS.index(kind), REASONS.index(reason)
    return struct.pack("<qqqIHBB", t_ns, length_ns, predicted_ns, by, slot, *kinds)


EVENTS = b"".join([
    event("launch", 10 * MS, 2 * MS, 12 * MS, slot=1),
    event("drain", 12 * MS),
    event("gap", 12 * MS, 3 * MS, 2 * MS),
    event("wait", 15 * MS, 4 * MS, slot=1, reason="behind", by=2),
    event("wait", 19 * MS, 1 * MS, slot=1, reason="reaction", by=1),
    event("grant", 19 * MS, slot=1),
    event("launch", 20 * MS, -1, -1, slot=1),
    event("launch", 20 * MS + 1000, 2 * MS, 13 * MS, slot=2),  # reckoned anew meanwhile: it would overlap the first
])  # fmt: skip


def story(events: bytes = EVENTS, lost: int = 0) -> Story:
    return Story(4711, "GPU-0", journal_of(events, lost, b"1 gemm\n"))


def trace(uid_of_other: int = 8, **facts: Any) -> dict[str, Any]:
    owners = Owners()
    owners.note(1, JobRecord(job="12", uid=7, gid=7, priority=8))
    owners.note(2, JobRecord(job="17", uid=uid_of_other, gid=1, priority=1))
    return json.loads(written({**ABOUT, **facts}, [story()], owners))


def written(about: dict[str, Any], stories: list[Story], owners: Owners) -> bytes:
    return b"".join(pieces(iter([begin(about), *(block(story, about["uid"], owners) for story in stories)])))
