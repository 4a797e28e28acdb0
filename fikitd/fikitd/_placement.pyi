"""Which jobs share a GPU (fikitd/core/placement): pure rules. `fikitd.gpus.placement` is their public face.

Times are float seconds: of run time alone on a GPU, or from now on. Memory is shards, 1 GiB each. Arguments that cannot be raise ValueError
with one sentence.
"""

from collections.abc import Sequence
from enum import Enum
from math import inf

class Priorities(Enum):
    """Who goes first on a GPU: nobody (EQUAL), the first of a list before the second, and so on (ORDERED; where rests are known the shorter before
    the longer, in replay() and consider()); LISTED: by the list whatever the rests; AUTOMATIC: ORDERED, unless EQUAL makes the sum of ends smaller."""

    EQUAL = ...
    ORDERED = ...
    LISTED = ...
    AUTOMATIC = ...

class Device(Enum):
    """How processes share the GPU, which the closed form has constants for. ONE_QUEUE is no GPU: what the form was derived for."""

    ONE_QUEUE = ...
    SLICES = ...
    MPS = ...

class Slowdowns:
    """How much jobs slow each other on one GPU: measured pairs of kinds 0 to kinds - 1, and the closed form for everything else."""

    def __init__(self, kinds: int = 0, device: Device = ...) -> None: ...
    def measured(
        self, priorities: Priorities, first: int, second: int, slowdown_first: float, slowdown_second: float
    ) -> None:
        """A pair's completion times together / alone; with EQUAL both orders of the two."""
    def rates(self, priorities: Priorities, jobs: Sequence[tuple[float, int]]) -> list[float]:
        """Rate of each job, 1 = as alone, of (busy share 0 to 1, kind or -1), highest priority first; at most 16."""

class History:
    """Run times of earlier runs of one name, oldest first; the newest 64 are kept."""

    def __init__(self, runs_s: Sequence[float] = ()) -> None: ...
    def add(self, run_s: float) -> None: ...
    @property
    def runs(self) -> int: ...
    @property
    def median_s(self) -> float:
        """0 without a run."""
    def expected_rest_s(self, run_s: float, limit_s: float = inf) -> float:
        """E[T - t | T > t] at t = run_s over the runs that took longer; a job that outlived all is expected to take as long again; at most
        what the limit leaves. Without a run that, or infinity."""
    def expected_s(self, limit_s: float = inf) -> float:
        """The same before it starts."""
    def next_jump_s(self, run_s: float) -> float:
        """The run time at which expected_rest_s() jumps next: that of the next longer run, or infinity."""

class Couple:
    """Two jobs that share from now on: what each would still take alone, and its slowdown meanwhile (>= 1)."""

    def __init__(self, high_rest_s: float, low_rest_s: float, high_slowdown: float, low_slowdown: float) -> None: ...
    @property
    def shared_sum_s(self) -> float:
        """The sum of the times until each ends."""
    @property
    def shared_last_s(self) -> float:
        """Until the later one ends."""
    def gains(self, new_is_high: bool, wait_s: float) -> bool:
        """Is the sum smaller than when the new one of the two waits for the other's end, or for a GPU that is free in wait_s?"""

def new_should_be_high(new_high: Couple, running_high: Couple) -> bool:
    """Which order has the smaller sum; both are the same two jobs."""

class Resident:
    """A job as a choice sees it: expected rest alone, busy share, memory, row among measured pairs (-1: none)."""

    def __init__(self, rest_s: float, busy: float, shards: int = 1, kind: int = -1) -> None: ...
    @property
    def rest_s(self) -> float: ...
    @property
    def busy(self) -> float: ...
    @property
    def shards(self) -> int: ...
    @property
    def kind(self) -> int: ...

