"""The policies that are compared, each as what it does with those who wait, with those behind, and on which GPU a job starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from fikitd._cluster import Behind, Jobs, Preemption, Queue, Sharing, simulate_cluster, simulate_preemptive
from fikitd.gpus.placement import PAIR, Priorities, Rules, Slowdowns

from bench.cluster.traces import Column, Trace

EQUAL, ORDERED = Priorities.EQUAL, Priorities.ORDERED
RESTART_S = 30.0
"""What Tiresias pays to resume a job in the comparison (Muri's authors measured 4 to 46 s to start one)."""
TIRESIAS_LIMITS_S = [3250.0, 7200.0]
"""Attained GPU time at which a job leaves a queue, of Tiresias' and Muri's simulators."""
HISTORY_RUNS = 8
MAX_WAIT_S = 1_209_600.0
"""[placement] max_wait_s of fikit.toml: who has waited so long is passed by nobody."""


@dataclass(frozen=True)
class Policy:
    """name, what it does, and how it is simulated."""

    name: str
    about: str
    queue: Queue = Queue.ARRIVAL
    sharing: Sharing = Sharing.NONE
    rules: Rules | None = None
    max_wait_s: float = math.inf
    behind: Behind = Behind.RESERVES
    preemption: Preemption | None = None
    restart_s: float = 0.0


def _rules(**rules: Any) -> Rules:
    return Rules(**rules)


POLICIES = (
    Policy("fifo", "whole GPUs, first come first served, with backfill"),
    Policy("sjf", "whole GPUs, shortest expected job first", Queue.SHORTEST),
    Policy("srtf", "whole GPUs, shortest real rest first, stops and resumes jobs for nothing", preemption=Preemption.REMAINING),
    Policy("tiresias", f"whole GPUs, least attained GPU time, resuming costs {RESTART_S:g} s", preemption=Preemption.ATTAINED, restart_s=RESTART_S),
    Policy("shards", "shares, the first GPU with room, nobody first", sharing=Sharing.FIRST_FIT, rules=_rules(priorities=EQUAL, most=0)),
    Policy("spread", "shares, the GPU with most room, nobody first", sharing=Sharing.SPREAD, rules=_rules(priorities=EQUAL, most=0)),
    Policy("sjf-ffs", "shortest first, idle GPUs, else the first with room for two", Queue.SHORTEST, Sharing.IDLE_FIRST, _rules(priorities=EQUAL)),
    Policy(
        "sjf-bsbf", "shortest first, idle GPUs, else the best pair that gains (Theorem 1)", Queue.SHORTEST, Sharing.BEST,
        _rules(priorities=EQUAL, waits_for_free=False),
    ),
    Policy(
        "lucid-like", "shortest first, idle GPUs, else two whose busy shares are at most 1", Queue.SHORTEST, Sharing.BEST,
        _rules(priorities=EQUAL, must_gain=False, most_busy=1.0),
    ),
    Policy("auto", "spread, and the shorter expected rest goes first on the GPU", sharing=Sharing.SPREAD, rules=_rules(most=0)),
    Policy("order", "auto, and shortest expected job first", Queue.SHORTEST, Sharing.SPREAD, _rules(most=0), MAX_WAIT_S),
    Policy("pair", "order, on the GPU where the sum of ends gains most", Queue.SHORTEST, Sharing.BEST, PAIR, MAX_WAIT_S),
    Policy("pair-agent", "pair as the agent does it: where no GPU had room, Slurm starts the job on the first that has", Queue.SHORTEST, Sharing.AGENT, PAIR, MAX_WAIT_S),
)  # fmt: skip
NAMED = {policy.name: policy for policy in POLICIES}


@dataclass(frozen=True)
class Workload:
    """A trace with what it does not say: predictions, memory, and what jobs do to a GPU."""

    trace: Trace
    jobs: Jobs
    sigma: float
    gpus: int
    shards_per_gpu: int
    real: Slowdowns
    believed: Slowdowns


@dataclass(frozen=True)
class Kinds:
    """What jobs of the trace may be: busy share of each kind, what sharing does to them, and what the rules know of that."""

    name: str
    busy: list[float]
    real: Callable[[], Slowdowns]
    believed: Callable[[], Slowdowns]


def workload(
    trace: Trace, kinds: Kinds, *, sigma: float, shards: int, gpus: int, seed: int, shards_per_gpu: int = 80
) -> Workload:
    """Predictions are wrong by a lognormal factor of this sigma; a job's kind is drawn evenly."""
    random = np.random.default_rng((seed, 1))
    count = len(trace)
    expected_s = trace.work_s * random.lognormal(0.0, sigma, count)
    kind = random.integers(0, len(kinds.busy), count)
    busy = np.minimum(np.array(kinds.busy)[kind], 1.0)
    jobs = Jobs(
        submit_s=trace.submit_s, work_s=trace.work_s, expected_s=expected_s, gpus=trace.gpus.tolist(), shards=[shards] * count,
        busy=busy, kind=kind.tolist(),
    )  # fmt: skip
    return Workload(trace, jobs, sigma, gpus, shards_per_gpu, kinds.real(), kinds.believed())


def history(sigma: float) -> list[float]:
    """Run times of jobs that are expected to take a second, equally probable: what E[T - t | T > t] rests on."""
    if sigma == 0:
        return [1.0]
    shares = ((2 * i + 1) / (2 * HISTORY_RUNS) for i in range(HISTORY_RUNS))
    return [math.exp(sigma * NormalDist().inv_cdf(share)) for share in shares]


@dataclass(frozen=True)
class Lived:
    """What became of a workload. Seconds by job; use: moments, GPUs taken, work done a second."""

    jct_s: Column
    use: Column
    events: int
    offers: int


def live(work: Workload, policy: Policy, most: int | None = None) -> Lived:
    """most: jobs that may share a GPU, where the policy allows more. Raises ValueError for a workload that the cluster cannot hold."""
    if policy.preemption is not None:
        result = simulate_preemptive(
            work.jobs, rule=policy.preemption, nodes=work.gpus, gpus_per_node=1, queue_limits_s=TIRESIAS_LIMITS_S,
            toll_s=[policy.restart_s] * len(work.trace),
        )  # fmt: skip
    else:
        rules = policy.rules or Rules()
        if most is not None and (rules.most == 0 or rules.most > most):
            rules = rules.with_most(most)
        result = simulate_cluster(
            work.jobs, gpus=work.gpus, shards_per_gpu=work.shards_per_gpu, history=history(work.sigma), queue=policy.queue,
            behind=policy.behind, sharing=policy.sharing, rules=rules, max_wait_s=policy.max_wait_s, real=work.real, believed=work.believed,
        )  # fmt: skip
    return Lived(result["end_s"] - work.trace.submit_s, result["use"], result["events"], result["offers"])
