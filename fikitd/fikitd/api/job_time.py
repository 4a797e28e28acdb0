"""Where a job's time went, over all its processes (docs/elapsed.md): an instant counts for those that are there in equal parts.

The dispatchers account for each client's time (fikitd/core/tracking/accounting/time_account.hpp). Here the sums are taken over at each moment at
which a client comes or goes, so that the parts are those of the clients that were there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field, fields
from typing import Any, Final, NamedTuple

SpentNow = Callable[[], Mapping[str, Any]]
FIELDS: Final = ("elapsed", "start", "end", "pauses", "waited", "delayed", "late", "unexplained", "suspended")
NONE: Final = {f"{name}_ns": 0 for name in FIELDS}  # of a client that has just come


class Edges(NamedTuple):
    """ns of a process. lead: from the job's start, or from the end of its last process before, until it comes; 0 where another
    one was there. start: from then to its first launch. end: from its last work to its end."""

    lead_ns: int
    start_ns: int
    end_ns: int


@dataclass
class Sums:
    """ns. `start`, `end`: of processes, as far as these took longer than their profile says; `edges`: those of which it says nothing."""

    elapsed: float = 0
    start: float = 0
    end: float = 0
    edges: float = 0
    pauses: float = 0
    waited: float = 0
    delayed: float = 0
    late: float = 0
    unexplained: float = 0
    suspended: float = 0

    def plus(self, other: Sums) -> Sums:
        return Sums(*(mine + more for mine, more in zip(astuple(self), astuple(other), strict=True)))


@dataclass
class _Client:
    """`seen`: what its dispatcher said when the sums were last taken over. `parts`: its parts of the job's time, by FIELDS."""

    spent_now: SpentNow | None = None
    lead_ns: int = 0
    seen: Mapping[str, Any] = field(default_factory=lambda: NONE)
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(FIELDS, 0.0))
    start_ns: int = 0  # as the dispatcher of an earlier fikitd said it
    known: Edges | None = None  # by its profile

    def takes(self, spent: Mapping[str, Any], share: float) -> None:
        for name in FIELDS:
            self.parts[name] += (spent.get(f"{name}_ns", 0) - self.seen.get(f"{name}_ns", 0)) * share
        self.seen = spent

    def edges(self) -> Edges:
        return Edges(self.lead_ns, self.start_ns + self.seen["start_ns"], self.seen["end_ns"])

    def sums(self, *, measured: bool, over: bool) -> Sums:
        parts, took = self.parts, self.edges()
        lead, start = float(self.lead_ns), parts["start"]
        end = parts["end"] if over else 0.0  # the next launch may end it as a gap
        unknown = 0.0
        if measured:
            lead = start = end = 0.0
        elif self.known is None:
            unknown, lead, start, end = lead + start + end, 0.0, 0.0, 0.0
        else:
            if not self.known.lead_ns:
                unknown = lead
            lead *= _excess(took.lead_ns, self.known.lead_ns or took.lead_ns)
            start *= _excess(took.start_ns, self.known.start_ns)
            end *= _excess(took.end_ns, self.known.end_ns)
        return Sums(
            parts["elapsed"] + self.lead_ns, lead + start, end, unknown, parts["pauses"], parts["waited"], parts["delayed"],
            parts["late"], parts["unexplained"], parts["suspended"],
        )  # fmt: skip


def _excess(took_ns: int, known_ns: int) -> float:
    return max(took_ns - known_ns, 0) / took_ns if took_ns > 0 else 0.0


class JobTime:
    """One job's. Moments count from its start, which is CLOCK_REALTIME, on a clock that nobody sets."""

    def __init__(self, started_ns: int, *, measured: bool) -> None:
        self._measured = measured
        self._sums = Sums()  # of clients that are gone, and of times without any
        self._clients: dict[int, _Client] = {}
        self._quiet_since_ns = started_ns
        self._away: dict[int, _Client] = {}  # of the fikitd before this one, not gone on with yet
        self._noted_ns = 0

    def came(self, number: int, spent_now: SpentNow, now_ns: int) -> None:
        """A client is there from now on."""
        self._settle()
        if self._away and not self._clients and self._noted_ns:  # nobody saw what they did
            unseen_ns = max(now_ns - self._noted_ns, 0)
            self._sums = self._sums.plus(Sums(elapsed=unseen_ns, unexplained=unseen_ns))
            self._noted_ns = 0
        client = self._away.pop(number, None) or _Client()
        if not self._clients and client.parts["elapsed"] == 0 and not self._away:
            client.lead_ns = max(now_ns - self._quiet_since_ns, 0)
        client.spent_now = spent_now
        self._clients[number] = client

    def knows(self, number: int, edges: Edges | None) -> None:
        """What its profile says of the start and end of a client that is there; None: nothing."""
        if (client := self._clients.get(number)) and edges is not None:
            client.known = edges

    def went(self, number: int, spent: Mapping[str, Any], now_ns: int) -> Edges:
        """A client is gone, and this is what its dispatcher said at last."""
        client = self._clients.get(number)
        if client is None:
            return Edges(0, 0, 0)
        client.spent_now = lambda: spent
        self._settle()
        del self._clients[number]
        self._sums = self._sums.plus(client.sums(measured=self._measured, over=True))
        if not self._clients:
            self._quiet_since_ns = now_ns
        return client.edges()

    def give_up(self) -> None:
        """Clients of the fikitd before this one that have not come by now are gone."""
        for client in self._away.values():
            self._sums = self._sums.plus(client.sums(measured=self._measured, over=True))
        self._away.clear()

    def sums(self) -> Sums:
        """As of now."""
        self._settle()
        found = self._sums
        for client in (*self._clients.values(), *self._away.values()):
            found = found.plus(client.sums(measured=self._measured, over=False))
        return found

    def rows(self, now_ns: int) -> dict[str, Any]:
        """All of it as of now, for the ledger; `go_on_from` reads it."""
        self._settle()
        clients = {
            str(number): [*client.edges()[:2], *(client.known or ()), *client.parts.values()]
            for number, client in (*self._clients.items(), *self._away.items())
        }
        return {
            "noted_ns": now_ns,
            "quiet_ns": self._quiet_since_ns,
            "sums": list(astuple(self._sums)),
            "clients": clients,
        }

    def go_on_from(self, rows: Mapping[str, Any]) -> None:
        """Raises ValueError, TypeError or KeyError for what `rows` did not write."""
        if not rows:
            return  # a fikitd of before wrote none
        self._noted_ns, self._quiet_since_ns = int(rows["noted_ns"]), int(rows["quiet_ns"])
        sums = [float(each) for each in rows["sums"]]
        self._sums = Sums(**dict(zip((each.name for each in fields(Sums)), sums, strict=True)))
        for number, (lead_ns, start_ns, *rest) in rows["clients"].items():
            known, parts = rest[: -len(FIELDS)], rest[-len(FIELDS) :]
            client = _Client(lead_ns=int(lead_ns), start_ns=int(start_ns))
            client.known = Edges(*map(int, known)) if known else None
            client.parts = {name: float(part) for name, part in zip(FIELDS, parts, strict=True)}
            client.parts["end"] = 0.0  # it goes on
            self._away[int(number)] = client

    def _settle(self) -> None:
        share = 1 / max(len(self._clients), 1)
        for client in self._clients.values():
            with suppress(IndexError, KeyError):  # it goes just now, and its last word comes
                if client.spent_now is not None:
                    client.takes(client.spent_now(), share)