class Rules:
    """priorities: AUTOMATIC by default; where there is an order, the shorter expected rest goes first. most: jobs on a GPU, 0: as memory allows. must_gain: share only where the sum
    of ends becomes smaller than by waiting. waits_for_free: the new job could also wait for a free GPU. saved_worth: a
    second that the GPU is free sooner is worth so many seconds of those who come later. most_busy: the sum of busy shares may not
    be larger; 0: no such rule."""

    def __init__(
        self,
        *,
        priorities: Priorities = ...,
        most: int = 2,
        must_gain: bool = True,
        waits_for_free: bool = True,
        saved_worth: float = 0.0,
        most_busy: float = 0.0,
    ) -> None: ...
    @property
    def most(self) -> int: ...
    def with_most(self, most: int) -> Rules:
        """The same with another limit."""

class Verdict(Enum):
    """What an offer says; the first two accept."""

    IDLE = ...
    SHARES = ...
    NO_MEMORY = ...
    FULL = ...
    TOO_BUSY = ...
    SLOWER = ...

class Offer:
    """One GPU for one new job."""

    @property
    def verdict(self) -> Verdict: ...
    @property
    def accepted(self) -> bool: ...
    @property
    def end_s(self) -> float:
        """The new job's expected end, from now on."""
    @property
    def gain_s(self) -> float:
        """By how much the sum of all ends is smaller than by waiting, and what the GPU's time saved is worth (Rules.saved_worth)."""
    @property
    def slowdown_new(self) -> float:
        """At the beginning."""
    @property
    def slowdown_worst(self) -> float:
        """Of those who are there already, the worst, at the beginning."""

def overdue(submit_s: float, now_s: float, max_wait_s: float) -> bool:
    """Has a job waited so long that no shorter one may pass it? Such jobs are before all others, in the order in which they came."""

def replay(slowdowns: Slowdowns, priorities: Priorities, jobs: Sequence[Resident]) -> list[float]:
    """When each of at most 16 jobs ends that run on one GPU from now on, if nobody comes."""

def consider(
    slowdowns: Slowdowns,
    rules: Rules,
    job: Resident,
    residents: Sequence[Resident],
    free_shards: int,
    wait_s: float = inf,
) -> Offer:
    """May the job start beside the residents of a GPU with so many shards free? wait_s: until a GPU is expected to be free for it."""

def shards_for(peak_bytes: float) -> int:
    """Of a job whose runs needed so many bytes at most: a tenth more, rounded up, at least 1."""

def sub_batch(
    batch_1: int, peak_bytes_1: float, batch_2: int, peak_bytes_2: float, free_bytes: float, wanted_batch: int
) -> tuple[int, int]:
    """(samples at a time, steps of gradient accumulation) that fit into free_bytes, from two runs' peaks, memory = fixed + per_sample x batch;
    (0, 0): not even one sample fits."""

PATIENCE_S: float
"""Seconds that a job waits below others before it has its turn."""
TURN_S: float
"""How long a turn is, in which all are equal."""

class Contender:
    """A job of which it is chosen whether it goes first: its expected rest alone (infinity: nobody knows), busy share, what it has waited below others
    since it was first or had its turn, and whether it was there at the last choice. ValueError: a negative rest, a busy share beyond 0 to 1."""

    def __init__(self, rest_s: float, busy: float, waited_s: float = 0.0, is_new: bool = True) -> None: ...
    @property
    def rest_s(self) -> float: ...
    @property
    def waited_s(self) -> float: ...

class Precedence:
    """A choice; without arguments, that of nobody."""

    def __init__(self) -> None: ...
    @property
    def priorities(self) -> Priorities:
        """EQUAL or ORDERED."""
    @property
    def turn_s(self) -> float:
        """So long all stay equal, because one of them had waited for PATIENCE_S; 0: there is no turn."""
    def later(self, passed_s: float) -> Precedence:
        """The same so many seconds later."""

def choose(slowdowns: Slowdowns, contenders: Sequence[Contender], last: Precedence) -> tuple[Precedence, list[int]]:
    """Who of at most 16 jobs on one GPU goes first: the shorter expected rest, unless equal priorities make the sum of ends smaller; with
    hysteresis, and equal where a rest is not known. contenders: in the order of the last choice, new ones last. last: that choice as it is now
    (Precedence.later). Returns the choice and the order, as indices of contenders."""
