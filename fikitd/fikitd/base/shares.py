"""The one table of limits: how much of fikitd one job and one user may take, and how much there is in all (D19).

No user can reach what there is in all, so no user can keep another one out. `Places` counts; what is full says so in one sentence.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from fikitd import _core

# Places of a GPU that only jobs of priority 0 to URGENT get: however many users crowd it with lower jobs, a high one comes in.
URGENT: Final = 1


@dataclass(frozen=True)
class Limit:
    """At most so many `things` (a plural, as the sentence has it) at a time: in all, of one user, of one job.

    `kept`: of all, those for urgent ones only.
    """

    things: str
    all: int
    user: int
    job: int
    kept: int = 0


# Of one GPU: programs that are clients of its dispatcher. `all` is what the core has room for.
CLIENTS: Final = Limit("programs on this GPU", all=_core.MAX_CLIENTS, user=72, job=72, kept=48)
# Dispatchers, which are threads. A job's are those that Slurm gave it; a node of eight GPUs has 56 MIG instances at most.
GPUS: Final = Limit("GPUs", all=256, user=64, job=16)
# Open connections to the client socket, of clients and watchers; `all` and `user` are less where descriptors are few.
CONNECTIONS: Final = Limit("connections", all=4096, user=512, job=512)
# Those of programs that only watch their job's memory.
WATCHERS: Final = Limit("programs that watch GPU memory", all=1024, user=128, job=128)
# Requests to the control socket under way, and of those the ones that cost much.
REQUESTS: Final = Limit("requests under way", all=256, user=32, job=32)
HEAVY_REQUESTS: Final = Limit("traces under way", all=8, user=2, job=2)
# Bytes of kernel descriptions kept for connected clients; a program of 4096 kernels with long names has 2 MiB of them.
DESCRIPTIONS: Final = Limit("bytes of kernel descriptions", all=2**28, user=2**26, job=2**26)

# Bytes of fikitd's memory for journals, profiles, and what programs teach while they run, which is up to 60 MB for one that means
# no good. Where there are no more, nothing new is kept: predictions are as good as they were.
LEARNT: Final = Limit("bytes of what programs taught", all=2**27, user=2**25 + 2**24, job=2**25 + 2**24)

# Sentences in a job's report.
WARNINGS: Final = 50

DESCRIPTORS_PER_CONNECTION: Final = 6  # connection, page and doorbell here and in the core, notes
OTHER_DESCRIPTORS: Final = 192  # storage, dispatchers, requests, listeners
USERS_AT_LEAST: Final = 4  # so many have their whole share at the same time


def mps_clients(most: int) -> Limit:
    """Programs that are clients of one GPU's MPS server, which takes `most`."""
    share = max(1, most * 3 // 4)
    return Limit("MPS clients on this GPU", all=most, user=share, job=share, kept=most // 4)


def of_descriptors(limit: Limit, descriptors: int) -> Limit:
    """`limit` for a process that may have so many descriptors open."""
    room = max(USERS_AT_LEAST, (descriptors - OTHER_DESCRIPTORS) // DESCRIPTORS_PER_CONNECTION)
    there = min(limit.all, room)
    user = min(limit.user, there // USERS_AT_LEAST)
    return replace(limit, all=there, user=user, job=min(limit.job, user))


def connections() -> Limit:
    """CONNECTIONS, as far as this process has descriptors for them."""
    return of_descriptors(CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


class Rooms:
    """LEARNT, as the core counts it."""

    def __init__(self) -> None:
        self._all = _core.Room(LEARNT.all)
        self._users: dict[int, _core.Room] = {}

    def of(self, uid: int) -> _core.Room:
        return self._users.setdefault(uid, _core.Room(LEARNT.user, self._all))


class NoPlace(Exception):
    """There is no place left for this one; one sentence."""


class Places:
    """Who has how many of a limit's things now. Only the event loop touches it."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._users: Counter[int] = Counter()
        self._jobs: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        return self._users.total()

    def of_user(self, uid: int) -> int:
        return self._users[uid]

    def of_job(self, job: str) -> int:
        return self._jobs[job]

    def check(self, uid: int, job: str = "", count: int = 1, *, urgent: bool = True) -> None:
        """Raises NoPlace where `count` more would be too many."""
        limit = self.limit
        if job and self._jobs[job] + count > limit.job:
            raise NoPlace(f"job {job} has {self._jobs[job]} {limit.things} already, which is the limit for one job")
        if self._users[uid] + count > limit.user:
            raise NoPlace(f"uid {uid} has {self._users[uid]} {limit.things} already, which is the limit for one user")
        if self.taken + count > limit.all - (0 if urgent else limit.kept):
            raise NoPlace(f"there are {self.taken} {limit.things} already, which is the limit for all users together")

    def add(self, uid: int, job: str = "", count: int = 1) -> None:
        """`count` more, whether there is room or not; `remove` gives them back."""
        self._users[uid] += count
        if job:
            self._jobs[job] += count

    def remove(self, uid: int, job: str = "", count: int = 1) -> None:
        self._users[uid] -= count
        if self._users[uid] <= 0:
            del self._users[uid]
        self._jobs[job] -= count
        if self._jobs[job] <= 0:
            del self._jobs[job]

    @contextmanager
    def take(self, uid: int, job: str = "") -> Iterator[None]:
        """One place, as long as the block runs; NoPlace where there is none."""
        self.check(uid, job)
        self.add(uid, job)
        try:
            yield
        finally:
            self.remove(uid, job)
