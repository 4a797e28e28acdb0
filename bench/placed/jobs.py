"""Jobs of known length and what they do to a GPU: made-up recordings, how much two of them slow each other (policy simulator), and what
the cluster simulator makes of all of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from fikitd._cluster import Jobs
from fikitd.gpus.placement import Device, Priorities, Slowdowns
from fikitd.simulation.simulator import SLICES, Scenario, high_alone, parse, simulate

from bench.cluster.policies import NAMED, Workload, live
from bench.cluster.traces import Trace
from bench.record import BenchError
from bench.recordings import Made

GPUS, GPU_GIB = 4, 16
BUSY = (0.3, 0.5, 0.7, 0.9)
"""Of a kind: the share of its time alone in which its kernels are on the device, about."""
KERNEL_US, KERNELS, REQUESTS = 5000.0, 20, 4
"""A request launches so many kernels of so long, and waits for them; so many requests are a pass. Long ones: a shared machine's hosts are late by
milliseconds."""
CALL_US = 20.0
SHORTEST_S, LONGEST_S = 6.0, 60.0
POLICIES = {"shards": "equal", "spread": "equal", "auto": "ordered", "order": "ordered", "pair": "ordered"}
"""What is compared, and whether jobs have an order on their GPU there."""
SIMULATED = {"pair": "pair-agent"}
"""The agent's `pair` is called so among the simulator's policies."""
SHARED_BY = {"ordered": "budget", "equal": "fifo"}


@dataclass(frozen=True)
class Kind:
    """What a job does to a GPU."""

    busy: float

    @property
    def name(self) -> str:
        return f"busy-{100 * self.busy:.0f}"

    @cached_property
    def text(self) -> bytes:
        """One pass, as a recording."""
        made = Made(random.Random(round(100 * self.busy)))
        think_us = KERNELS * KERNEL_US * (1 / self.busy - 1)
        for _ in range(REQUESTS):
            for _ in range(KERNELS):
                made.work("gemm<float>", KERNEL_US, call=CALL_US)
            made.synchronize()
            made.host += think_us
        made.synchronize()
        return made.text()

    @cached_property
    def pass_s(self) -> float:
        """How long one takes alone, simulated."""
        return parse(self.name, self.text.decode()).alone_ns / 1e9


KINDS = tuple(Kind(busy) for busy in BUSY)


@dataclass(frozen=True)
class Job:
    """submit_s: since the first one's moment. work_s: alone."""

    name: str
    kind: int
    passes: int
    submit_s: float

    @property
    def work_s(self) -> float:
        return self.passes * KINDS[self.kind].pass_s


def made_up(count: int, load: float, seed: int) -> list[Job]:
    """Lengths are spread evenly on a logarithmic scale; jobs come as a Poisson process with so much work a second as `load` x the GPUs can do."""
    source = random.Random(seed)
    wanted_s = [SHORTEST_S * (LONGEST_S / SHORTEST_S) ** source.random() for _ in range(count)]
    kinds = [source.randrange(len(KINDS)) for _ in range(count)]
    passes = [max(1, round(length / KINDS[kind].pass_s)) for length, kind in zip(wanted_s, kinds, strict=True)]
    between_s = sum(wanted_s) / count / GPUS / load
    jobs, now_s = [], 0.0
    for number, (kind, each) in enumerate(zip(kinds, passes, strict=True)):
        jobs.append(Job(f"length-{number}", kind, each, now_s))
        now_s += source.expovariate(1 / between_s)
    return jobs


def slowdowns() -> Slowdowns:
    """Of every two kinds on one GPU that takes turns, by the policy simulator; of three and more, the closed form."""
    found = Slowdowns(len(KINDS), Device.SLICES)
    for (i, first), (j, second) in product(enumerate(KINDS), repeat=2):
        for priorities, policy in SHARED_BY.items():
            high, low = (parse(kind.name, kind.text.decode()) for kind in (first, second))
            outcome = simulate(Scenario(high, [low], device=SLICES), policy)
            if outcome.low_jct_ratio is None:
                raise BenchError(f"{second.name} does nothing beside {first.name}, take other jobs")
            order = Priorities.ORDERED if priorities == "ordered" else Priorities.EQUAL
            found.measured(order, i, j, outcome.high_jct_ratio, outcome.low_jct_ratio)
    return found


def busy_shares() -> list[float]:
    """Of each kind, as the device's sharing reckons it."""
    return [
        min(1.0, high_alone(Scenario(parse(kind.name, kind.text.decode()), (), device=SLICES)).busy) for kind in KINDS
    ]


def simulated_jct_s(jobs: Sequence[Job], gib: int, policy: str) -> list[float]:
    """By job, how long from coming to its end. The lengths are known."""
    trace = Trace(
        "known lengths", np.array([job.submit_s for job in jobs]), np.array([job.work_s for job in jobs]), np.ones(len(jobs), dtype=np.int64), np.zeros(len(jobs))
    )  # fmt: skip
    busy = busy_shares()
    work = Jobs(
        submit_s=trace.submit_s, work_s=trace.work_s, expected_s=trace.work_s, gpus=[1] * len(jobs), shards=[gib] * len(jobs),
        busy=np.array([busy[job.kind] for job in jobs]), kind=[job.kind for job in jobs],
    )  # fmt: skip
    believed = Slowdowns(0, Device.SLICES)
    lived = live(Workload(trace, work, 0.0, GPUS, GPU_GIB, slowdowns(), believed), NAMED[SIMULATED.get(policy, policy)])
    return [float(each) for each in lived.jct_s]
