"""A cluster of GPUs in simulated time, job by job, under the rules of fikitd.gpus.placement. Nothing of the daemon needs it.

Times are float seconds. What cannot be raises ValueError with one sentence.
"""

from collections.abc import Sequence
from enum import Enum
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from fikitd._placement import Rules, Slowdowns

class Queue(Enum):
    """Which waiting job comes first."""

    ARRIVAL = ...
    SHORTEST = ...

class Behind(Enum):
    """Those behind a waiting job that does not fit: they wait, each that fits starts, or only where that does not delay it (EASY backfill)."""

    WAITS = ...
    FITS = ...
    RESERVES = ...

class Sharing(Enum):
    """Where a job of one GPU starts: on its own, the first with room, an idle one else the first with room, the one of which least memory is taken,
    an idle one else where the sum of ends gains most; AGENT: the same, but one for which no GPU had room as with SPREAD as soon as there is."""

    NONE = ...
    FIRST_FIT = ...
    IDLE_FIRST = ...
    SPREAD = ...
    BEST = ...
    AGENT = ...

class Preemption(Enum):
    """Shortest remaining time, remaining time x GPUs, least attained GPU time (in queues)."""

    REMAINING = ...
    REMAINING_GPU = ...
    ATTAINED = ...

class Jobs:
    """A trace by columns of the same length. work_s: really, alone; expected_s: as predicted; shards: memory, GiB; busy: 0 to 1; kind: row among
    measured pairs, -1: none."""

    def __init__(
        self,
        *,
        submit_s: Sequence[float] | NDArray[np.float64],
        work_s: Sequence[float] | NDArray[np.float64],
        expected_s: Sequence[float] | NDArray[np.float64],
        gpus: Sequence[int],
        shards: Sequence[int],
        busy: Sequence[float] | NDArray[np.float64],
        kind: Sequence[int],
    ) -> None: ...
    def __len__(self) -> int: ...

class Result(TypedDict):
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    use: NDArray[np.float64]
    """Rows of moment, GPUs taken, work done a second; each holds until the next one."""
    events: int
    offers: int
    """GPUs that were looked at for a job."""

def simulate_cluster(
    jobs: Jobs,
    *,
    gpus: int,
    shards_per_gpu: int,
    history: Sequence[float],
    queue: Queue,
    behind: Behind,
    sharing: Sharing,
    rules: Rules,
    max_wait_s: float = ...,
    real: Slowdowns,
    believed: Slowdowns,
) -> Result:
    """history: run times of a job that is expected to take a second, which E[T - t | T > t] rests on. real: what sharing does; believed: what the
    rules know of it. A job of several GPUs has them to itself. max_wait_s: with Queue.SHORTEST, who has waited so long is before all others, in order of arrival."""

def simulate_preemptive(
    jobs: Jobs,
    *,
    rule: Preemption,
    nodes: int,
    gpus_per_node: int,
    consolidated: bool = False,
    queue_limits_s: Sequence[float] = (),
    toll_s: Sequence[float] = (),
    every_event: bool = False,
) -> Result:
    """Whole GPUs, all jobs placed anew at each event. toll_s: what starting or resuming costs, by job; every_event: it is lost in each stretch between
    two events. consolidated: GPUs of a job are on one node, of more than a node's on whole ones. queue_limits_s: attained GPU time at which a job
    leaves a queue (ATTAINED)."""
