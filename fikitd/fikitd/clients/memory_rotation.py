"""Jobs whose memory does not fit on a GPU together: those that can run with a part of it there have plans (memory_plans.py), the others take turns.
fikitd.gpus.memory_turns decides whose turn it is; this module tells the dispatchers.

Three kinds of jobs are never held: jobs that may have no memory on the host, high jobs, and jobs whose processes use several GPUs, which may wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from fikitd.clients.managed_client import Client
from fikitd.clients.memory_plans import MemoryPlans
from fikitd.config.oversubscribe import HIGHEST
from fikitd.gpus.dispatchers import Dispatcher
from fikitd.gpus.link_rate import LinkRate
from fikitd.gpus.memory import MemoryPage
from fikitd.gpus.memory_turns import MemoryTurns, MovableJob, Process, Step, Swap
from fikitd.gpus.residency import EpochRules
from fikitd.store.records import JobRecord

_log = logging.getLogger("fikitd")

LOOK_S: Final = 0.05  # between two looks
CHANGING_S: Final = 0.001  # the same while turns change: the end of each step is seen at most so late
PAUSES: Final = 4  # a pause is at least so many times as long as the look before it, which takes long with many clients
ALONE_S: Final = 0.5  # between two looks while no jobs take turns
AWAY_NS: Final = 3_000_000_000  # a client that is held is let go after so long where that is not renewed
SINCE_MOVES: Final = 6  # version of the protocol
S: Final = 1_000_000_000


class _Member(NamedTuple):
    client: Client
    dispatcher: Dispatcher
    memory: MemoryPage
    share: int


class MemoryRotation:
    """Of all GPUs. Only the event loop touches it."""

    def __init__(
        self,
        host_bytes: Callable[[JobRecord], int],
        memory_bytes: Callable[[str], int | None],
        epoch_s: int,
        plans: MemoryPlans,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """host_bytes: how much of a job's memory may lie on the host. memory_bytes: a GPU's memory, by its UUID; None: it is not known, and its clients' word
        counts. epoch_s: the least length of a turn."""
        self._host_bytes, self._memory_bytes, self._clock_ns = host_bytes, memory_bytes, clock_ns
        self._plans = plans
        self._rules = EpochRules(least_epoch_ns=epoch_s * S, patience_ns=2 * epoch_s * S, max_wait_ns=10 * epoch_s * S)
        self._members: dict[int, _Member] = {}
        self._places: dict[str, MemoryTurns] = {}
        self._links: dict[str, LinkRate] = {}
        self._away: set[int] = set()
        self._any_movable = asyncio.Event()  # there is a client whose memory may move
        self._look_ns = 0  # what the last look took

    def came(self, client: Client, dispatcher: Dispatcher, memory: MemoryPage, share: int) -> None:
        """A client has joined its dispatcher."""
        self._members[client.number] = _Member(client, dispatcher, memory, share)
        if self._may_move(client):
            self._plans.came(client, dispatcher)
            self._any_movable.set()

    def went(self, number: int) -> None:
        """A client leaves its dispatcher."""
        self._members.pop(number, None)
        self._plans.went(number)
        self._away.discard(number)

    def link_of(self, client: Client) -> tuple[float | None, float | None]:
        """What its plans are made for, bytes per second in and out, as moves have shown it; None: nothing has moved that way."""
        link = self._links.get(client.place)
        return (None, None) if link is None else link.measured(client.number)

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            await self._any_movable.wait()
            self.look()
            if not any(self._may_move(each.client) for each in self._members.values()):
                self._any_movable.clear()
            await asyncio.sleep(self._pause_s())

    def _pause_s(self) -> float:
        changing = any(turns.changing for turns in self._places.values())
        usual_s = CHANGING_S if changing else LOOK_S if self._places or self._plans.busy else ALONE_S
        return max(usual_s, PAUSES * self._look_ns / S)

    def look(self) -> None:
        """Does what is due now, on each GPU."""
        began_ns = self._clock_ns()
        places: dict[str, list[_Member]] = {}
        for member in self._members.values():
            places.setdefault(member.client.place, []).append(member)
        for gone in self._places.keys() - places.keys():
            del self._places[gone]
        for gone in self._links.keys() - places.keys():
            del self._links[gone]
        self._plans.forget(places)
        away: set[int] = set()
        for place, members in places.items():
            away |= self._look_at(place, members)
        for number in self._away - away:
            if (back := self._members.get(number)) is not None:
                back.dispatcher.send_away(number, 0)
        for number in away:
            self._members[number].dispatcher.send_away(number, AWAY_NS)
        self._away = away
        self._look_ns = self._clock_ns() - began_ns

    def _look_at(self, place: str, members: list[_Member]) -> set[int]:
        jobs: dict[int, list[_Member]] = {}
        for member in members:
            if self._may_move(member.client) and not self._is_elsewhere(member.client):
                jobs.setdefault(member.client.job.number, []).append(member)
        if not jobs:
            self._places.pop(place, None)
            self._plans.nobody(place)
            return set()
        seen = [_movable_job(number, processes, self._host_bytes) for number, processes in jobs.items()]
        total = self._total_bytes(members)
        moving = {each.client.number for processes in jobs.values() for each in processes}
        room = max(total - sum(_stays(each, each.client.number in moving, total) for each in members), 0)
        link = self._links.setdefault(place, LinkRate(self._rules.link))
        seen = self._plans.look(place, room, total, seen, link)
        away = self._take_turns(place, jobs, room, total, seen)
        turns = self._places.get(place)
        self._plans.act(place, seen, away, changing=turns is not None and turns.changing)
        return away

    def _take_turns(
        self, place: str, jobs: dict[int, list[_Member]], room: int, total: int, seen: list[MovableJob]
    ) -> set[int]:
        turns = self._places.get(place)
        if turns is None:
            if len(jobs) < 2:
                return set()
            turns = self._places[place] = MemoryTurns(self._rules, self._links[place])
        before = turns.swaps
        for goal in turns.look(self._clock_ns(), room, total, seen):
            member = self._members[goal.client]
            turns.told(goal.client, member.dispatcher.set_goal(goal.client, goal.bytes))
        if turns.newest is not None and turns.swaps != before:
            self._say(place, jobs, turns.newest)
        if turns.step is Step.FITS and len(jobs) < 2:
            del self._places[place]
        return turns.away(seen)

    def _say(self, place: str, jobs: dict[int, list[_Member]], swap: Swap) -> None:
        names = ", ".join(sorted(jobs[job][0].client.record.job for job in swap.running if job in jobs))
        _log.info("%s: %s", place, line_about(swap, names))

    def _may_move(self, client: Client) -> bool:
        record = client.job.record
        return (
            client.version >= SINCE_MOVES
            and not record.measure
            and record.priority >= HIGHEST
            and self._host_bytes(record) > 0
        )

    def _is_elsewhere(self, client: Client) -> bool:
        job = client.job.number
        return any(e.client.job.number == job and e.client.place != client.place for e in self._members.values())

    def _total_bytes(self, members: list[_Member]) -> int:
        """As NVML says it, or else the most important client."""
        first = min(members, key=lambda each: (each.client.record.priority, each.client.number)).client.device
        return self._memory_bytes(first.uuid) or first.memory_bytes


def line_about(swap: Swap, names: str) -> str:
    """For the log; `bench residency --live` reads it there."""
    return (
        f"after {swap.after_ns / S:.3f} s it is the turn of the memory of job {names} for {swap.length_ns / S:.3f} s at least; the change took "
        f"{swap.took_ns / S:.3f} s: granted work ended within {swap.stop_ns / S:.3f} s, then {swap.moved_bytes / 2**20:.1f} MiB were moved; "
        f"it was reckoned at {swap.reckoned_ns / S:.3f} s"
    )


def _stays(member: _Member, may_move: bool, most: int) -> int:
    """How much of its memory cannot leave the GPU; `most` bounds what it says."""
    held = member.memory.plain_by(member.share) if may_move else member.memory.held_by(member.share)
    return min(held, most)


def _movable_job(number: int, members: list[_Member], host_bytes: Callable[[JobRecord], int]) -> MovableJob:
    record = members[0].client.job.record
    processes = []
    for client, dispatcher, _, _ in members:
        moves = dispatcher.moves(client.number)
        at_gate, busy, launches = dispatcher.standing(client.number)
        processes.append(
            Process(
                client.number,
                moves["movable_bytes"],
                moves["resident_bytes"],
                moves["reached"],
                at_gate,
                busy,
                launches,
            )
        )
    return MovableJob(number, processes, record.mem_bytes + host_bytes(record), lambda: _gpu_time_ns(members))


def _gpu_time_ns(members: list[_Member]) -> int | None:
    """Device time of all their launches. Adding it up takes some 100 us for each process."""
    times = [dispatcher.stats(client.number)["gpu_time_ns"] for client, dispatcher, _, _ in members]
    return None if None in times else int(sum(each or 0.0 for each in times))
