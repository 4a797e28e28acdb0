"""The clients of one MPS server, and what becomes of them: a fault of one that ends all, work that one left on the GPU, a server's end.

However many come and go, the control daemon is asked once in a while, and one question answers for all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from fikitd.base.shares import URGENT, Limit, Places
from fikitd.mps.control import ACTIVE, FAULT, UNKNOWN, MpsError, began
from fikitd.mps.servers import Server
from fikitd.store.records import JobRecord

_log = logging.getLogger("fikitd")

FRESH_S: Final = (
    0.2  # a client that has ended is off its server's list by then, mostly, and an answer is good for as long
)
LOOK_AGAIN_S: Final = 1.0  # at most, between looks for one that is not

# NVIDIA refuses new clients while a client is being terminated, so only a client that nothing else takes off is terminated. The time
# counts from the end of its process, by when the kernel has closed its files and freed its memory; the server then frees the rest. Freeing
# tens of GiB takes tenths of a second. A client that is stuck in a kernel holds its memory, and perhaps the server, for so much longer.
GONE_S: Final = 2.0
LEAVING_S: Final = 60.0  # a process that has hung up and still lives then goes on, and is no concern of MPS's
JOINING_S: Final = (
    10.0  # a program that was let in is the server's client by then (cuInit takes seconds at most), or never
)

RECENT_S: Final = 5.0  # who left with work unfinished so shortly before a fault was seen may be the one who faulted


def nothing() -> int:
    return 0


@dataclass(eq=False)
class Member:
    """A program that is a client, or was until lately."""

    pid: int
    started: int
    record: JobRecord
    unfinished: Callable[[], int] = nothing  # launches that are not known to have completed
    entered_s: float = 0.0
    left_s: float | None = None
    left_with: int = 0
    gone_s: float | None = None  # when its process was first seen to have ended
    of_before: bool = False  # it joined under an earlier fikitd: no connection tells of its end


class Members:
    """Only the event loop touches it."""

    def __init__(self, server: Server, limit: Limit, say: Callable[[JobRecord, str], None]) -> None:
        """`say`: a sentence for a job's report."""
        self._server, self._say = server, say
        self._places = Places(limit)
        self._there: dict[tuple[int, int], Member] = {}
        self._gone: deque[Member] = deque(maxlen=limit.all)
        self._left: list[Member] = []  # since the daemon was asked
        self._asking = asyncio.Lock()
        self._asked_s, self._asked_of = -FRESH_S, 0  # when, and of which server
        self._faulted = 0  # the server that has a fault behind it
        self.terminating = False  # the server takes nobody until that is done
        self._most = limit.all
        self.complaint = ""  # why the daemon could not be asked the last time

    # ------------------------------------------------------------------ who is there

    @property
    def any(self) -> bool:
        return bool(self._there)

    @property
    def closed(self) -> bool:
        """Whether the server lets nobody in, because of a fault."""
        return self._faulted != 0 and self._faulted == self._server.server

    def enter(self, record: JobRecord, pid: int, *, of_before: bool = False) -> Member:
        """Raises NoPlace where the job, its user or all together have what they may have."""
        if not of_before:  # these are there already
            self._places.check(record.uid, record.job, urgent=record.priority <= URGENT)
        self._places.add(record.uid, record.job)
        member = Member(pid, began(pid), record, of_before=of_before, entered_s=time.monotonic())
        self._there[pid, member.started] = member
        return member

    def leave(self, member: Member) -> None:
        self._places.remove(member.record.uid, member.record.job)
        if self._there.get((member.pid, member.started)) is member:
            del self._there[member.pid, member.started]
        member.left_s = time.monotonic()
        self._gone.append(member)
        self._left.append(member)

    def drop_those_of_before(self) -> None:
        """Who have ended meanwhile."""
        for member in [m for m in self._there.values() if m.of_before and began(m.pid) != m.started]:
            self.leave(member)

    def find(self, pid: int) -> Member | None:
        return self._there.get((pid, began(pid)))

    def stops(self, pid: int, unfinished: int) -> None:
        """A program's page is gone, with so much work unfinished."""
        for member in [*self._there.values(), *self._gone]:
            if member.pid == pid:
                member.unfinished, member.left_with = nothing, max(member.left_with, unfinished)

    def _lately(self) -> list[Member]:
        now = time.monotonic()
        return [m for m in self._gone if now - (m.left_s or 0) < RECENT_S]

    # ------------------------------------------------------------------ what happens to them

    async def look(self, *, anew: bool = False) -> bool:
        """Ask the daemon for a fault, and take those who have left off the server, unless that was done just now.

        Whether it answered; those who have left wait for the next time where it did not.
        """
        async with self._asking:
            fresh = time.monotonic() - self._asked_s < FRESH_S and self._asked_of == self._server.server
            if fresh and not anew and not self._left:
                return not self.complaint
            left, self._left = self._left, []
            complaint = ""
            try:
                await self._look_for_fault()
                left = await self._take_off(left)
            except MpsError as error:
                complaint = str(error)
            self._left = [*left, *self._left][-self._most :]
            if complaint and complaint != self.complaint:
                _log.warning("MPS on %s %s", self._server.uuid, complaint)
            self.complaint, self._asked_s, self._asked_of = complaint, time.monotonic(), self._server.server
            return not complaint

    async def look_after(self) -> None:
        """As `look`, once who has left is off the server's list, until nobody more has left and nobody is left there."""
        pause = FRESH_S
        while self._left:
            await asyncio.sleep(pause)
            if self._left and not await self.look():
                return
            pause = min(2 * pause, LOOK_AGAIN_S)

    async def _take_off(self, left: list[Member]) -> list[Member]:
        """Of those who have left: who may still have to be taken off, and has to be looked at again.

        NVIDIA: a client that is killed with work on the GPU leaves the server in an undefined state, unless it is terminated there.
        """
        server = self._server.server
        listed = set(await self._server.control.clients(server)) if self._server.ready and left else set()
        again = []
        for member in left:
            now = time.monotonic()
            if member.pid not in listed:
                continue
            if began(member.pid) == member.started:  # the kernel is ending it, or it goes on without its connection
                if now - (member.left_s or now) < LEAVING_S:
                    again.append(member)
                continue
            member.gone_s = now if member.gone_s is None else member.gone_s
            patience = GONE_S + JOINING_S if self._somebody_joins(listed, now) else GONE_S
            if now - member.gone_s < patience:
                again.append(member)
            else:
                await self._terminate(server, member)
        return again

    def _somebody_joins(self, listed: set[int], now: float) -> bool:
        """Whether a program was let in and is not yet known to be a client: by the server's list, or by a page that it had from us."""
        return any(
            m.unfinished is nothing
            and m.pid not in listed
            and now - m.entered_s < JOINING_S
            and began(m.pid) == m.started
            for m in self._there.values()
        )

    async def _terminate(self, server: int, member: Member) -> None:
        self.terminating = True
        try:
            with suppress(MpsError):
                await self._server.control.terminate(server, member.pid)
                _log.info("job %s: its process %d, which is gone, was still a client of the MPS server: it is terminated there",
                          member.record.job, member.pid)  # fmt: skip
        finally:
            self.terminating = False

    async def _look_for_fault(self) -> None:
        """Also when nobody is there: whoever comes next must not be let into a server that is not ready."""
        if not self._server.ready:
            self._faulted = 0
            return
        server = self._server.server
        state = await self._server.control.status(server)
        if state != FAULT:
            self._faulted = 0
            if state not in (ACTIVE, UNKNOWN):
                self._server.doubt()
        elif self._faulted != server:
            self._faulted = server
            self._tell_of_fault()

    def _tell_of_fault(self) -> None:
        """The driver tells all clients the same and nobody whose fault it was: it was one that had work on the GPU."""
        there = [*self._there.values(), *self._lately()]
        at_work = sorted({m.record.job for m in there if (m.unfinished() if m.left_s is None else m.left_with) > 0})
        if len(at_work) == 1:
            whose = f"most probably of job {at_work[0]}, the only one with work on the GPU then"
        elif at_work:
            whose = f"of one of the jobs with work on the GPU then, {' and '.join(at_work)}"
        else:
            whose = "of which job is not known"
        self._tell(
            there, f"a fatal fault of one client of the GPU's MPS server, {whose}, ended the GPU work of all of them"
        )

    def tell_of_end(self, server: int) -> None:
        """The server has ended by itself."""
        self._tell(
            list(self._there.values()),
            f"the MPS server of its GPU (process {server}) ended, and with it the GPU work of its clients",
        )

    def _tell(self, members: list[Member], sentence: str) -> None:
        for record in {m.record.job: m.record for m in members}.values():
            self._say(record, sentence)
