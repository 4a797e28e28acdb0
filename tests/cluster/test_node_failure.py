"""A node that fails, and one that boots again: its jobs run again as what they were, nothing of before is left or believed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fikit.sandbox_processes import processes_of
from fikitd.client import Control
from remains import nothing_remains

if TYPE_CHECKING:
    from conftest import Cluster

# Not yet part of CI: Slurm cleans up after the failed run while it starts the next, and one time in a few ends that one too.
pytestmark = pytest.mark.skipif(not os.environ.get("FIKIT_NODE_FAILURE"), reason="only with FIKIT_NODE_FAILURE=1")

GPU = "--gres=gpu:1"
HIGH, LOW = "--fikit-priority=high", "--fikit-priority=low"
EPILOG_WITHIN_S = 5.0
OF_OTHER_NODES = ("munged", "slurmctld")


def power_off(cluster: Cluster) -> None:
    """Everything on the node ends in the same moment, without a word to anybody."""
    ended = [
        process
        for process in processes_of(cluster.sandbox.root)
        if not any(process.named(name) for name in OF_OTHER_NODES) and not named_as_title(process.pid, OF_OTHER_NODES)
    ]
    assert any(process.named("slurmd") for process in ended)
    for process in ended:
        process.kill()


def named_as_title(pid: int, names: tuple[str, ...]) -> bool:
    """slurmctld's script process calls itself `slurmctld: slurmscriptd`."""
    try:
        title = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False
    return title.startswith(tuple(f"{name}:" for name in names))


def power_on(cluster: Cluster) -> None:
    """/run is empty and the GPU has forgotten everything; slurmd starts and registers."""
    for path in cluster.sandbox.run_dir.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for env in cluster.sandbox.emulated:
        emuctl = cluster.sandbox.root / "native" / "bin" / "emuctl"
        subprocess.run([emuctl, "reset"], env=env, check=True, capture_output=True)
    cluster.sandbox.restart_slurmd()


def node_down(cluster: Cluster) -> None:
    """slurmctld would find out after SlurmdTimeout, five minutes."""
    for node in cluster.sandbox.nodes:
        cluster.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")


@pytest.fixture
def failing(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster; whatever happens, its node is back afterwards."""
    yield cluster
    cluster.until(lambda: cluster.node_state() == "idle", "the node is not back")
    nothing_remains(cluster.sandbox)


def end_where_slurm_does_not(cluster: Cluster, job: str) -> None:
    """Slurm 22.05 runs no epilog for a job that it starts again while the epilog of its failed run is still at work."""
    record = cluster.sandbox.run_dir / "jobs" / job
    deadline = time.monotonic() + EPILOG_WITHIN_S
    while record.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    if record.exists():
        log = (cluster.sandbox.logs / "slurmd.log").read_text()
        assert log.rindex(f"Running spank/epilog for jobid [{job}]") < log.rindex(f"[{job}.batch] starting 1 tasks")
        Control(cluster.sandbox.run_dir).end(job)
        record.unlink()


def program(cluster: Cluster, spin: Path, name: str) -> Path:
    """It computes for long, and in its second run for a moment."""
    return cluster.script(name, f'[ -n "$SLURM_RESTART_COUNT" ] && exec {spin} 7 20000', f"exec {spin} 1000000 250000")


def test_jobs_of_a_node_that_boots_again_run_again_as_what_they_were(failing: Cluster, spin: Path) -> None:
    high = failing.submit_running(program(failing, spin, "failing-high"), HIGH, "--requeue", "--open-mode=append")
    low = failing.submit_running(program(failing, spin, "failing-low"), LOW, "--requeue", "--open-mode=append")
    power_off(failing)
    node_down(failing)
    for job in (high, low):
        failing.until(lambda job=job: failing.fields(job)["JobState"] == "PENDING", f"job {job} was not put back")
    power_on(failing)
    for job, priority in ((high, "high"), (low, "low")):
        failing.run("scontrol", "update", f"JobId={job}", "StartTime=now")
        output = failing.wait(job)
        assert [f" {priority}: " in line and " 7 kernels" in line for line in failing.summaries(output, job)] == [
            True
        ], output
        failing.until(lambda job=job: failing.reported_kernels(job) == 7, f"job {job} has no report")
        end_where_slurm_does_not(failing, job)


def test_job_that_is_not_requeued_leaves_nothing_when_its_node_fails(failing: Cluster, spin: Path) -> None:
    job = failing.submit_running(program(failing, spin, "lost"), HIGH, "--no-requeue")
    power_off(failing)
    node_down(failing)
    assert failing.end(job) == "NODE_FAIL"
    power_on(failing)
    failing.until(lambda: failing.node_state() == "idle", "the node is not back")
    done = failing.run("srun", GPU, LOW, spin, "5", "20000")
    assert " 5 kernels" in done.stdout, done.stdout
