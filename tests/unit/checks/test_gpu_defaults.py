"""fikit doctor on what jobs get that say nothing: all of a node's memory keeps others from sharing its GPU."""

from __future__ import annotations

import pytest
from fikit.checks.gpu_defaults import NAME, memory

CONFIG = """\
Configuration data as of 2026-11-25T02:00:00
DefMemPerNode           = {memory}
JobDefaults             = {jobs}
SelectTypeParameters    = {select}
"""
ALL = "PartitionName=all AllowGroups=ALL Default=YES {jobs} DefMemPerNode={memory} MaxMemPerNode=UNLIMITED\n"
BIG = "PartitionName=big AllowGroups=ALL JobDefaults=DefCpuPerGPU=5,DefMemPerGPU=500 DefMemPerNode=UNLIMITED\n"


def config(memory: str = "UNLIMITED", jobs: str = "(null)", select: str = "CR_CORE_MEMORY") -> str:
    return CONFIG.format(memory=memory, jobs=jobs, select=select)


def partition(jobs: str = "JobDefaults=(null)", memory: str = "UNLIMITED") -> str:
    return ALL.format(jobs=jobs, memory=memory)


def test_partition_whose_jobs_get_all_of_a_nodes_memory_is_named() -> None:
    check = memory(config(), partition() + BIG)
    assert (check.name, check.status) == (NAME, "warn")
    assert "in partition all, and the next one on its GPU waits" in check.found
    assert check.advice.startswith("DefMemPerGPU=MB in slurm.conf")


@pytest.mark.parametrize(
    ("cluster", "partitions"),
    [
        (config(select="CR_CORE"), partition()),
        (config(jobs="DefCpuPerGPU=2,DefMemPerGPU=200"), partition()),
        (config(), partition(jobs="JobDefaults=DefMemPerGPU=300")),
        (config(memory="4096"), partition()),
        (config().replace("DefMemPerNode", "DefMemPerCPU"), partition(memory="1000")),
        (config(), BIG),
    ],
)
def test_what_bounds_a_jobs_memory_is_enough(cluster: str, partitions: str) -> None:
    assert memory(cluster, partitions).status == "ok"
