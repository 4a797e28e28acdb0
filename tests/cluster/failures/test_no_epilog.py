"""Epilogs that do not come, prologs that come twice, epilogs that find nothing: fikitd finds out which jobs are over, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cluster_jobs import Cluster

GPU = "--gres=gpu:1"
HIGH = "--fikit-priority=high"
FORGET_S = 1


@contextmanager
def no_epilog(cluster: Cluster) -> Iterator[None]:
    """The plugin's epilog does nothing meanwhile, as where Slurm runs none."""
    conf = cluster.sandbox.root / "etc" / "plugstack.conf"
    usual = conf.read_text()
    conf.write_text(f"{usual.rstrip()} enabled=no\n")
    try:
        yield
    finally:
        conf.write_text(usual)


@pytest.fixture
def hasty(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a fikitd that does not wait long for an epilog."""
    with cluster.new_fikitd(orphan_timeout_s=FORGET_S):
        yield cluster


def test_batch_job_lives_through_a_long_pause_and_is_over_without_an_epilog(hasty: Cluster, spin: Path) -> None:
    pause = f"sleep {3 * FORGET_S}"
    job = hasty.submit_running(hasty.script("unheard", f"{spin} 4000 250000", pause, f"{spin} 40 20000"), HIGH)
    with no_epilog(hasty):
        output = hasty.wait(job)
        assert [" 4040 kernels" in line for line in hasty.summaries(output, job)] == [True], output
        log = hasty.sandbox.run_dir / "fikitd.log"
        hasty.until(lambda: f"job {job}: none of its processes is left" in log.read_text(), "fikitd waits for ever")
    hasty.until(lambda: hasty.reported_kernels(job) == 4040, "there is no report")


def test_job_that_runs_again_without_an_epilog_between_is_managed_anew(cluster: Cluster, spin: Path) -> None:
    record = f'grep restart= {cluster.sandbox.run_dir}/jobs/"$SLURM_JOB_ID"'
    script = cluster.script(
        "twice", record, f'[ -n "$SLURM_RESTART_COUNT" ] && exec {spin} 7 20000', f"exec {spin} 1000000 250000"
    )
    job = cluster.submit_running(script, HIGH, "--requeue", "--open-mode=append")
    with no_epilog(cluster):
        cluster.run("scontrol", "requeue", job)
        cluster.until(lambda: cluster.node_state() == "idle", "the first run does not end")
    assert cluster.records() == [job]
    cluster.start_again(job)
    output = cluster.wait(job)
    assert " 7 kernels" in cluster.summaries(output, job)[-1], output
    # Its epilog is told the same number, or the record would stay.
    assert [line for line in output.splitlines() if "restart=" in line] == ["restart=0", "restart=1"]
    cluster.until(lambda: cluster.reported_kernels(job) == 7, "there is no report of the second run")


def test_epilog_that_finds_no_record_leaves_the_report_to_fikitd(cluster: Cluster, spin: Path) -> None:
    job = cluster.submit_running(cluster.script("unrecorded", f"{spin} 6000 250000", f"{spin} 40 20000"), HIGH)
    (cluster.sandbox.run_dir / "jobs" / job).unlink()
    output = cluster.wait(job)
    assert (output.count("done"), output.count("belongs to no fikit job")) == (2, 1), output
    cluster.until(lambda: cluster.reported_kernels(job) == 6000, "there is no report")
