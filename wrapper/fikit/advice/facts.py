"""What advice rests on. Times are seconds from now or of run time alone, memory is shards (GiB) unless a name says bytes; None: not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from fikitd.api.outcomes import name_key
from fikitd.history import Known
from fikitd.history.pairs import Name, Pair

from fikit.api.job_report import TypedReport

ASSUMED_BUSY: Final = 0.5


@dataclass(frozen=True)
class Expectation:
    """How long it still runs; `source` as fikitd.history.Rest has it, "nothing" where not even a limit is known (then `rest_s` is inf)."""

    rest_s: float = inf
    source: str = "nothing"
    runs: int = 0


@dataclass(frozen=True)
class Busy:
    """Share of the time alone in which the device works. source: "name" (runs of it), "cluster" (what is usual here), "assumed"."""

    share: float = ASSUMED_BUSY
    source: str = "assumed"


@dataclass(frozen=True)
class Neighbour:
    """A job that runs. `uid` None: the caller may not see whose. priority None: not known here. longest_kernel_s: of own jobs' profiles only.
    name: name_key() of its name.
    """

    job: str
    uid: int | None
    shards: int
    expected: Expectation
    busy: Busy = Busy()
    priority: int | None = None
    whole: bool = False  # it has the GPU alone
    longest_kernel_s: float | None = None
    name: int = 0
    peak_bytes: int | None = None  # the most that a run of its name needed

    @property
    def who(self) -> Name | None:
        return None if self.uid is None else (self.uid, self.name)


@dataclass(frozen=True)
class Gpu:
    """A GPU of a node where the job may run, and who is there."""

    node: str
    index: int
    type: str
    shards: int
    neighbours: tuple[Neighbour, ...] = ()

    @property
    def free(self) -> int:
        return (
            0
            if any(each.whole for each in self.neighbours)
            else self.shards - sum(each.shards for each in self.neighbours)
        )

    @property
    def name(self) -> str:
        return f"{self.node}:{self.index}"


@dataclass(frozen=True)
class Request:
    """What a job asks for. priority None: it says none. shares: it has an option of fikit's or asks for shards. shards_source: "asked",
    "peak" (of its last runs) or "default" (the site's). host_gib: what of its memory may lie on the host beside them (--fikit-mem-host). script: what to type behind sbatch, or behind `fikit run --` for a `program`; None: it is in the
    queue already.
    """

    name: str
    uid: int
    limit_s: float = inf
    gpus: int = 1
    type: str = ""
    shards: int = 4
    shards_source: str = "default"
    host_gib: int = 0
    shares: bool = True
    priority: int | None = None
    partition: str = ""
    script: str | None = None
    program: bool = False
    job: str | None = None
    elapsed_s: float = 0.0
    running: bool = False
    nodes: frozenset[str] = frozenset()  # --nodelist; none: any
    options: tuple[str, ...] = ()  # fikit's options as they were typed

    @property
    def who(self) -> Name:
        return self.uid, name_key(self.name)


@dataclass(frozen=True)
class Burst:
    """What a job's profile says of the work between two waits for the GPU: p99 of its time alone, and the least time that the device is idle
    behind one."""

    p99_s: float
    slack_s: float = 0.0


@dataclass(frozen=True)
class Run:
    """A run of the job with another batch: samples, most memory."""

    batch: int
    peak_bytes: int


@dataclass(frozen=True)
class Used:
    """What NVML saw of a job whose launches fikit did not. busy: the mean of so many looks. gpus: it had to itself; 0: a share, or a GPU, which nobody knows.
    shared: it had options of fikit's, or a share of a GPU, and launched nothing through fikit.
    """

    busy: float | None
    looks: int
    peak_bytes: int | None
    gpus: int
    shared: bool


@dataclass(frozen=True)
class Facts:
    """All of it. run: the report of the run that is asked about, where one is. ahead: jobs that wait before this one, for a whole GPU and for a part. highest: priority that the site allows it.

    runs_s: times alone of its earlier runs, oldest first. max_slowdown: the site's. mps: kernels of several jobs overlap.
    """

    request: Request
    expected: Expectation
    busy: Busy
    known: Known | None
    gpus: tuple[Gpu, ...]
    runs_s: tuple[float, ...] = ()
    ahead_whole: int = 0
    ahead_shared: int = 0
    hidden: bool = False  # Slurm does not show others' jobs
    default_priority: int = 5
    highest: int = 0
    mps: bool = False
    slurm_start_s: float | None = None
    deadline_s: float | None = None
    burst: Burst | None = None
    batches: tuple[Run, ...] = ()
    wanted_batch: int | None = None
    pairs: Mapping[Pair, float] = field(default_factory=dict)  # measured slowdowns
    notes: tuple[str, ...] = ()
    used: Used | None = None
    run: TypedReport | None = None
