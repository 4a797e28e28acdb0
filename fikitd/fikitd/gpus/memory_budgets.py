"""Budgets of jobs whose memory has less room on a GPU than it needs (docs/design/residency.md, case B): how much each has, when its plan is asked for,
sent, anchored anew and taken back. For one GPU. Pure: it is told what there is and what time it is, and says what to do.

Plans are made elsewhere (profiles/memory_plan.py), in a worker process with the user's rights, so its answers are checked and trusted no more than the user.
A job without a plan goes on by page faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple

from fikitd.gpus.link_rate import is_another
from fikitd.gpus.memory_division import Option, divide, shares
from fikitd.gpus.memory_outline import MOST_POINTS, Outline, Planned, Point
from fikitd.gpus.residency import Again, Link, plan_again

MOST_LOST: Final = 0.10  # of a job's work, by its plan, where it shares the room with others
MOVING_COSTS: Final = 0.01
"""Of a job's time, where its moves take all of the link's: of two budgets that cost the program nothing, the one that moves less."""
MARGIN: Final = (
    64  # 1 / MARGIN of the room is left free: the last pieces of allocations, and what others take for a moment
)
ROOM_STEPS: Final = 64
"""Rooms are rounded to 1 / ROOM_STEPS of the GPU's memory, so that a plan holds while others allocate and free."""
REMEMBERED_NS: Final = 10_000_000_000
"""For so long memory that a program has given back counts as its own, and a program that has left its iteration as being in it."""
LOOKED_AT: Final = 0.95  # share of an iteration's launches whose accesses must be known before there is a plan
VALID_NS: Final = 3_000_000_000  # a plan that is not renewed ends after so long
RENEW_NS: Final = 1_000_000_000
FIRST_AGAIN_NS: Final = 2_000_000_000
"""The wait after a first failure, or before a plan is made anew; it doubles each time, ..."""
LAST_AGAIN_NS: Final = 300_000_000_000  # ... up to this,
LOOK_NS: Final = 8_000_000_000  # ... or to this where only too few launches have been looked at,
CALM_NS: Final = 60_000_000_000  # ... and is the first one again after so long without a reason to wait
OBSERVED: Final = 8  # passes under a plan before they are compared with it


class InPass(NamedTuple):
    """The iteration that a program is in, as its dispatcher has it. first_launch: of the pass that runs now. latest_ns: what its newest pass took; 0: not
    known."""

    path: str
    launches: int
    first_launch: int
    latest_ns: int


@dataclass(frozen=True)
class Program:
    """A process of a job on the GPU. inside: None where it is in no iteration, or its shim carries no plan out. refused, missed_bytes: its shim's counts since
    it began. link: for its plans."""

    job: int
    client: int
    bytes: int
    inside: InPass | None
    refused: int = 0
    missed_bytes: int = 0
    link: Link = field(default_factory=Link)


class Ask(NamedTuple):
    """A worker is to plan its accesses for a budget; budget_bytes None: to say what each budget would cost in that room."""

    client: int
    path: str
    room_bytes: int
    budget_bytes: int | None
    link: Link


class Send(NamedTuple):
    client: int
    planned: Planned
    moves: bytes
    first_launch: int
    link: Link


class Renew(NamedTuple):
    """first_launch: passes begin there from now on; None: as before."""

    client: int
    first_launch: int | None


class Drop(NamedTuple):
    client: int


Action = Ask | Send | Renew | Drop


def _kept(budget_bytes: int, most_bytes: int, outline: Outline | None) -> int:
    """What a client has on the GPU with that budget: also memory that no launch is known to touch and no plan sends away."""
    beyond = most_bytes - outline.peak_bytes - outline.idle_bytes if outline else 0
    return min(budget_bytes + max(beyond, 0), most_bytes)


@dataclass
class _Sent:
    planned: Planned
    keeps_bytes: int  # on the GPU
    first_launch: int
    renewed_ns: int
    refused: int
    missed_bytes: int
    passes: int = 0
    mean_ns: float = 0.0
    expected_ns: int = 0


