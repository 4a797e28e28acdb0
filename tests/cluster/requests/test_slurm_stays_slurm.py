"""A job that uses no fikit option finds the same world with the plugin as without it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.slurm.plugin import without_plugin

if TYPE_CHECKING:
    from cluster_jobs import Cluster

# Everything that a process takes over from those that started it.
WORLD = (
    "env -0 | tr '\\n\\0' ' \\n' | sed 's/^/env /'",
    "ulimit -a | sed 's/^/limit /'",
    "echo umask $(umask)",
    "grep -E '^(Sig|Cpus_allowed_list|NoNewPrivs|Seccomp:|Groups)' /proc/self/status",
    "ls /proc/self/fd | sed 's/^/descriptor /'",
    "sed 's/.* //' /proc/self/maps | grep / | grep '[.]so' | sort -u | sed 's/^/mapped /'",
)


@pytest.fixture
def script(cluster: Cluster) -> Path:
    return cluster.script("world", "echo WORLD", *WORLD, "echo END")


def world(output: str) -> list[str]:
    """What a job printed of its world; numbers are of this job and no other (its id, ports, times)."""
    assert "END" in output.splitlines(), output
    text = output.rpartition("WORLD\n")[2].partition("END\n")[0]
    return sorted(re.sub(r"(?<=_SLUID=)\w+|\d+", "N", line) for line in text.splitlines())


@pytest.mark.parametrize("request_", [(), ("--gres=gpu:1",)], ids=["no_gpu", "gpu"])
def test_step_is_the_same_with_and_without_the_plugin(
    cluster: Cluster, script: Path, request_: tuple[str, ...]
) -> None:
    with without_plugin(cluster.sandbox):
        without = world(cluster.run("srun", *request_, script).stdout)
    assert len(without) > 50
    assert world(cluster.run("srun", *request_, script).stdout) == without


@pytest.mark.parametrize("request_", [(), ("--gres=gpu:1",)], ids=["no_gpu", "gpu"])
def test_batch_job_is_the_same_with_and_without_the_plugin(
    cluster: Cluster, script: Path, request_: tuple[str, ...]
) -> None:
    with without_plugin(cluster.sandbox):
        without = world(cluster.batch(script, *request_))
    assert len(without) > 50
    assert world(cluster.batch(script, *request_)) == without


def test_job_with_an_option_is_not_the_same(cluster: Cluster, script: Path) -> None:
    plain = world(cluster.batch(script, "--gres=gpu:1"))
    managed = world(cluster.batch(script, "--gres=gpu:1", "--fikit-priority=high"))
    added = {line for line in managed if line not in plain}
    assert any(line.startswith("env LD_PRELOAD=") for line in added)
