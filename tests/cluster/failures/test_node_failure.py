"""A node that fails, and one that boots again: its jobs run again as what they were, nothing of before is left or believed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from power import power_off, power_on, resume
from remains import nothing_remains

if TYPE_CHECKING:
    from cluster_jobs import Cluster

GPU = "--gres=gpu:1"
HIGH, LOW = "--fikit-priority=high", "--fikit-priority=low"


def node_failed(cluster: Cluster) -> None:
    """slurmctld would find out after SlurmdTimeout, five minutes."""
    for node in cluster.sandbox.nodes:
        cluster.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")


@pytest.fixture
def failing(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster; whatever happens, its node is back afterwards and no job of the test's is."""
    yield cluster
    cluster.run("scancel", "--user=root")
    resume(cluster)
    nothing_remains(cluster.sandbox)


def cleaned_up(cluster: Cluster, job: str) -> bool:
    """slurmd has done what slurmctld wants it to do about a run that failed; a job that begins before is ended with it."""
    log = (cluster.sandbox.logs / "slurmd.log").read_text()
    return re.search(rf"completed epilog for .*\b{job}\b", log) is not None


def program(cluster: Cluster, spin: Path, name: str) -> Path:
    """It computes for long, and in its second run for a moment."""
    return cluster.script(name, f'[ -n "$SLURM_RESTART_COUNT" ] && exec {spin} 7 20000', f"exec {spin} 1000000 250000")


def test_jobs_of_a_node_that_boots_again_run_again_as_what_they_were(failing: Cluster, spin: Path) -> None:
    high = failing.submit_running(program(failing, spin, "failing-high"), HIGH, "--requeue", "--open-mode=append")
    low = failing.submit_running(program(failing, spin, "failing-low"), LOW, "--requeue", "--open-mode=append")
    power_off(failing)
    power_on(failing)
    for job in (high, low):
        failing.until(lambda job=job: cleaned_up(failing, job), f"job {job} has no epilog")
    resume(failing)
    for job, priority in ((high, "high"), (low, "low")):
        failing.start_again(job)
        output = failing.wait(job)
        lines = failing.summaries(output, job)
        assert [f" {priority}: " in line and " 7 kernels" in line for line in lines] == [True], output
        failing.until(lambda job=job: failing.reported_kernels(job) == 7, f"job {job} has no report")


def test_job_that_is_not_requeued_leaves_nothing_when_its_node_fails(failing: Cluster, spin: Path) -> None:
    job = failing.submit_running(program(failing, spin, "lost"), HIGH, "--no-requeue")
    power_off(failing)
    node_failed(failing)
    assert failing.end(job) == "NODE_FAIL"
    power_on(failing)
    resume(failing)
    done = failing.run("srun", GPU, LOW, spin, "5", "20000")
    assert " 5 kernels" in done.stdout, done.stdout