@dataclass
class _Wait:
    """Before something is tried again; each time twice as long."""

    until_ns: int = 0
    length_ns: int = FIRST_AGAIN_NS

    def begin(self, now_ns: int, most_ns: int = LAST_AGAIN_NS) -> None:
        if now_ns - self.until_ns >= CALM_NS:
            self.length_ns = FIRST_AGAIN_NS
        self.until_ns, self.length_ns = now_ns + min(self.length_ns, most_ns), min(2 * self.length_ns, LAST_AGAIN_NS)


@dataclass
class _Known:
    """What is remembered of a client."""

    most_bytes: int = 0  # the most memory that it lately had
    since_ns: int = 0  # when that was
    share_bytes: int = 0  # of the room, in proportion to what its job's processes have
    inside_ns: int | None = None  # when it was last in an iteration, that of the outline where there is one
    failed: bool = False  # it was asked for an outline, and none came
    outline: Outline | None = None
    enough: int | None = None  # the smallest budget by which it loses little, where that is less than it has
    room_bytes: int = 0  # for which the outline was made
    link: Link = field(default_factory=Link)  # the same
    made: dict[int, tuple[Planned, bytes]] = field(default_factory=dict)  # plans by budget, of the outline's path
    asked: Ask | None = None  # under way
    sent: _Sent | None = None
    wanted: int | None = None  # its budget; None: it needs no plan
    path: str = ""  # of `made` and `usual_ns`
    usual_ns: int = 0  # what a pass takes, where that was found to differ from the plan
    wait: _Wait = field(default_factory=_Wait)  # before anything is asked for, or a plan sent
    anew: _Wait = field(default_factory=_Wait)  # before a plan is made anew
    old: _Wait = field(default_factory=_Wait)  # before an outline is made anew for another room or link
    passes: int = 0  # under all plans before the newest


def _keeps(known: _Known) -> int:
    """What a program without a usable outline has on the GPU: what the plan that was sent keeps, or all."""
    return known.most_bytes if known.sent is None else min(known.sent.keeps_bytes, known.most_bytes)


def _steady(now_bytes: int, before_bytes: int, step_bytes: int) -> int:
    """now_bytes, rounded down to a step; the value before where the two are less than two steps apart."""
    if before_bytes <= now_bytes < before_bytes + 2 * step_bytes:
        return before_bytes
    return now_bytes // step_bytes * step_bytes


