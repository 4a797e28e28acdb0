"""Plans of jobs that have more memory than room on a GPU. fikitd.gpus.memory_budgets decides which client needs a plan and when. This module has a worker make
it, and writes it into the client's page, renews it and takes it back.

Whatever fails, the job goes on by page faults: one line of it is logged, and for SILENT_NS no other one of that job.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from fikitd.api.memory_story import MemoryPlan, Moves
from fikitd.base.protocol import PLAN_MOVE, PLAN_MOVES
from fikitd.clients.managed_client import Client
from fikitd.gpus.dispatchers import Dispatcher
from fikitd.gpus.link_rate import LinkRate
from fikitd.gpus.memory_budgets import (
    VALID_NS,
    Action,
    Ask,
    Drop,
    InPass,
    MemoryBudgets,
    Program,
    Renew,
    Send,
)
from fikitd.gpus.memory_outline import Outline, Planned
from fikitd.gpus.memory_turns import MovableJob
from fikitd.store.storage import Storage, reason
from fikitd.workers.allowance import Allowance
from fikitd.workers.pool import Call, Rights

_log = logging.getLogger("fikitd")

SINCE_PLANS: Final = 7  # version of the protocol
ACCESSES_BYTES: Final = 4 * 2**20  # packed: 16,384 launches with 15 places each
TIMEOUT_S: Final = 20.0  # a worker has 10 s of a processor
LOOK_NS: Final = 40_000_000  # between two looks, though turns that change are looked at more often
SILENT_NS: Final = 60_000_000_000
BURST_NS: Final = 60_000_000_000
"""Of each user's planning at once: an iteration of thousands of launches takes seconds."""
SHARE: Final = 0.1  # and of the time after that, whatever the user's programs do, and how often they are begun
MOST_PROCESSES: Final = 16  # of a job on a GPU: each has plans of up to 2 MiB here
GIB: Final = 2**30


@dataclass(frozen=True)
class _Member:
    """A client that may have a plan."""

    client: Client
    dispatcher: Dispatcher
    skipped: int  # moves that its shim skipped under the fikitd before this one


@dataclass
class _Gpu:
    """What the last look that was due has found."""

    budgets: MemoryBudgets = field(default_factory=MemoryBudgets)
    programs: list[Program] = field(default_factory=list)
    enough: dict[int, int] = field(default_factory=dict)  # by client, the bytes on the GPU with which it loses little
    jobs: set[int] = field(default_factory=set)
    several: set[int] = field(default_factory=set)  # jobs of several processes
    looked_ns: int = -LOOK_NS
    is_due: bool = False  # act() has something to do: the look before it was due


def _most_bytes(moves: Moves | None, since_ns: int) -> int:
    """The most memory that a client had at a time since a look, by its shim's word; None: it has no plan. In stream order the host may take and give back
    between two looks all that a pass needs, while the device has not begun with it."""
    return int(moves["most_bytes"]) if moves and moves["most_at_ns"] >= since_ns else 0


