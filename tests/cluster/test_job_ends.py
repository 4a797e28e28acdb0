"""How jobs end, and do not quite: cancelled, requeued, suspended, out of time. Nothing of them stays on the node."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikit.sandbox_processes import processes_of
from fikitd.reports import ReportStore

if TYPE_CHECKING:
    from conftest import Cluster

GPU = "--gres=gpu:1"
HIGH = "--fikit-priority=high"
LOW = "--fikit-priority=low"
TIME_LIMIT_S = 60.0  # slurmctld looks for jobs that are out of time twice a minute


def endless(cluster: Cluster, spin: Path) -> Path:
    return cluster.script("endless", f"{spin} 1000000 250000")


def submit_running(cluster: Cluster, script: Path, *options: str) -> str:
    """A job whose program has met fikitd."""
    job = cluster.submit(script, GPU, *options)
    cluster.until(lambda: job in cluster.managed(), f"job {job} is not managed")
    return job


def kernels(cluster: Cluster, job: str) -> int:
    """Of its stored report; 0 without one."""
    report = ReportStore(cluster.sandbox.report_dir).load(job)
    return report["kernels"] if report else 0


@pytest.fixture(autouse=True)
def _nothing_stays(cluster: Cluster, spin: Path, out_of_time: str) -> Iterator[None]:
    yield
    cluster.until(lambda: set(cluster.records()) <= {out_of_time}, "a record stayed")
    cluster.until(lambda: not processes_of(spin), "a program stayed")


@pytest.fixture(scope="module")
def out_of_time(shared_cluster: Cluster, spin: Path) -> str:
    """A job that runs out of time while the other tests run: Slurm's shortest limit is a minute."""
    program = shutil.copy(spin, shared_cluster.directory / "late")
    job = submit_running(shared_cluster, endless(shared_cluster, Path(program)), HIGH, "--time=1")
    shared_cluster.run("scontrol", "update", f"JobId={job}", "EndTime=now+1")
    return job


@pytest.mark.parametrize("stage", ["held", "submitted", "running", "suspended"])
def test_cancelled_job(cluster: Cluster, spin: Path, stage: str) -> None:
    script = endless(cluster, spin)
    if stage == "held":
        job = cluster.submit(script, GPU, HIGH, "--hold")
    elif stage == "submitted":
        job = cluster.submit(script, GPU, HIGH)  # its prolog may not have begun, run, or be over
    else:
        job = submit_running(cluster, script, HIGH)
    if stage == "suspended":
        cluster.run("scontrol", "suspend", job)
    cluster.run("scancel", job)
    assert cluster.end(job) == "CANCELLED"
    if stage in {"running", "suspended"}:
        cluster.until(lambda: len(cluster.summaries(cluster.output(job), job)) == 1, "there is no summary line")
        cluster.until(lambda: kernels(cluster, job) > 0, "there is no report")
    done = cluster.run("srun", GPU, LOW, spin, "5", "20000")
    assert " 5 kernels" in done.stdout, done.stdout


def test_cancelled_low_job_that_waits_at_its_gate_ends_at_once(cluster: Cluster, spin: Path) -> None:
    high = submit_running(cluster, endless(cluster, spin), HIGH)
    low = submit_running(cluster, endless(cluster, spin), LOW)
    cluster.run("scancel", low)
    assert cluster.end(low) == "CANCELLED"
    assert cluster.fields(high)["JobState"] == "RUNNING"
    cluster.run("scancel", high)
    assert cluster.end(high) == "CANCELLED"


def test_requeued_job_runs_again_as_what_it_was(cluster: Cluster, spin: Path) -> None:
    script = cluster.script(
        "requeued", f'[ -n "$SLURM_RESTART_COUNT" ] && exec {spin} 7 20000', f"exec {spin} 1000000 250000"
    )
    job = submit_running(cluster, script, HIGH, "--requeue", "--open-mode=append")
    cluster.run("scontrol", "requeue", job)
    cluster.until(lambda: cluster.fields(job)["JobState"] == "PENDING", "it was not put back into the queue")
    cluster.until(lambda: job not in cluster.records(), "the first run's record stayed")
    cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")  # Slurm would let it wait for two minutes
    output = cluster.wait(job)
    lines = cluster.summaries(output, job)
    assert len(lines) == 2, output
    assert all(" high: " in line for line in lines)
    assert " 7 kernels" in lines[1]


def test_suspended_high_job_holds_nobody_and_goes_on_afterwards(cluster: Cluster, spin: Path) -> None:
    high = submit_running(cluster, cluster.script("pausing", f"exec {spin} 8000 250000"), HIGH)  # 2 s of GPU time
    cluster.run("scontrol", "suspend", high)
    done = cluster.run("srun", GPU, LOW, spin, "40", "20000")
    assert " 40 kernels" in done.stdout, done.stdout
    assert cluster.fields(high)["JobState"] == "SUSPENDED"
    cluster.run("scontrol", "resume", high)
    output = cluster.wait(high)
    assert output.count("done") == 1
    assert " 8000 kernels" in cluster.summaries(output, high)[0]


def test_job_out_of_time_leaves_its_report(cluster: Cluster, out_of_time: str) -> None:
    state = cluster.until(
        lambda: (state := cluster.fields(out_of_time)["JobState"]) not in {"RUNNING", "COMPLETING"} and state,
        "it was not ended", TIME_LIMIT_S,
    )  # fmt: skip
    assert state == "TIMEOUT"
    cluster.until(lambda: cluster.summaries(cluster.output(out_of_time), out_of_time), "there is no summary line")
    assert kernels(cluster, out_of_time) > 0
