"""What others published of their schedulers, and what this simulator says of the same traces."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from fikitd._cluster import Behind, Jobs, Preemption, Queue, Sharing, simulate_cluster, simulate_preemptive
from fikitd.gpus.placement import Rules, Slowdowns

from bench.cluster.policies import TIRESIAS_LIMITS_S
from bench.cluster.traces import FOLDER, Trace, muri, tiresias


@dataclass(frozen=True)
class Row:
    """Mean JCT of a policy on a trace, seconds."""

    trace: str
    policy: str
    ours_s: float
    published_s: float

    @property
    def off(self) -> float:
        """Relative."""
        return self.ours_s / self.published_s - 1


# By trace: policy -> published mean JCT, seconds.
MURI = {
    3: {"srtf": 193_081.796, "srsf": 185_021.880, "tiresias": 347_213.248},
    1: {"srtf": 1_370_603.0, "srsf": 980_141.0, "tiresias": 3_330_371.0},
}
TIRESIAS = {"fifo": 200.8, "fjf": 190.7, "shortest": 192.1, "shortest-gpu": 195.9, "dlas-gpu": 190.7}
RULES = {
    "srtf": Preemption.REMAINING, "srsf": Preemption.REMAINING_GPU, "tiresias": Preemption.ATTAINED,
    "shortest": Preemption.REMAINING, "shortest-gpu": Preemption.REMAINING_GPU, "dlas-gpu": Preemption.ATTAINED,
}  # fmt: skip


def jobs_of(trace: Trace) -> Jobs:
    """Every job is known in advance, needs all of its GPUs, and shares with nobody."""
    count = len(trace)
    return Jobs(
        submit_s=trace.submit_s, work_s=trace.work_s, expected_s=trace.work_s, gpus=trace.gpus.tolist(), shards=[1] * count,
        busy=np.ones(count), kind=[-1] * count,
    )  # fmt: skip


def _mean_s(trace: Trace, end_s: np.typing.NDArray[np.float64]) -> float:
    return float((end_s - trace.submit_s).mean())


def muri_rows(number: int, folder: Path = FOLDER) -> list[Row]:
    """8 nodes of 8 GPUs. Jobs lie together ("yarn") but for Tiresias, which their simulator only counts GPUs for; a job that runs loses
    its start-up time in each stretch between two events. Raises BenchError."""
    trace = muri(number, folder)
    jobs = jobs_of(trace)
    rows = []
    for policy, published_s in MURI[number].items():
        attained = policy == "tiresias"
        result = simulate_preemptive(
            jobs, rule=RULES[policy], nodes=8, gpus_per_node=8, consolidated=not attained, queue_limits_s=TIRESIAS_LIMITS_S,
            toll_s=trace.start_s.tolist(), every_event=True,
        )  # fmt: skip
        rows.append(Row(trace.name, policy, _mean_s(trace, result["end_s"]), published_s))
    return rows


def tiresias_rows(folder: Path = FOLDER) -> list[Row]:
    """4 nodes of 4 GPUs, counted only. Raises BenchError."""
    trace = tiresias(folder)
    jobs = jobs_of(trace)
    rows = []
    for policy, published_s in TIRESIAS.items():
        if policy in RULES:
            result = simulate_preemptive(
                jobs, rule=RULES[policy], nodes=4, gpus_per_node=4, queue_limits_s=TIRESIAS_LIMITS_S
            )
        else:
            result = simulate_cluster(
                jobs, gpus=16, shards_per_gpu=1, history=[1.0], queue=Queue.ARRIVAL, sharing=Sharing.NONE, rules=Rules(),
                behind=Behind.WAITS if policy == "fifo" else Behind.FITS, real=Slowdowns(), believed=Slowdowns(),
            )  # fmt: skip
        rows.append(Row(trace.name, policy, _mean_s(trace, result["end_s"]), published_s))
    return rows


def rows(folder: Path = FOLDER) -> list[Row]:
    """All of them. Raises BenchError."""
    return [*muri_rows(3, folder), *muri_rows(1, folder), *tiresias_rows(folder)]


def as_dicts(found: list[Row]) -> list[dict[str, object]]:
    """For JSON: trace, policy, ours_s, published_s."""
    return [asdict(row) for row in found]