@dataclass
class MemoryBudgets:
    """Of one GPU."""

    fits: bool = True  # all memory fits, and no plan is needed
    _known: dict[int, _Known] = field(default_factory=dict)  # by client
    _several: bool = False  # several jobs have memory that may leave the GPU
    _room_bytes: int = 0
    _chosen: tuple[Any, ...] = ()  # the input of the newest choice of budgets

    # ---- what each job needs

    def needs(
        self, now_ns: int, room_bytes: int, total_bytes: int, programs: Sequence[Program], others_bytes: int
    ) -> dict[int, int]:
        """By client, how much of its memory is enough: what it has on the GPU by a plan that costs it little, or by the one that was sent. Only of clients with
        a plan that can be in force from their next launch on. programs: all processes of their jobs on the GPU, those of a job next to each other.
        others_bytes: what other jobs have of the room."""
        usable = max(room_bytes - room_bytes // MARGIN, 0)
        self._room_bytes = _steady(usable, self._room_bytes, max(total_bytes // ROOM_STEPS, 1))
        for gone in self._known.keys() - {each.client for each in programs}:
            del self._known[gone]
        for program in programs:
            self._notice(now_ns, program, self._known.setdefault(program.client, _Known()))
        self.fits = others_bytes + sum(self._known[each.client].most_bytes for each in programs) <= room_bytes
        self._several = len({each.job for each in programs}) > 1 or others_bytes > 0
        if self.fits:
            return {}
        for _, job in groupby(programs, key=lambda each: each.job):
            self._share(now_ns, list(job))
        found = {each.client: self._enough(each, self._known[each.client]) for each in programs}
        return {client: enough for client, enough in found.items() if enough is not None}

    @staticmethod
    def _notice(now_ns: int, program: Program, known: _Known) -> None:
        if program.bytes >= known.most_bytes or now_ns - known.since_ns >= REMEMBERED_NS:
            known.most_bytes, known.since_ns = program.bytes, now_ns
        path = None if known.outline is None else known.outline.path
        if program.inside is not None and path in {None, program.inside.path}:
            known.inside_ns = now_ns

    @staticmethod
    def _iterates(now_ns: int, known: _Known) -> bool:
        return known.inside_ns is not None and now_ns - known.inside_ns < REMEMBERED_NS

    def _usable(self, now_ns: int, known: _Known) -> Outline | None:
        """The outline by which a program can be planned; None: it cannot, and has all that it needs at its peak."""
        return known.outline if self._iterates(now_ns, known) else None

    def _share(self, now_ns: int, job: Sequence[Program]) -> None:
        """Divides the room among a job's processes; those that cannot be planned keep all of their memory."""
        own = [self._known[each.client] for each in job]
        if len(own) == 1:
            own[0].share_bytes = self._room_bytes
            return
        able = [each for each in own if self._iterates(now_ns, each) and not (each.failed and each.outline is None)]
        kept = sum(each.most_bytes for each in own) - sum(each.most_bytes for each in able)
        for known, share in zip(
            able, shares(max(self._room_bytes - kept, 0), [each.most_bytes for each in able]), strict=True
        ):
            known.share_bytes = _steady(share, known.share_bytes, max(known.most_bytes // ROOM_STEPS, 1))

    @staticmethod
    def _enough(program: Program, known: _Known) -> int | None:
        """Counts on a plan that is made, which is sent before the job's next launch, or on one that was sent, which is renewed then."""
        path = None if program.inside is None else program.inside.path
        outline = known.outline if known.outline and known.outline.path == path else None
        options = [point for point in outline.points if point.stretch <= MOST_LOST] if outline else []
        kept = [_kept(point.budget_bytes, known.most_bytes, outline) for point in options if outline]
        known.enough = options[0].budget_bytes if kept and kept[0] < known.most_bytes else None
        if outline is not None and known.enough in known.made:
            return min(kept[0], program.bytes)
        if known.sent is not None and known.sent.planned.path == path:
            return min(known.sent.keeps_bytes, program.bytes)
        return None

    # ---- what is due

    def due(
        self,
        now_ns: int,
        programs: Sequence[Program],
        running: Iterable[int],
        others_bytes: int,
        *,
        changing: bool = False,
    ) -> list[Action]:
        """What is to be done about the programs that needs() was told. running: jobs that may launch now. others_bytes: what other running jobs have of the
        room. changing: a turn is ending or beginning, and budgets stay as they are."""
        if self.fits:
            return [action for each in programs for action in self._drop(each.client, self._known[each.client])]
        at_work = set(running)
        own = [each for each in programs if each.job in at_work]
        if not changing:
            self._choose(now_ns, own, others_bytes)
        actions: list[Action] = []
        for program in own:
            actions += self._act(now_ns, program, self._known[program.client])
        return actions

    def _choose(self, now_ns: int, own: Sequence[Program], others_bytes: int) -> None:
        known = [self._known[each.client] for each in own]
        usable = [self._usable(now_ns, each) for each in known]
        key = (
            self._room_bytes,
            others_bytes,
            [(e.client, k.most_bytes, o, o is None and _keeps(k)) for e, k, o in zip(own, known, usable, strict=True)],
        )
        if key == self._chosen:
            return
        self._chosen = key
        alone = len({each.job for each in own}) == 1 and not others_bytes
        jobs: list[list[list[tuple[Point, Option]]]] = []
        for _, job in groupby(zip(own, known, usable, strict=True), key=lambda each: each[0].job):
            jobs.append([self._options(k, outline, alone=alone) for _, k, outline in job])
        room = max(self._room_bytes - others_bytes, 0)
        chosen = divide(room, [[[option for _, option in process] for process in job] for job in jobs])
        for each in known:
            each.wanted = None
        if chosen is None:
            return
        options = [
            process[which] for job, of in zip(jobs, chosen, strict=True) for process, which in zip(job, of, strict=True)
        ]
        for each, outline, (point, _) in zip(known, usable, options, strict=True):
            if outline is not None and point.budget_bytes < each.most_bytes:
                each.wanted = point.budget_bytes

    @staticmethod
    def _options(known: _Known, outline: Outline | None, *, alone: bool) -> list[tuple[Point, Option]]:
        """Points, and what each needs and costs. alone: the job is the only one, and is planned for the room there is, whatever that costs. A program without
        an outline has all of its memory, or what its plan keeps."""
        most = known.most_bytes
        if outline is None:
            keeps = _keeps(known)
            return [(Point(keeps, 0.0, 0), Option(keeps, 0.0))]
        link_bytes = known.link.both_bytes_per_s * outline.length_ns / 1e9  # that it moves meanwhile
        found = [
            (
                point,
                Option(
                    point.budget_bytes if alone else _kept(point.budget_bytes, most, outline),
                    point.stretch + MOVING_COSTS * point.moved_bytes / link_bytes,
                ),
            )
            for point in outline.points
            if _kept(point.budget_bytes, most, outline) < most and (alone or point.stretch <= MOST_LOST)
        ]
        return [*found, (Point(most, 0.0, 0), Option(most, 0.0))]

    def _act(self, now_ns: int, program: Program, known: _Known) -> list[Action]:
        inside = program.inside
        if inside is None or not self._goes_well(now_ns, program, known):
            return self._drop(program.client, known)
        outline = known.outline
        if outline is None or outline.path != inside.path:  # the plan that it has holds until there is another one
            return self._ask(now_ns, program, inside, known, None) + self._renew(now_ns, program.client, inside, known)
        is_old = known.room_bytes != known.share_bytes or is_another(known.link, program.link)
        asks = self._ask(now_ns, program, inside, known, None) if is_old and now_ns >= known.old.until_ns else []
        if asks:
            known.old.begin(now_ns)
        if known.wanted is not None and known.wanted not in known.made:
            asks = asks or self._ask(now_ns, program, inside, known, known.wanted)
        if self._several and known.enough is not None and known.enough not in known.made:
            asks = asks or self._ask(now_ns, program, inside, known, known.enough)
        if known.wanted is None:
            return asks + self._drop(program.client, known)
        made = self._best(known)
        if made is not None and (known.sent is None or known.sent.planned is not made[0]):
            return asks + self._send(now_ns, program, inside, known, made)
        return asks + self._renew(now_ns, program.client, inside, known)

    @staticmethod
    def _best(known: _Known) -> tuple[Planned, bytes] | None:
        """The plan to send now: the wanted one, or, until that is made, one that keeps no more. None: it keeps what it has."""
        wanted, enough = known.wanted or 0, known.enough or 0
        if wanted in known.made or (known.sent is not None and known.sent.planned.budget_bytes <= wanted):
            return known.made.get(wanted)
        return known.made.get(enough) if enough <= wanted else None

    def _ask(self, now_ns: int, program: Program, inside: InPass, known: _Known, budget: int | None) -> list[Action]:
        if known.asked is not None or now_ns < known.wait.until_ns:
            return []
        link = known.link if budget else program.link  # a plan is made for the outline's
        known.asked = Ask(program.client, inside.path, known.share_bytes, budget, link)
        return [known.asked]

    def _send(
        self, now_ns: int, program: Program, inside: InPass, known: _Known, made: tuple[Planned, bytes]
    ) -> list[Action]:
        gone = self._drop(program.client, known)
        if (
            now_ns < known.wait.until_ns or made[0].launches != inside.launches
        ):  # the worker may have said anything: the same path has as many
            return gone
        expected_ns = known.usual_ns or int(made[0].length_ns * (1 + made[0].stretch))
        known.sent = _Sent(
            made[0],
            _kept(made[0].budget_bytes, known.most_bytes, known.outline),
            inside.first_launch,
            now_ns,
            program.refused,
            program.missed_bytes,
            expected_ns=expected_ns,
        )
        return [Send(program.client, *made, inside.first_launch, known.link)]

    @staticmethod
    def _renew(now_ns: int, client: int, inside: InPass, known: _Known) -> list[Action]:
        sent = known.sent
        if sent is None:
            return []
        if sent.planned.path != inside.path:
            return MemoryBudgets._drop(client, known)
        moved_on = inside.first_launch - sent.first_launch
        if moved_on % sent.planned.launches:
            sent.first_launch, sent.renewed_ns = inside.first_launch, now_ns
            return [Renew(client, inside.first_launch)]
        if now_ns - sent.renewed_ns < RENEW_NS:
            return []
        sent.renewed_ns = now_ns
        return [Renew(client, None)]

    @staticmethod
    def _drop(client: int, known: _Known) -> list[Action]:
        if known.sent is None:
            return []
        known.passes += known.sent.passes
        known.sent = None
        return [Drop(client)]

    # ---- whether it goes as planned

    def _goes_well(self, now_ns: int, program: Program, known: _Known) -> bool:
        """False: the driver has refused the plan that was sent. A plan that differs from what happens is made anew. Both ever more rarely."""
        sent, inside = known.sent, program.inside
        if sent is None or inside is None or inside.path != sent.planned.path:
            return True
        passes = (inside.first_launch - sent.first_launch) // sent.planned.launches
        if passes > sent.passes and inside.latest_ns:
            sent.mean_ns += (inside.latest_ns - sent.mean_ns) / min(max(passes, 1), OBSERVED)
        sent.passes = max(passes, sent.passes)
        if program.refused > sent.refused:
            known.outline, known.made, known.wanted = None, {}, None
            known.wait.begin(now_ns)
            return False
        if sent.passes >= OBSERVED and now_ns >= known.anew.until_ns:
            more_is_known = known.outline is not None and known.outline.looked_at < 1.0
            if (again := self._again(sent, program)) is not Again.NO or more_is_known:
                known.outline, known.made = None, {}
                known.usual_ns = int(sent.mean_ns) if again is Again.DRIFT else known.usual_ns
                known.anew.begin(now_ns)
        return True

    @staticmethod
    def _again(sent: _Sent, program: Program) -> Again:
        missed = max(program.missed_bytes - sent.missed_bytes, 0) // sent.passes
        return plan_again(
            planned_iteration_ns=sent.expected_ns, planned_budget_bytes=sent.planned.budget_bytes, iteration_ns=int(sent.mean_ns),
            touched_bytes=sent.planned.peak_bytes, missed_bytes=missed, budget_bytes=sent.planned.budget_bytes,
        )  # fmt: skip

    # ---- what came of what was asked

    def outlined(self, now_ns: int, ask: Ask, outline: Outline | None) -> bool:
        """The answer to `ask`; None: it failed, or there is nothing to plan. Returns whether it is of use."""
        known = self._known.get(ask.client)
        if known is None or known.asked != ask:
            return False
        known.asked = None
        known.failed = outline is None or outline.path != ask.path
        if outline is None or outline.path != ask.path:
            known.wait.begin(now_ns)
            return False
        if outline.looked_at < LOOKED_AT:
            known.wait.begin(now_ns, LOOK_NS)
            return False
        if known.path != outline.path or known.link != ask.link:
            known.made, known.path, known.usual_ns = {}, outline.path, 0
        known.outline, known.room_bytes, known.link = outline, ask.room_bytes, ask.link
        return True

    def made(self, now_ns: int, ask: Ask, planned: Planned | None, moves: bytes) -> bool:
        """The answer to `ask`; None: it failed, or no plan keeps the budget. Returns whether it is of use."""
        known = self._known.get(ask.client)
        if known is None or known.asked != ask or ask.budget_bytes is None:
            return False
        known.asked = None
        fitting = planned is not None and (planned.path, planned.budget_bytes) == (ask.path, ask.budget_bytes)
        if planned is None or not fitting or known.outline is None or known.outline.path != ask.path:
            known.wait.begin(now_ns)
            return False
        if len(known.made) >= MOST_POINTS:
            known.made = {}
        known.made[ask.budget_bytes] = planned, moves
        return True

    def refused(self, now_ns: int, client: int) -> None:
        """The client's plan could not be written: its shim carries none out, or the plan was invalid."""
        if (known := self._known.get(client)) is not None:
            self._drop(client, known)
            known.outline, known.made, known.wanted = None, {}, None
            known.wait.begin(now_ns)

    def sent(self, client: int) -> tuple[Planned, int] | None:
        """The client's plan, and how many passes it has gone by this and earlier plans; None: it has none."""
        known = self._known.get(client)
        if known is None or known.sent is None:
            return None
        return known.sent.planned, known.passes + known.sent.passes
