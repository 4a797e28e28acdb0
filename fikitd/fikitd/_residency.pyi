"""Whose memory is on the GPU (fikitd/core/residency): pure rules. `fikitd.gpus.residency` is their public face.

Times are int ns, memory is bytes, or chunks: pieces of a job's memory that move as a whole. Arguments that cannot be raise ValueError with one
sentence.
"""

from collections.abc import Sequence as Items
from enum import Enum

class Tenant:
    """A lower job as the choice of an epoch sees it. bytes: that it needs on the GPU to run without misses. work: device time per unit of time that it
    is predicted to use while it runs, 0 to 1. waited_ns: since it ran last. runs: it was chosen for the epoch that ends. ran_ns: of one that runs,
    since it came to run."""

    def __init__(
        self,
        bytes: int,
        resident_bytes: int = 0,
        work: float = 1.0,
        waited_ns: int = 0,
        runs: bool = False,
        ran_ns: int = 0,
    ) -> None: ...
    @property
    def bytes(self) -> int: ...
    @property
    def resident_bytes(self) -> int: ...
    @property
    def work(self) -> float: ...
    @property
    def waited_ns(self) -> int: ...
    @property
    def runs(self) -> bool: ...
    @property
    def ran_ns(self) -> int: ...

class EpochRules:
    """beside_ns: of a change, beside what the link needs for its bytes. most_lost: share of the time that changes may take. hysteresis: how much more a newcomer must be worth. patience_ns: a wait that doubles what a
    tenant's work counts. max_wait_ns: one that has waited so long goes first."""

    def __init__(
        self,
        *,
        link: Link = ...,
        beside_ns: int = 0,
        most_lost: float = 0.10,
        hysteresis: float = 0.10,
        least_epoch_ns: int = 30_000_000_000,
        patience_ns: int = 60_000_000_000,
        max_wait_ns: int = 300_000_000_000,
    ) -> None: ...
    @property
    def link(self) -> Link: ...
    @property
    def beside_ns(self) -> int: ...
    @property
    def most_lost(self) -> float: ...
    @property
    def hysteresis(self) -> float: ...
    @property
    def least_epoch_ns(self) -> int: ...
    @property
    def patience_ns(self) -> int: ...
    @property
    def max_wait_ns(self) -> int: ...

class Move:
    """Bytes of a tenant. inward: from the host to the GPU. ahead: while those of the old epoch still run, into room that is free or that tenants of
    neither epoch make."""

    @property
    def tenant(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def inward(self) -> bool: ...
    @property
    def ahead(self) -> bool: ...

class Epoch:
    """runs: numbers of the tenants that run. moves: in the order in which they are made. swap_ns: what those take that are not made ahead,
    and beside_ns. length_ns:
    for so long the chosen run after them."""

    @property
    def runs(self) -> list[int]: ...
    @property
    def moves(self) -> list[Move]: ...
    @property
    def swap_ns(self) -> int: ...
    @property
    def length_ns(self) -> int: ...

def next_epoch(rules: EpochRules, room_bytes: int, tenants: Items[Tenant]) -> Epoch:
    """Who runs next, of tenants that do not all fit into room_bytes. One with more bytes than room never runs."""

def longest_wait_ns(rules: EpochRules, room_bytes: int, tenants: int) -> int:
    """No tenant that has work and fits waits longer than this for its turn, of so many tenants."""

class Sequence:
    """One iteration of a program, kernel by kernel; a pause is a kernel that touches nothing."""

    def __init__(self) -> None: ...
    def add(self, duration_ns: int, touched: Items[int], freed: Items[int] = ...) -> None:
        """The next kernel. freed: chunks whose content nobody needs once it has run, until another kernel touches them."""

    @property
    def kernels(self) -> int: ...
    @property
    def chunks(self) -> int:
        """The largest number of one, plus 1."""

    @property
    def total_ns(self) -> int: ...

class Link:
    """One direction at a time: in is from the host to the GPU. out_bytes_per_s: None: as in_bytes_per_s. lead_ns: so much earlier than it is needed a
    chunk is back. Links of the same numbers are equal."""

    def __init__(
        self, in_bytes_per_s: float = 24e9, out_bytes_per_s: float | None = None, lead_ns: int = 0
    ) -> None: ...
    @property
    def in_bytes_per_s(self) -> float: ...
    @property
    def out_bytes_per_s(self) -> float: ...
    @property
    def both_bytes_per_s(self) -> float:
        """Of as many bytes in as out, moved one behind the other."""

    def times(self, factor: float) -> Link:
        """One that is so many times as fast."""

    @property
    def lead_ns(self) -> int: ...

class Lane:
    """The link as a timetable of one period, around which it repeats. A part of plan(), here for its own test."""

    def __init__(self, period_ns: int) -> None: ...
    def earliest(self, from_ns: int, until_ns: int, length_ns: int) -> int | None:
        """Begin of a free time within [from_ns, until_ns), at most a period long; None: there is none."""
    def latest(self, from_ns: int, until_ns: int, length_ns: int) -> int | None: ...
    def take(self, begin_ns: int, length_ns: int) -> None:
        """Of a free time."""
    def give_back(self, begin_ns: int, length_ns: int) -> None:
        """Back what was taken."""

class Transfer:
    """A copy of one chunk in every iteration: delay_ns after the end of `kernel`, begin_ns from the iteration's beginning as it was learnt."""

    @property
    def chunk(self) -> int: ...
    @property
    def inward(self) -> bool: ...
    @property
    def kernel(self) -> int: ...
    @property
    def delay_ns(self) -> int: ...
    @property
    def begin_ns(self) -> int: ...

class BudgetPlan:
    """peak_bytes: on the GPU at most while a kernel runs. moved_bytes: of one iteration, both directions. stretch: share by which an iteration becomes
    longer. fits: the peak is within the budget. steady: each iteration leaves the memory as the next one needs it."""

    @property
    def transfers(self) -> list[Transfer]: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def moved_bytes(self) -> int: ...
    @property
    def stretch(self) -> float: ...
    @property
    def fits(self) -> bool: ...
    @property
    def steady(self) -> bool: ...

def plan(sequence: Sequence, link: Link, chunk_bytes: int, budget_bytes: int) -> BudgetPlan:
    """Which chunk leaves when, and comes back when, so that no more than budget_bytes are on the GPU while a kernel runs."""

def peak_bytes(sequence: Sequence, chunk_bytes: int) -> int:
    """Without any transfer."""

def least_bytes(sequence: Sequence, chunk_bytes: int) -> int:
    """The most that one kernel touches: no budget is smaller."""

class Again(Enum):
    """Why a plan is made anew: the iteration takes 30 % more or less, 5 % of the bytes touched were missing, another budget."""

    NO = ...
    DRIFT = ...
    MISSES = ...
    BUDGET = ...

def plan_again(
    *,
    planned_iteration_ns: int,
    planned_budget_bytes: int,
    iteration_ns: int,
    touched_bytes: int,
    missed_bytes: int,
    budget_bytes: int,
) -> Again: ...
def share_room(jobs: Items[Items[tuple[int, float]]], room_bytes: int) -> list[int]:
    """Of each job's (budget in bytes, what it loses with that) the number of the one that it gets, so that all fit together and as little as possible is
    lost in all; empty: not even the smallest fit."""
