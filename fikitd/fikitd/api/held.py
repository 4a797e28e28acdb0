"""Why a job waited: what the dispatchers put its waiting down to, over all its clients, by job instead of by client.

Job ids and priorities of others are what squeue tells everybody; names of kernels are only ever the job's own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fikitd.api import former_names
from fikitd.store.records import JobRecord

REMEMBERED_CLIENTS: Final = 4096
MAX_ENTRIES: Final = 256  # of one job; what is beyond is summed up by reason
MAX_ROWS: Final = 64  # of these in the ledger
LOWER_WORK: Final = "lower_work"


class Owner(NamedTuple):
    job: str
    uid: int
    priority: int


class Owners:
    """Whose a client is, also for a while after it left: a report blames jobs, a dispatcher clients."""

    def __init__(self) -> None:
        self._owners: OrderedDict[int, Owner] = OrderedDict()

    def note(self, client: int, record: JobRecord) -> None:
        self._owners[client] = Owner(record.job, record.uid, record.priority)
        if len(self._owners) > REMEMBERED_CLIENTS:
            self._owners.popitem(last=False)

    def of(self, client: int | None) -> Owner | None:
        return None if client is None else self._owners.get(client)

    def seen_by(self, client: int, uid: int) -> dict[str, Any]:
        """What a user may know of a client in the picture of a schedule: whose it is only if it is the user's own."""
        owner = self.of(client)
        if owner is None:
            return {"job": None, "priority": None}
        return {"job": owner.job if uid in (0, owner.uid) else None, "priority": owner.priority}


class _Key(NamedTuple):
    reason: str
    job: str | None
    priority: int | None
    kernel: str


@dataclass
class _Sum:
    p90_ns: float | None = None
    total_ns: int = 0
    count: int = 0
    cost_ns: int = 0  # of total_ns, without work of the job's own on the device: what it cost of its elapsed time


class Cost(NamedTuple):
    """What waits at the gate, or `lower_work` on the device, cost a job of its elapsed time."""

    reason: str
    job: str | None
    priority: int | None
    ns: int


@dataclass
class Held:
    """Sums of one job."""

    sums: dict[_Key, _Sum] = field(default_factory=dict)

    def plus(self, entries: Iterable[Mapping[str, Any]], owners: Owners) -> Held:
        """These sums and one more client's, as `Dispatcher.stats()["held"]` has them."""
        more = Held({key: _Sum(**vars(old)) for key, old in self.sums.items()})
        for entry in entries:
            owner = owners.of(entry["by"])
            job, priority = (owner.job, owner.priority) if owner else (None, None)
            key = _Key(entry["reason"], job, priority, entry["kernel"])
            if key not in more.sums and len(more.sums) >= MAX_ENTRIES:
                key = _Key(entry["reason"], None, None, "")
            total = more.sums.setdefault(key, _Sum())
            total.p90_ns = entry["p90_ns"] if key.kernel else None
            total.total_ns += entry["total_ns"]
            total.count += entry["count"]
            total.cost_ns += entry.get("cost_ns", 0)
        return more

    def costs(self) -> list[Cost]:
        return [
            Cost(key.reason, key.job, key.priority, total.total_ns if key.reason == LOWER_WORK else total.cost_ns)
            for key, total in self.sums.items()
        ]

    def rows(self) -> list[list[Any]]:
        """The longest of them for the ledger, the rest summed up by reason; `from_rows` reads them."""
        longest = sorted(self.sums.items(), key=lambda item: -item[1].total_ns)
        kept = Held(dict(longest[:MAX_ROWS]))
        for key, rest in longest[MAX_ROWS:]:
            total = kept.sums.setdefault(_Key(key.reason, None, None, ""), _Sum())
            total.total_ns += rest.total_ns
            total.count += rest.count
            total.cost_ns += rest.cost_ns
        return [[*key, total.p90_ns, total.total_ns, total.count, total.cost_ns] for key, total in kept.sums.items()]

    @staticmethod
    def from_rows(rows: list[list[Any]]) -> Held:
        """ValueError or TypeError for what `rows` did not write."""
        held = Held()
        for reason, job, priority, kernel, p90_ns, total_ns, count, *cost_ns in rows:  # rows of before have no cost
            sums = _Sum(p90_ns, int(total_ns), int(count), *map(int, cost_ns))
            held.sums[_Key(str(reason), job, priority, str(kernel))] = sums
        return held

    def fields(self) -> dict[str, Any]:
        """The parts of a report record that say why (docs/design/contracts.md, "Report records"); the longest first."""
        longest = sorted(self.sums.items(), key=lambda item: -item[1].total_ns)
        found = {
            "wait_reasons": [
                {
                    "reason": key.reason,
                    "job": key.job,
                    "priority": key.priority,
                    "kernel": key.kernel,
                    "p90_us": None if total.p90_ns is None else total.p90_ns / 1e3,
                    "total_s": total.total_ns / 1e9,
                    "cost_s": total.cost_ns / 1e9,
                    "count": total.count,
                }
                for key, total in longest
                if key.reason != LOWER_WORK
            ],
            "delays": [
                {"job": key.job, "priority": key.priority, "total_s": total.total_ns / 1e9, "count": total.count}
                for key, total in longest
                if key.reason == LOWER_WORK
            ],
        }
        return former_names.with_former("report", found)