class MemoryPlans:
    """Of all GPUs. Only the event loop touches it."""

    def __init__(self, storage: Storage, work: Call, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        """work: runs a job of fikitd.workers.user_work in a worker."""
        self._storage, self._work, self._clock_ns = storage, work, clock_ns
        self._gpus: dict[str, _Gpu] = {}  # by place
        self._members: dict[int, _Member] = {}  # by client
        self._wanted: dict[int, tuple[_Member, Ask]] = {}  # by client, until its user's allowance lets a worker begin
        self._asking: dict[int, asyncio.Task[None]] = {}  # by client, the newest that a worker was asked for
        self._worked = Allowance(BURST_NS, SHARE)
        self._logged_ns: dict[int, int] = {}  # by job, when its newest failure was logged

    @property
    def busy(self) -> bool:
        """On some GPU the memory of all jobs does not fit: there are plans to make, to renew and to watch."""
        return any(not each.budgets.fits for each in self._gpus.values())

    def came(self, client: Client, dispatcher: Dispatcher) -> None:
        """From now on the client may have a plan."""
        if client.version >= SINCE_PLANS:
            skipped = int(dispatcher.plan_state(client.number)["skipped"])
            self._members[client.number] = _Member(client, dispatcher, skipped)

    def went(self, number: int) -> None:
        """The client leaves its dispatcher."""
        member = self._members.pop(number, None)
        if member is not None and (story := member.client.job.memory_story) is not None:
            story.plans_ended(number)
        self._ask_no_more(number)

    def look(
        self, place: str, room_bytes: int, total_bytes: int, seen: Sequence[MovableJob], link: LinkRate
    ) -> list[MovableJob]:
        """Looks at a GPU's jobs (`seen`), and returns them with how much memory on the GPU is enough for each process. Within LOOK_NS of the last look at the same
        jobs it returns the same. link: of this GPU; it is told the rates that shims have measured."""
        here = self._gpus.setdefault(place, _Gpu())
        now_ns = self._clock_ns()
        here.is_due = now_ns - here.looked_ns >= LOOK_NS or {each.job for each in seen} != here.jobs
        if here.is_due:
            before_ns, here.looked_ns = here.looked_ns, now_ns
            here.jobs = {each.job for each in seen}
            link.keep({process.client for job in seen for process in job.processes})
            here.programs = [program for job in seen for program in self._programs(job, link, before_ns)]
            planned = {each.job for each in here.programs}
            others_bytes = sum(job.bytes for job in seen if job.job not in planned)
            here.enough = here.budgets.needs(now_ns, room_bytes, total_bytes, here.programs, others_bytes)
        return [
            replace(job, processes=[replace(each, enough_bytes=here.enough.get(each.client)) for each in job.processes])
            for job in seen
        ]

    def act(self, place: str, seen: Sequence[MovableJob], away: Container[int], *, changing: bool) -> None:
        """Asks for plans, sends, renews and drops them, as the last look() at the GPU requires. away: clients whose turn it is not. changing: a turn is ending or
        beginning. Never raises."""
        here = self._gpus[place]
        if not here.is_due:
            return
        jobs = Counter(each.job for each in here.programs)
        here.several = {job for job, processes in jobs.items() if processes > 1}
        running = [job for job in seen if not any(each.client in away for each in job.processes)]
        others_bytes = sum(job.bytes for job in running if job.job not in jobs)
        at_work = [job.job for job in running]
        self._carry_out(here.budgets.due(self._clock_ns(), here.programs, at_work, others_bytes, changing=changing))
        self._begin_asking()
        for program in here.programs:
            self._note_plan(here.budgets, program)
        clients = {each.client for each in here.programs}
        for number, member in self._members.items():
            if member.client.place == place and number not in clients:
                self._note_no_plan(member)

    def nobody(self, place: str) -> None:
        """No client on this GPU may have a plan now, as where their job is on another GPU, too. The plans that they have end by themselves."""
        if self._gpus.pop(place, None) is None:
            return
        for number, member in self._members.items():
            if member.client.place == place:
                self._note_no_plan(member)
                self._ask_no_more(number)

    def forget(self, places: Iterable[str]) -> None:
        """Forgets all GPUs but these."""
        for gone in self._gpus.keys() - set(places):
            del self._gpus[gone]

    def _programs(self, job: MovableJob, link: LinkRate, before_ns: int) -> list[Program]:
        """A job's processes on the GPU; none where there are too many, or no shim of theirs carries a plan out. Together they have no more than the job
        was approved for. before_ns: of the last look."""
        if len(job.processes) > MOST_PROCESSES or not any(each.client in self._members for each in job.processes):
            return []
        found: list[Program] = []
        left = job.most_bytes
        for process in job.processes:
            member = self._members.get(process.client)
            moves = member.dispatcher.moves(process.client) if member else None
            bytes_ = min(max(process.movable_bytes, _most_bytes(moves, before_ns)), left)
            left -= bytes_
            if member is None or moves is None:
                found.append(Program(job.job, process.client, bytes_, None))
            else:
                found.append(self._program(member, job.job, bytes_, moves, link))
        return found

    def _program(self, member: _Member, job: int, bytes_: int, moves: Moves, link: LinkRate) -> Program:
        number = member.client.number
        inside = member.dispatcher.iteration(number)
        state = member.dispatcher.plan_state(number)
        of_both = state["bytes_per_s"]  # all that a shim before protocol 8 says
        link.said(self._clock_ns(), number, moves["in_per_s"] or of_both, moves["out_per_s"] or of_both)
        missed = int(moves["missed_bytes"])
        in_pass = None if inside is None or not bytes_ else InPass(*inside)
        return Program(job, number, bytes_, in_pass, state["refused"], missed, link.of(number))

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            member = self._members.get(action.client)
            if member is None:
                continue
            try:
                self._apply(member, action)
            except (ValueError, IndexError) as error:
                self._log_failure(member, error)
                self._gpus[member.client.place].budgets.refused(self._clock_ns(), action.client)

    def _note_plan(self, budgets: MemoryBudgets, program: Program) -> None:
        """Writes the program's plan into the job's memory story, for reports."""
        member, sent = self._members.get(program.client), budgets.sent(program.client)
        if member is None or (story := member.client.job.memory_story) is None:
            return
        if sent is None:
            self._note_no_plan(member)
            return
        planned, passes = sent
        skipped = max(int(member.dispatcher.plan_state(program.client)["skipped"]) - member.skipped, 0)
        plan = MemoryPlan(
            planned.budget_bytes, planned.peak_bytes, planned.moved_bytes, planned.stretch, passes, skipped
        )
        story.planned(program.client, plan)

    @staticmethod
    def _note_no_plan(member: _Member) -> None:
        if (story := member.client.job.memory_story) is not None:
            story.without_plan(member.client.number)

    def _apply(self, member: _Member, action: Action) -> None:
        """Raises ValueError or IndexError where the dispatcher does not take it, or the shim carries no plan out."""
        dispatcher, number, until_ns = member.dispatcher, action.client, self._clock_ns() + VALID_NS
        if isinstance(action, Ask):
            self._wanted[number] = member, action
        elif isinstance(action, Renew):
            dispatcher.renew_plan(number, action.first_launch, until_ns)
        elif isinstance(action, Drop):
            dispatcher.drop_plan(number)
        elif dispatcher.set_plan(number, action.first_launch, action.planned.launches, action.moves, until_ns) == 0:
            raise ValueError("its shim carries no plan out")
        else:
            self._log_sent(member, action)

    def _begin_asking(self) -> None:
        """Has workers begin what is wanted, except for users who have used up their allowance: their programs go on by the plans that they have, or by page faults."""
        now_ns = self._clock_ns()
        for number, (member, ask) in list(self._wanted.items()):
            if self._worked.wait_ns(member.client.record.uid, now_ns) == 0:
                del self._wanted[number]
                self._asking[number] = asyncio.ensure_future(self._ask(member, ask))

    def _ask_no_more(self, number: int) -> None:
        self._wanted.pop(number, None)
        if (task := self._asking.pop(number, None)) is not None:
            task.cancel()

    def _log_sent(self, member: _Member, sent: Send) -> None:
        planned, job = sent.planned, member.client.job.number
        whose = "its memory"
        if job in self._gpus[member.client.place].several:
            whose = f"the memory of its process {member.client.peer.pid}"
        _log.info(
            "job %s: %s has a plan: %.2f of %.2f GiB on the GPU, %d moves of %.2f GiB in each pass of %d launches over a link of %.1f GB/s in and %.1f out, expected to lose %.1f %%",
            member.client.record.job, whose, planned.budget_bytes / GIB, planned.peak_bytes / GIB, planned.moves, planned.moved_bytes / GIB,
            planned.launches, sent.link.in_bytes_per_s / 1e9, sent.link.out_bytes_per_s / 1e9, 100 * planned.stretch, extra={"uid": member.client.record.uid},
        )  # fmt: skip

    def _log_failure(self, member: _Member, error: Exception) -> None:
        job, now_ns = member.client.job.number, self._clock_ns()
        logged_ns = self._logged_ns.get(job)
        if logged_ns is None or now_ns - logged_ns >= SILENT_NS:
            self._logged_ns = {each: at_ns for each, at_ns in self._logged_ns.items() if now_ns - at_ns < SILENT_NS}
            self._logged_ns[job] = now_ns
            _log.info(
                "job %s: its memory has no plan: %s",
                member.client.record.job,
                reason(error),
                extra={"uid": member.client.record.uid},
            )

    async def _ask(self, member: _Member, ask: Ask) -> None:
        """Has a worker make an outline or a plan of the program's accesses, and tells the budgets what came of it. Never raises."""
        said: object = None
        answer = b""
        record, budgets = member.client.record, self._gpus[member.client.place].budgets
        began_ns = self._clock_ns()
        outline: Outline | None = None
        planned: Planned | None = None
        try:
            packed = await self._storage.run(
                record.uid, partial(member.dispatcher.packed_accesses, ask.client, ACCESSES_BYTES), TIMEOUT_S
            )
            if packed:
                arguments = {
                    "link_bytes_per_s": [ask.link.in_bytes_per_s, ask.link.out_bytes_per_s],
                    "room_bytes": ask.room_bytes,
                    "budget_bytes": ask.budget_bytes,
                }
                said, answer = await self._work(
                    Rights(record.uid, record.gid), "plan_memory", arguments,
                    chunks=[packed], timeout_s=TIMEOUT_S, answer_bytes=PLAN_MOVES * PLAN_MOVE.size,
                )  # fmt: skip
            if said is not None and ask.budget_bytes is None:
                outline = Outline.of(said)
            elif said is not None:
                planned = Planned.of(said)
        except (OSError, ValueError, IndexError, MemoryError) as error:
            self._log_failure(member, error)
        finally:  # without an answer the budgets ask again later
            self._worked.took(record.uid, self._clock_ns(), self._clock_ns() - began_ns)
            if ask.budget_bytes is None:
                budgets.outlined(self._clock_ns(), ask, outline)
            else:
                budgets.made(self._clock_ns(), ask, planned, answer)
