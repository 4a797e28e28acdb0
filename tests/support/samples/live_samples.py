"""Looks at a node for the tests of `fikit top` on a terminal: one GPU that two jobs share, one that a job has alone, and an idle one."""

from __future__ import annotations

from typing import Any

from fikit.api import node_use
from fikit.live import node
from fikit.live.node import Node
from node_looks import client, look, spent

GIB = 2**30


def seen(uuid: str, index: int, use: float | None, *pids: int, **facts: Any) -> dict[str, Any]:
    """A GPU as NVML tells it."""
    owners = {str(pid): {"job": "31", "uid": 0} for pid in pids}
    return {
        "uuid": uuid, "index": index, "name": "H200", "memory_bytes": 141 * GIB, "held_bytes": 31 * GIB, "use": use, "power_w": 410.0,
        "processes": list(pids), "owners": owners, **facts,
    }  # fmt: skip


SEEN = [seen("GPU-a", 0, 0.5), seen("GPU-b", 1, 0.21, 77, 78), seen("GPU-c", 2, 0.0)]


def shared(
    at_s: float = 1.0,
    names: tuple[str, str] = ("serve.sh", "train.sh"),
    nvml: list[dict[str, Any]] = SEEN,
    **facts: Any,
) -> Node:
    """Two looks a second apart: job 12 took 44 % of the GPU, job 18 52 %, and waited for 38 % of the time for job 12."""

    def clients(t: float) -> tuple[dict[str, Any], dict[str, Any]]:
        return (
            client(1, "12", 1, name=names[0], gpu_time_s=0.44 * t, job_time=spent(10 + t, 1.03, waited_s=1.0), memory_bytes=9 * GIB, memory_limit_bytes=11 * GIB),
            client(2, "18", 8, name=names[1], gpu_time_s=0.52 * t, job_time=spent(10 + t, waited_s=0.38 * t), memory_bytes=3 * GIB, **facts),
        )  # fmt: skip

    use = node_use.between(look(at_s, *clients(at_s)), look(at_s + 1, *clients(at_s + 1)))
    return node.of(use, {"18": "12"}, nvml)
