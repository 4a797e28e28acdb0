"""How jobs end, and do not quite: cancelled, requeued, suspended. Nothing of them stays on the node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cluster_jobs import Cluster

GPU = "--gres=gpu:1"
HIGH = "--fikit-priority=high"
LOW = "--fikit-priority=low"


def endless(cluster: Cluster, spin: Path) -> Path:
    return cluster.script("endless", f"{spin} 1000000 250000")


@pytest.fixture(autouse=True, scope="module")
def _clock_runs(out_of_time: str) -> None:
    """The job of test_ways_in.py that runs out of time begins here, so that nobody waits for its end there."""


@pytest.mark.parametrize("stage", ["held", "submitted", "running", "suspended"])
def test_cancelled_job(cluster: Cluster, spin: Path, stage: str) -> None:
    script = endless(cluster, spin)
    if stage == "held":
        job = cluster.submit(script, GPU, HIGH, "--hold")
    elif stage == "submitted":
        job = cluster.submit(script, GPU, HIGH)  # its prolog may not have begun, run, or be over
    else:
        job = cluster.submit_running(script, HIGH)
    if stage == "suspended":
        cluster.run("scontrol", "suspend", job)
    cluster.run("scancel", job)
    assert cluster.end(job) == "CANCELLED"
    if stage in {"running", "suspended"}:
        cluster.until(lambda: len(cluster.summaries(cluster.output(job), job)) == 1, "there is no summary line")
        cluster.until(lambda: cluster.reported_kernels(job) > 0, "there is no report")
    done = cluster.run("srun", GPU, LOW, spin, "5", "20000")
    assert " 5 kernels" in done.stdout, done.stdout


def test_cancelled_low_job_that_waits_at_its_gate_ends_at_once(cluster: Cluster, spin: Path) -> None:
    high = cluster.submit_running(endless(cluster, spin), HIGH)
    low = cluster.submit_running(endless(cluster, spin), LOW)
    cluster.run("scancel", low)
    assert cluster.end(low) == "CANCELLED"
    assert cluster.fields(high)["JobState"] == "RUNNING"
    cluster.run("scancel", high)
    assert cluster.end(high) == "CANCELLED"


def test_requeued_job_runs_again_as_what_it_was(cluster: Cluster, spin: Path) -> None:
    script = cluster.script(
        "requeued", f'[ -n "$SLURM_RESTART_COUNT" ] && exec {spin} 7 20000', f"exec {spin} 1000000 250000"
    )
    job = cluster.submit_running(script, HIGH, "--requeue", "--open-mode=append")
    cluster.run("scontrol", "requeue", job)
    cluster.until(lambda: job not in cluster.records(), "the first run's record stayed")
    cluster.start_again(job)
    output = cluster.wait(job)
    lines = cluster.summaries(output, job)
    assert len(lines) == 2, output
    assert all(" high: " in line for line in lines)
    assert " 7 kernels" in lines[1]


def test_suspended_high_job_holds_nobody_and_goes_on_afterwards(cluster: Cluster, spin: Path) -> None:
    high = cluster.submit_running(cluster.script("pausing", f"exec {spin} 8000 250000"), HIGH)  # 2 s of GPU time
    cluster.run("scontrol", "suspend", high)
    done = cluster.run("srun", GPU, LOW, spin, "40", "20000")
    assert " 40 kernels" in done.stdout, done.stdout
    assert cluster.fields(high)["JobState"] == "SUSPENDED"
    cluster.run("scontrol", "resume", high)
    output = cluster.wait(high)
    assert output.count("done") == 1
    assert " 8000 kernels" in cluster.summaries(output, high)[0]
